"""The examples of the docs run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["any-module.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_the_character_model_is_surveyed_without_its_padding() -> None:
    block = re.search(r"```python\n(.*?)```", (DOCS / "any-module.md").read_text(), flags=re.DOTALL)
    assert block is not None
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(block[1], "any-module.md", "exec"), names)
    layers = names["found"].layers  # type: ignore[attr-defined]
    words = sum(len(sentence.split()) for sentence in names["sentences"])  # type: ignore[attr-defined]
    assert set(layers[layers["population"] == "all"]["n"]) == {words}
