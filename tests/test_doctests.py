"""Every example in a docstring runs and says what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import theodolite


def with_examples() -> list[str]:
    """Modules whose source holds an example; read, not imported, so that collecting stays quick."""
    root = Path(theodolite.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(root.parent).with_suffix("").parts
            found.append(".".join(parts).removesuffix(".__init__"))
    return found


@pytest.mark.parametrize("name", with_examples())
def test_examples_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_walk_sees_every_module() -> None:
    walked = {module.name for module in pkgutil.walk_packages(theodolite.__path__, "theodolite.")}
    assert set(with_examples()) <= walked | {"theodolite"}
