"""A survey that is overwritten stays until the new one is complete."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.shared import slow
from tests.small_models import sentences
from tests.surveys import runner

import theodolite
from theodolite.engines.progress import Listener
from theodolite.errors import InputError, TheodoliteError
from theodolite.storage.bucket import Bucket
from theodolite.storage.file_names import REPLACEMENT
from theodolite.storage.location import Location
from theodolite.surveys import folder as folders
from theodolite.surveys.api import survey
from theodolite.surveys.folder import FILES, open_survey

pytestmark = pytest.mark.usefixtures("one_thread")

OLD, NEW = sentences(12, seed=3), sentences(40, seed=4)
COMPLETE = {*FILES, "survey.json"}


@pytest.fixture(scope="module")
def old(small_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old") / "survey"
    survey(small_model("bert"), OLD, out=folder)
    return folder


@pytest.fixture
def out(old: Path, tmp_path: Path) -> Path:
    """A finished survey, with a report and a link to figures elsewhere."""
    shutil.copytree(old, tmp_path / "out")
    (tmp_path / "out" / "report.html").write_text("old")
    (tmp_path / "drawn").mkdir()
    (tmp_path / "drawn" / "figure.pdf").write_text("years of work")
    (tmp_path / "out" / "figures").symlink_to(tmp_path / "drawn")
    return tmp_path / "out"


@pytest.fixture
def run(small_model: Any, tmp_path: Path) -> Callable[..., int]:
    """Overwrite in a separate process and return its exit code."""
    (tmp_path / "new.txt").write_text("\n".join(NEW), encoding="utf-8")

    def process(out: Path, die: str = "", **settings: Any) -> int:
        child = runner.start(small_model("bert"), tmp_path / "new.txt", out, die, {"overwrite": True, **settings})
        child.join()
        return int(child.exitcode)

    return process


class Stopping(Listener):
    """Asks the run to stop after its first batch."""

    def stop(self) -> bool:
        return True


def documents(out: Location) -> int:
    return int(open_survey(out).facts["corpus"]["documents"])


def names(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("die", ["batch 2", "write 2", "write 6"])  # in the pilot, at its start, in a checkpoint
def test_killed_midway_the_old_survey_is_still_there(
    run: Callable[..., int], out: Path, tmp_path: Path, die: str
) -> None:
    before = names(out)
    assert run(out, die) == -signal.SIGKILL
    assert documents(out) == len(OLD)
    assert names(out) - {REPLACEMENT} == before
    way = "--resume to continue it or " if (out / REPLACEMENT).exists() else ""
    with pytest.raises(InputError, match=f"use {way}--overwrite to replace it"):
        survey("no model", NEW, out=out)
    assert run(out, resume=True) == 0
    assert documents(out) == len(NEW)
    assert names(out) == COMPLETE
    assert (tmp_path / "drawn" / "figure.pdf").read_text() == "years of work"


def test_resumed_it_continues_from_its_checkpoint(run: Callable[..., int], out: Path, tmp_path: Path) -> None:
    assert run(out, "write 12") == -signal.SIGKILL
    assert run(out, overwrite=False, resume=True) == 0  # --overwrite was said once
    assert "say: resuming after" in out.with_suffix(".log").read_text()
    assert run(tmp_path / "fresh") == 0
    assert open_survey(out).tokens.equals(open_survey(tmp_path / "fresh").tokens)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 4, len(COMPLETE)])
def test_killed_while_the_new_one_is_moved_into_place(run: Callable[..., int], out: Path, number: int) -> None:
    assert run(out, f"move {number}") == -signal.SIGKILL
    with pytest.raises(InputError, match=r"being replaced when .* complete: run its command again with --resume"):
        open_survey(out)
    assert run(out, resume=True) == 0
    assert "already contains this survey: nothing to do" in out.with_suffix(".log").read_text()
    assert documents(out) == len(NEW)
    assert names(out) == COMPLETE


def test_overwritten_again_an_interrupted_replacement_is_dropped(small_model: Any, out: Path) -> None:
    with pytest.raises(TheodoliteError, match=r"Interrupted .* with --resume to continue"):
        survey(small_model("bert"), NEW, out=out, overwrite=True, listener=Stopping())
    assert documents(out) == len(OLD)
    survey(small_model("bert"), NEW[:7], out=out, overwrite=True)
    assert documents(out) == 7
    assert names(out) == COMPLETE


def test_a_replacement_with_other_settings_is_not_resumed(small_model: Any, out: Path) -> None:
    with pytest.raises(TheodoliteError, match="Interrupted"):
        survey(small_model("bert"), NEW, out=out, overwrite=True, listener=Stopping())
    with pytest.raises(
        InputError,
        match=r"other settings; .*:\n  --sample-size: 4096 there, 9 now",
    ):
        survey(small_model("bert"), NEW, out=out, overwrite=True, resume=True, sample_size=9)
    assert documents(out) == len(OLD)


def test_with_both_options_a_finished_survey_of_something_else_is_replaced(small_model: Any, out: Path) -> None:
    options: dict[str, Any] = {"out": out, "overwrite": True, "resume": True}
    with pytest.raises(TheodoliteError, match="Interrupted"):
        survey(small_model("bert"), NEW, listener=Stopping(), **options)
    assert documents(out) == len(OLD)
    assert survey(small_model("bert"), NEW, **options).folder == out
    assert documents(out) == len(NEW)


def test_of_a_link_to_the_folder(small_model: Any, out: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(out)
    survey(small_model("bert"), NEW, out=tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert documents(out) == len(NEW)


@pytest.mark.parametrize("verb", [slow("save"), "merge", "measure"])
def test_other_verbs_keep_it_too(
    small_model: Any, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    import numpy as np

    parts = [survey(small_model("bert"), NEW[part::2]) for part in (0, 1)]
    verbs: dict[str, Callable[[], Any]] = {
        "save": lambda: parts[0].save(out, overwrite=True),
        "merge": lambda: theodolite.merge(parts, out=out, overwrite=True),
        "measure": lambda: theodolite.measure(np.eye(9), out=out, overwrite=True),
    }

    def fail(path: Path, table: Any) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(folders, "write_table", fail)
        with pytest.raises(OSError, match="the disk is gone"):
            verbs[verb]()
    assert documents(out) == len(OLD)
    verbs[verb]()
    assert documents(out) != len(OLD)
    assert names(out) == COMPLETE


def test_in_a_bucket(small_model: Any) -> None:
    out = Bucket(f"memory://{uuid4().hex}/survey")
    survey(small_model("bert"), OLD, out=str(out))
    with pytest.raises(TheodoliteError, match="Interrupted"):
        survey(small_model("bert"), NEW, out=str(out), overwrite=True, listener=Stopping())
    assert documents(out) == len(OLD)
    made = survey(small_model("bert"), NEW, out=str(out), resume=True)
    assert made.folder == out
    assert documents(out) == len(NEW)
    assert set(out.below()) == COMPLETE


def test_killed_while_moving_in_a_bucket(small_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Bucket(f"memory://{uuid4().hex}/survey")
    survey(small_model("bert"), OLD, out=str(out))

    def dies(self: Bucket, to: Bucket) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "copy", dies)
        with pytest.raises(KeyboardInterrupt):
            survey(small_model("bert"), NEW, out=str(out), overwrite=True)
    with pytest.raises(InputError, match=r"being replaced"):
        open_survey(out)
    survey(small_model("bert"), NEW, out=str(out), resume=True)
    assert documents(out) == len(NEW)
    assert set(out.below()) == COMPLETE
