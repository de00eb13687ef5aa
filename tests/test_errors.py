"""Messages name the flags of the command line there, and the arguments of Python in Python."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import theodolite
from theodolite import errors
from theodolite.cli import main
from theodolite.errors import InputError, first_line, name_arguments


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "show_flags", False)


@pytest.mark.usefixtures("in_python")
def test_errors_in_python_name_arguments(small_model: Any) -> None:
    with pytest.raises(InputError, match=r"^sample requires a fraction above 0"):
        theodolite.survey(small_model("bert"), ["a"], sample=3.0)
    with pytest.raises(InputError, match=r"^part '5': expected I/N"):
        theodolite.survey(small_model("bert"), ["a"], part="5")


@pytest.mark.usefixtures("in_python")
def test_a_message_inside_another_is_translated_once() -> None:
    inner = InputError("--max-tokens is too large.")
    assert first_line(inner) == "--max-tokens is too large."
    assert str(InputError(f"layer 3: {first_line(inner)}")) == "layer 3: max_tokens is too large."


@pytest.mark.usefixtures("in_python")
def test_the_command_line_names_flags(
    small_model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "--corpus README.md --sample 3 --out never-written".split()
    monkeypatch.setattr(sys, "argv", ["theodolite", "survey", str(small_model("bert")), *options])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "--sample requires a fraction" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Use fewer --layers or --memory.", "Use fewer layers or memory."),
        ("give --overwrite to replace it", "give overwrite=True to replace it"),
        ("made with --no-projections", "made with projections=False"),
        ("run `theodolite show DIR --json`", "run `theodolite show DIR --json`"),
        ("a---b and --- and x--y", "a---b and --- and x--y"),
        ("--wrap: True there, False now", "wrap: True there, False now"),
        (
            "CORPUS 'x' is empty; `theodolite survey MODEL` reads it",
            "corpus 'x' is empty; `theodolite survey MODEL` reads it",
        ),
        ("--out s3://bucket/--odd is full", "out s3://bucket/--odd is full"),
    ],
)
def test_flags_become_arguments(message: str, expected: str) -> None:
    assert name_arguments(message) == expected
