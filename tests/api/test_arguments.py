"""Arguments mean the same in every function: a survey or its folder, a size of memory, options of the report."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.small_models import sentences

import theodolite
from theodolite import Survey, TheodoliteError
from theodolite.api.report import report as write_report

X = np.random.default_rng(0).normal(size=(60, 4))
MODULE = torch.nn.Sequential(torch.nn.Linear(4, 4))
ARRAY = torch.ones(8, 4).cumsum(0)


@pytest.fixture(autouse=True)
def _as_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let errors name arguments, as they do outside the command line."""
    monkeypatch.setattr("theodolite.errors.show_flags", False)


def watch(memory: int | str) -> Survey:
    return theodolite.watch(MODULE, [ARRAY], ["0"], memory=memory)


def measure(memory: int | str) -> Survey:
    return theodolite.measure(X, memory=memory)


@pytest.mark.parametrize("function", [measure, watch])
def test_memory_is_a_number_of_bytes_or_a_size_in_words(function: Callable[[int | str], Survey]) -> None:
    assert function("8G").facts["memory"]["budget"] == function(2**33).facts["memory"]["budget"] == 2**33
    with pytest.raises(TheodoliteError, match="needs about"):
        function("1K")
    with pytest.raises(TheodoliteError, match=r"^memory 'much' is not a size\. Write it as 8G, 512M"):
        function("much")


def test_the_memory_of_a_survey_is_checked_before_anything_is_loaded() -> None:
    with pytest.raises(TheodoliteError, match=r"^memory 'much' is not a size"):
        theodolite.survey("no such model", ["some text"], memory="much")


@pytest.fixture(scope="module")
def in_memory(small_model: Callable[[str], Path]) -> Survey:
    return theodolite.survey(small_model("bert"), sentences(40), sample_size=64, memory="8G")


def test_a_second_pass_takes_a_survey_or_its_folder(in_memory: Survey, tmp_path: Path) -> None:
    for verb in (theodolite.sets, theodolite.batches):
        with pytest.raises(TheodoliteError, match=r"is in memory only\. Write it to a folder first"):
            verb(in_memory)
    folder = tmp_path / "survey"
    in_memory.save(folder)
    saved = theodolite.load(folder)
    made = theodolite.batches(saved, size=256, count=1, corpus=sentences(40), memory="1G")
    assert made.folder == folder
    theodolite.export(saved, to="projector", out=tmp_path / "viewer")
    assert (tmp_path / "viewer").is_dir()


def test_an_unknown_population_of_a_summary_is_rejected(in_memory: Survey) -> None:
    with pytest.raises(TheodoliteError, match=r"^population 'without-sink': the survey has all, .*Did you mean"):
        in_memory.summary("without-sink")


def test_a_survey_passes_the_options_of_the_report_on(in_memory: Survey, tmp_path: Path) -> None:
    with pytest.raises(TheodoliteError, match=r"^projections 'umap' is not pca or pca,umap"):
        in_memory.report(tmp_path / "page.html", projections="umap")


def test_tab_completion_lists_public_names_only() -> None:
    for module in (theodolite, theodolite.measures):
        assert [name for name in dir(module) if not name.startswith("_")] == sorted(module.__all__)


SHARED = {
    "out": ("str | Path | None", None),
    "device": ("str | None", None),
    "memory": ("int | str | None", None),
    "overwrite": ("bool", False),
    "label": ("str | None", None),
    "seed": ("int", 0),
}
REQUIRED_OUT = {"dynamics", "export", "reproduce"}
"""Functions whose result is a folder, so that `out` has no default."""


FUNCTIONS = ["report", *(name for name in theodolite.__all__ if inspect.isfunction(getattr(theodolite, name)))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_has_one_type_and_default_in_every_function(name: str) -> None:
    parameters = inspect.signature(getattr(theodolite, name)).parameters
    for argument, (kind, default) in SHARED.items():
        if argument not in parameters or (name, argument) == ("report", "out"):
            continue
        found = parameters[argument]
        annotation = found.annotation if isinstance(found.annotation, str) else _name_type(found.annotation)
        if argument == "out" and name in REQUIRED_OUT:
            assert (annotation, found.default) == ("str | Path", inspect.Parameter.empty)
        else:
            assert (annotation, found.default) == (kind, default), argument


def _name_type(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def test_the_memory_of_a_bridge_is_a_size_in_words() -> None:
    with pytest.raises(TheodoliteError, match=r"^memory 'much' is not a size"):
        theodolite.bridge("no such model", corpus=["some text"], memory="much")


def test_a_laboratory_uses_the_device_of_a_survey_by_default(small_model: Callable[[str], Path]) -> None:
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    found = theodolite.trace(small_model("bert"), sentences(2))
    assert found.facts["model"]["device"] == expected
    with pytest.raises(TheodoliteError, match=r"^device 'gpu' is not a device"):
        theodolite.trace(small_model("bert"), sentences(2), device="gpu")


def test_the_report_shows_its_arguments() -> None:
    shown, real = (inspect.signature(each).parameters for each in (theodolite.report, write_report))
    assert {name: each.default for name, each in shown.items()} == {
        name: each.default for name, each in real.items()
    }
