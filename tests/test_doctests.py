"""Every example in a docstring runs and prints what it shows."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import theodolite

PACKAGE = Path(theodolite.__file__).parent
TOP = Path(__file__).parent.parent
BESIDE = ("benchmarks", "examples", "gallery", "manual")


def holding_examples(folder: Path) -> list[Path]:
    """Files whose source holds an example; read, not imported, so that collecting stays quick."""
    return [path for path in sorted(folder.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


def named(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def with_examples() -> list[str]:
    return [named(path, PACKAGE.parent) for path in holding_examples(PACKAGE)]


def beside() -> list[str]:
    return [named(path, TOP) for folder in BESIDE for path in holding_examples(TOP / folder)]


@pytest.mark.parametrize("name", with_examples() + beside())
def test_examples_run(name: str) -> None:
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_every_module_is_visited() -> None:
    walked = {module.name for module in pkgutil.walk_packages(theodolite.__path__, "theodolite.")}
    assert set(with_examples()) <= walked | {"theodolite"}
