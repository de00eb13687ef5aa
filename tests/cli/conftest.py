from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from tests.shared import shared_folder
from tests.small_models import sentences

from theodolite import survey
from theodolite.cli import app as command_line
from theodolite.cli import main
from theodolite.exhibits.drawing.style import RC


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Theodolite = Callable[..., Ran]
# Built once: Typer reads the signatures of all verbs again whenever it is called.
GROUP = typer.main.get_command(command_line.app)


@pytest.fixture
def theodolite(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Theodolite:
    """Run the command as its entry point does, and return exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "200")  # so that no assertion depends on where the terminal wraps a line
    monkeypatch.setattr(command_line, "app", GROUP)

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


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw small pictures with simple fonts: what is in them does not depend on them, and fonts take long."""
    monkeypatch.setitem(RC, "savefig.dpi", 40)
    monkeypatch.setitem(RC, "pdf.fonttype", 3)


@pytest.fixture(scope="session")
def model(small_model: Callable[[str], Path]) -> Path:
    return small_model("bert")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def write(folder: Path) -> None:
        (folder / "texts.txt").write_text("\n".join(sentences(200)) + "\n", encoding="utf-8")

    return shared_folder(tmp_path_factory, "corpus", write) / "texts.txt"


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, model: Path, corpus: Path) -> Path:
    """Give a finished survey of the model, to be read only."""

    def make(folder: Path) -> None:
        survey(model, corpus, out=folder / "bert", sample_size=64)

    return shared_folder(tmp_path_factory, "survey", make) / "bert"
