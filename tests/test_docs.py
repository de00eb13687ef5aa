"""The result of an example of the docs; tests/docs runs them all."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_character_model_is_surveyed_without_its_padding() -> None:
    block = re.search(r"```python\n(.*?)```", (DOCS / "any-module.md").read_text(), flags=re.DOTALL)
    assert block is not None
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(block[1], "any-module.md", "exec"), names)
    layers = names["found"].layers  # type: ignore[attr-defined]
    words = sum(len(sentence.split()) for sentence in names["sentences"])  # type: ignore[attr-defined]
    assert set(layers[layers["population"] == "all"]["n"]) == {words}
