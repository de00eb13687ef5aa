"""A laboratory's folder: complete or marked as unfinished; folders of others are not replaced."""

from __future__ import annotations

import os
from inspect import signature
from itertools import count
from pathlib import Path

import pandas as pd
import pytest
import torch

from theodolite import block, cautions, clouds, contrast, groups, probe, trace, weights
from theodolite.errors import InputError
from theodolite.studies.laboratory import Findings, check_laboratory_folder, is_laboratory, open_laboratory

FILES = ["laboratory.json", "t.parquet", "u.parquet", "vectors.safetensors"]


def findings(value: int = 1, laboratory: str = "trace") -> Findings:
    tables = {name: pd.DataFrame({"x": [value]}) for name in ("t", "u")}
    return Findings({"laboratory": laboratory}, tables, {"v": torch.tensor([float(value)])})


def values(folder: Path) -> set[float]:
    found = open_laboratory(folder)
    return {table["x"].iloc[0] for table in found.tables.values()} | {found.vectors["v"].item()}


def save_killed_at(moment: int, folder: Path, made: Findings) -> bool:
    """Save, and stop before the n-th file is on disk, moved or deleted; return whether it was stopped."""
    moments = count()

    def dying(do):
        def did(*given, **named):
            if next(moments) == moment:
                raise KeyboardInterrupt
            return do(*given, **named)

        return did

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "replace", "unlink"):
            patch.setattr(os, name, dying(getattr(os, name)))
        try:
            made.save(folder, overwrite=True)
        except KeyboardInterrupt:
            return True
    return False


@pytest.mark.parametrize("before", [False, True])
def test_a_save_killed_at_any_moment_can_be_made_again(tmp_path: Path, before: bool) -> None:
    for moment in count():
        folder = tmp_path / str(moment)
        if before:
            findings(1).save(folder)
        if not save_killed_at(moment, folder, findings(2)):
            break
        finished = is_laboratory(folder)
        assert not finished or values(folder) in ({1}, {2})
        findings(3).save(folder, overwrite=finished)  # what is unfinished may be replaced unasked
        assert values(folder) == {3}
        assert sorted(each.name for each in folder.iterdir()) == FILES
    assert moment > 8


def test_an_unfinished_folder_of_another_laboratory_is_not_replaced(tmp_path: Path) -> None:
    assert save_killed_at(5, tmp_path / "k", findings(laboratory="block"))
    with pytest.raises(InputError, match=r"contains \.block\.unfinished.* and no results of"):
        check_laboratory_folder(tmp_path / "k", "trace", overwrite=True)


def test_a_folder_with_other_tables_is_not_replaced(tmp_path: Path) -> None:
    findings().tables["t"].to_parquet(tmp_path / "mine.parquet")
    with pytest.raises(InputError, match=r"contains mine\.parquet and no results of `theodolite trace`"):
        findings().save(tmp_path, overwrite=True)


def test_replacing_a_finished_folder_requires_overwrite(tmp_path: Path) -> None:
    findings().save(tmp_path)
    with pytest.raises(InputError, match="already contains results; give --overwrite"):
        findings().save(tmp_path)
    with pytest.raises(InputError, match="contains results of `theodolite trace`"):
        findings(laboratory="block").save(tmp_path, overwrite=True)


@pytest.mark.parametrize("made", [str, Path])
def test_a_file_url_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: type) -> None:
    monkeypatch.chdir(tmp_path)
    folder = findings().save(made(f"file://{tmp_path}/here"))
    assert folder == tmp_path / "here"
    assert values(folder) == {1}
    assert [each.name for each in tmp_path.iterdir()] == ["here"]  # and no folder called file:
    with pytest.raises(InputError, match="already contains results"):
        findings().save(made(f"file://{tmp_path}/here"))


def test_every_laboratory_writes_its_folder_if_asked() -> None:
    """`out` and `overwrite` have the same meaning in all of them, and the folder is checked before any work."""
    for function in (block, cautions, clouds, contrast, groups, probe, trace, weights):
        parameters = signature(function).parameters
        assert parameters["out"].default is None
        assert parameters["overwrite"].default is False


@pytest.mark.slow
def test_results_are_written_if_asked(tmp_path: Path) -> None:
    made = cautions(out=tmp_path / "c", seed=1)  # UMAP compiles in the first call
    assert open_laboratory(tmp_path / "c").facts["settings"] == made.facts["settings"]
    with pytest.raises(InputError, match="--overwrite"):
        cautions(out=tmp_path / "c")
    with pytest.raises(InputError, match="contains results of `theodolite cautions`"):
        contrast("no model", {"a": [["x", "y"]]}, out=tmp_path / "c", overwrite=True)
