from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.small_models import make, sentences

from theodolite.cli import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Theodolite = Callable[..., Ran]


@pytest.fixture
def theodolite(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Theodolite:
    """Run the command as its entry point does, and return exit code, stdout and stderr."""

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["theodolite", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 0
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("bert", tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpora") / "texts.txt"
    path.write_text("\n".join(sentences(200)) + "\n", encoding="utf-8")
    return path
