"""A survey that is killed and resumed gives the same numbers, bit for bit."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tests.shared import shared_folder, slow
from tests.small_models import sentences
from tests.surveys import runner

from theodolite.engines.progress import Listener, Progress
from theodolite.errors import DamagedError, InputError, TheodoliteError
from theodolite.state import checkpoints
from theodolite.state import pilot as pilots
from theodolite.storage import files
from theodolite.storage.files import read_tensors
from theodolite.surveys import text_survey as text_surveys
from theodolite.surveys.api import survey
from theodolite.surveys.folder import open_survey

pytestmark = pytest.mark.usefixtures("one_thread")

DOCUMENTS = sentences(90, seed=31)
FAMILY = {"id": "bert", "word": "gpt2"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(root: Path) -> None:
        (root / "corpus.txt").write_text("\n".join(DOCUMENTS), encoding="utf-8")

    return shared_folder(tmp_path_factory, "resume-corpus", make) / "corpus.txt"


@pytest.fixture(scope="module")
def run(small_model: Any, corpus: Path) -> Callable[..., int]:
    """Run a survey in a separate process and return its exit code."""

    def process(out: Path, kind: str, die: str = "", after: float | None = None, **settings: Any) -> int:
        settings = {"units": kind, **settings}
        child = runner.start(small_model(FAMILY[kind]), corpus, out, die, settings)
        child.join(timeout=after)
        if child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        return int(child.exitcode)

    return process


@pytest.fixture(scope="module")
def undisturbed(run: Callable[..., int], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    def folder(kind: str) -> Path:
        def make(root: Path) -> None:
            assert run(root / kind, kind) == 0

        return shared_folder(tmp_path_factory, f"undisturbed-{kind}", make) / kind

    return folder


def assert_equal(one: Path, other: Path) -> None:
    """Compare tables and tensors bit for bit; survey.json holds times, which differ."""
    left, right = open_survey(one), open_survey(other)
    for table in ("layers", "tokens", "units"):
        pd.testing.assert_frame_equal(getattr(left, table), getattr(right, table), check_exact=True)
    for name in ("state.safetensors", "sample.safetensors", "pilot.safetensors"):
        mine, about = read_tensors(one / name)
        theirs, about_theirs = read_tensors(other / name)
        assert about == about_theirs
        assert mine.keys() == theirs.keys()
        assert all(mine[key].dtype == theirs[key].dtype and torch.equal(mine[key], theirs[key]) for key in mine)
    assert left.facts["counts"] == right.facts["counts"]
    assert left.facts["identity"] == right.facts["identity"]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# The files are written in the order unfinished, pilot, then state, sample and checkpoint for each checkpoint; at
# the end pilot, state, sample, layers, tokens, units and survey. A resumed run writes the pilot first.
KILLS = ["write 1", "pilot 3", "write 1", "batch 1", "write 9", "batch 4", "write 13", "batch 2", "write 4"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["id", "word"])
def test_killed_at_every_kind_of_write(
    run: Callable[..., int], undisturbed: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "killed"
    for die in KILLS:
        assert run(out, kind, die, resume=True) == -signal.SIGKILL, die
        assert len(list(out.glob("checkpoints/.*.part"))) <= 1, die  # half of a checkpoint, not of all that died
        with pytest.raises(InputError, match=r"unfinished survey\. Run its|not contain a survey"):
            open_survey(out)
    log = (tmp_path / "killed.log").read_text()
    assert "no checkpoint found: starting from the beginning" in log
    assert "say: resuming after" in log
    assert run(out, kind, resume=True) == 0
    assert_equal(out, undisturbed(kind))
    assert names(out) == names(undisturbed(kind))  # nothing half written stays


@pytest.mark.slow
def test_killed_while_the_survey_is_written(
    run: Callable[..., int], undisturbed: Callable[[str], Path], tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    # With checkpoints an hour apart only the last files are written: pilot, state, sample, tables, survey.json.
    assert run(out, "id", "write 3", checkpoint_every=3600.0) == -signal.SIGKILL
    for write in (3, 5, 8):  # the state, the first table, survey.json itself
        assert run(out, "id", f"write {write}", resume=True, checkpoint_every=3600.0) == -signal.SIGKILL
        assert "survey.json" not in names(out)
    assert run(out, "id", "clear", resume=True, checkpoint_every=3600.0) == -signal.SIGKILL
    assert "survey.json" in names(out)
    assert run(out, "id", resume=True) == 0
    assert_equal(out, undisturbed("id"))
    assert names(out) == names(undisturbed("id"))


@pytest.mark.slow
def test_killed_at_random_moments(
    run: Callable[..., int], undisturbed: Callable[[str], Path], tmp_path: Path
) -> None:
    # From loading to the last files; how far a run gets in that time depends on the machine, and must not matter.
    out, rng, killed = tmp_path / "killed", random.Random(5), 0
    for longest in (0.1, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2):
        if run(out, "word", after=rng.uniform(longest / 2, longest), resume=True) == 0:
            break
        killed += 1
    assert killed
    assert run(out, "word", resume=True) == 0
    assert_equal(out, undisturbed("word"))


@pytest.fixture(scope="module")
def killed(run: Callable[..., int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(root: Path) -> None:
        assert run(root / "out", "id", "batch 12") == -signal.SIGKILL

    out = shared_folder(tmp_path_factory, "killed", make) / "out"
    assert len(list((out / "checkpoints").iterdir())) == 2
    return out


class TestDamagedCheckpoints:
    @pytest.fixture
    def halted(self, killed: Path, tmp_path: Path) -> Path:
        shutil.copytree(killed, tmp_path / "halted")
        return tmp_path / "halted"

    @pytest.mark.parametrize(
        ("name", "damage"),
        [
            ("state.safetensors", "cut"),
            *(
                pytest.param(name, damage, marks=pytest.mark.slow)
                for name in ("state.safetensors", "sample.safetensors", "checkpoint.json")
                for damage in ("cut", "flipped", "missing")
                if (name, damage) != ("state.safetensors", "cut")
            ),
        ],
    )
    def test_the_newest_falls_back_to_the_one_before(
        self, halted: Path, run: Callable[..., int], undisturbed: Callable[[str], Path], name: str, damage: str
    ) -> None:
        newest = max((halted / "checkpoints").iterdir())
        harm(newest / name, damage)
        assert run(halted, "id", resume=True) == 0
        log = halted.with_suffix(".log").read_text()
        assert log.count("warn:") == 1
        # A byte of checkpoint.json may be of a name or a sum that it holds; the folder is named either way.
        error = name if name != "checkpoint.json" else newest.name
        assert error in next(line for line in log.splitlines() if line.startswith("warn:"))
        assert "Using the checkpoint before it." in log
        assert "resuming after" in log
        assert_equal(halted, undisturbed("id"))

    @pytest.mark.slow
    def test_all_of_them(self, halted: Path, run: Callable[..., int], undisturbed: Callable[[str], Path]) -> None:
        for folder in (halted / "checkpoints").iterdir():
            harm(folder / "state.safetensors", "flipped")
        assert run(halted, "id", resume=True) == 0
        log = halted.with_suffix(".log").read_text()
        assert log.count("Using the checkpoint before it.") == 2
        assert "no checkpoint found: starting from the beginning" in log
        assert_equal(halted, undisturbed("id"))

    @pytest.mark.usefixtures("small_steps")
    @pytest.mark.parametrize("damage", ["cut", slow("flipped at the end"), slow("missing")])
    def test_a_damaged_pilot_is_taken_again(
        self,
        halted: Path,
        undisturbed: Callable[[str], Path],
        corpus: Path,
        small_model: Any,
        damage: str,
    ) -> None:
        harm(halted / "pilot.safetensors", damage)
        heard = Stopping(10**6)
        resumed(halted, corpus, small_model("bert"), listener=heard)
        assert any(line.startswith("resuming after") for line in heard.said)
        assert [line.endswith("taken again, from the same documents.") for line in heard.warned] == (
            [True] if damage != "missing" else []
        )
        assert_equal(halted, undisturbed("id"))

    @pytest.mark.usefixtures("small_steps")
    def test_sums_about_another_pilot_are_rejected(
        self, halted: Path, corpus: Path, small_model: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Sums about another centre would be wrong without a sign.
        harm(halted / "pilot.safetensors", "flipped at the end")
        monkeypatch.setattr(pilots, "POSITIONS", 16)  # as if the machine computed other numbers
        with pytest.raises(DamagedError, match=r"taken again differs, .* Start again with --overwrite"):
            resumed(halted, corpus, small_model("bert"))


def harm(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "missing":
        path.unlink()
        return
    if how == "cut":
        del data[len(data) // 2 :]
    else:
        data[-1 if "end" in how else len(data) // 2] ^= 0x10
    path.write_bytes(data)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make many small shards and a checkpoint after every batch, in this process."""
    monkeypatch.setattr(text_surveys, "SHARD_CHARS", 1500)
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))


def resumed(out: Path, corpus: Path, model: Path, **settings: Any) -> Any:
    return survey(model, corpus, out=out, **({"resume": True} | runner.SETTINGS | settings))


class Stopping(Listener):
    """Stops the run after a number of batches."""

    def __init__(self, batches: int) -> None:
        self.left = batches
        self.said: list[str] = []
        self.warned: list[str] = []

    def stop(self) -> bool:
        self.left -= 1
        return self.left < 0

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warned.append(text)


@pytest.mark.usefixtures("small_steps")
class TestInThisProcess:
    def test_asked_to_stop(
        self, undisturbed: Callable[[str], Path], tmp_path: Path, corpus: Path, small_model: Any
    ) -> None:
        out, model = tmp_path / "out", small_model("bert")
        with pytest.raises(TheodoliteError, match=r"Interrupted after [0-9,]+ positions, all saved\. .* --resume"):
            resumed(out, corpus, model, listener=Stopping(6), checkpoint_every=3600.0)
        with pytest.raises(
            InputError, match=r"an unfinished survey\. .* use --resume to continue it or --overwrite"
        ):
            resumed(out, corpus, model, resume=False)
        with pytest.raises(
            InputError, match=r"contains an unfinished survey\. Run its command again with --resume"
        ):
            open_survey(out)
        resumed(out, corpus, model)
        assert_equal(out, undisturbed("id"))

    def test_the_time_left_is_that_of_what_is_left(
        self, tmp_path: Path, corpus: Path, small_model: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also if the run was interrupted in the middle of a shard: here of the only one."""

        class Watching(Stopping):
            def progress(self, progress: Progress) -> None:
                seen.append(progress)

        seen: list[Progress] = []
        monkeypatch.setattr(text_surveys, "SHARD_CHARS", 10**6)
        with pytest.raises(TheodoliteError, match="Interrupted"):
            resumed(tmp_path / "out", corpus, small_model("bert"), listener=Watching(6))
        share, positions = seen[-1].share, seen[-1].positions
        assert 0.1 < share < 0.9
        assert [one.at_start for one in seen] == pytest.approx([0.0] * len(seen))
        seen.clear()
        resumed(tmp_path / "out", corpus, small_model("bert"), listener=Watching(10**6))
        assert [one.at_start for one in seen] == pytest.approx([share] * len(seen))
        assert {one.before for one in seen} == {positions}
        assert seen[-1].share == 1

    def test_without_a_folder_nothing_can_be_saved(self, corpus: Path, small_model: Any) -> None:
        with pytest.raises(TheodoliteError, match="Nothing was saved, because --out was not given"):
            survey(small_model("bert"), corpus, listener=Stopping(1))

    def test_other_settings_are_listed(self, tmp_path: Path, corpus: Path, small_model: Any) -> None:
        out, model = tmp_path / "out", small_model("bert")
        with pytest.raises(TheodoliteError, match="Interrupted"):
            resumed(out, corpus, model, listener=Stopping(2))
        with pytest.raises(InputError) as error:
            resumed(out, corpus, model, batch_tokens=128, units="surface", max_tokens=20)
        assert str(error.value).splitlines() == [
            f"--resume: the run in {out} has other settings; give them, or another --out:",
            "  --batch-tokens: 256 there, 128 now",
            "  --max-tokens: 64 there, 20 now",
            "  --units: 'id' there, 'surface' now",
        ]
        with pytest.raises(InputError) as error:
            resumed(out, corpus, model, limit=50, listener=(listener := Stopping(10**6)))
        _, limit, documents = str(error.value).splitlines()
        assert limit == "  --limit: not given there, 50 now"
        assert re.fullmatch(r"  corpus\.sha256: \w{8}… there, \w{8}… now \(the documents\)", documents)
        assert not [line for line in listener.said if line.startswith("loading")], "rejected before the model"
        with pytest.raises(InputError, match=r"model\.sha256: \w{8}… there, .* \(the weights\)"):
            resumed(out, corpus, small_model("roberta"))

    @pytest.mark.parametrize("runs", [slow((False, True)), (True, False, True)])
    def test_text_is_not_stored_if_the_run_was_without_it(
        self, tmp_path: Path, corpus: Path, small_model: Any, runs: tuple[bool, ...]
    ) -> None:
        out, model = tmp_path / "out", small_model("bert")
        for text in runs[:-1]:
            with pytest.raises(TheodoliteError, match="Interrupted"):
                resumed(out, corpus, model, text=text, listener=Stopping(2))
        made = resumed(out, corpus, model, text=runs[-1], listener=(heard := Stopping(10**6)))
        assert len(made.tables.contexts) == len(open_survey(out).tables.contexts) == 0
        assert heard.warned == [
            "this run was given --no-text before, so no text is stored now. To store text, survey again into "
            "another --out"
        ]

    @pytest.mark.slow
    def test_a_run_that_does_not_record_text_is_resumed_as_given(
        self, tmp_path: Path, corpus: Path, small_model: Any
    ) -> None:
        out, model = tmp_path / "out", small_model("bert")
        with pytest.raises(TheodoliteError, match="Interrupted"):
            resumed(out, corpus, model, listener=Stopping(2))
        record = files.read_json(out / "unfinished.json")
        assert record.pop("text") is True
        files.write_json(out / "unfinished.json", record)  # as an older version wrote it
        assert len(resumed(out, corpus, model).tables.contexts)

    def test_a_finished_survey_is_returned(
        self, undisturbed: Callable[[str], Path], corpus: Path, small_model: Any
    ) -> None:
        folder, listener = undisturbed("id"), Stopping(10**6)
        before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        found = resumed(folder, corpus, small_model("bert"), listener=listener)
        assert f"{folder} already contains this survey: nothing to do" in listener.said
        assert found.layers.equals(open_survey(folder).layers)
        assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
        with pytest.raises(InputError, match=r"--sample-size: 256 there, 99 now"):
            resumed(folder, corpus, small_model("bert"), sample_size=99)

    def test_resuming_an_empty_folder_starts_a_new_run(
        self, undisturbed: Callable[[str], Path], tmp_path: Path, corpus: Path, small_model: Any
    ) -> None:
        resumed(tmp_path / "new", corpus, small_model("bert"))
        assert_equal(tmp_path / "new", undisturbed("id"))

    @pytest.mark.slow
    def test_words_keep_their_codes_when_resumed_with_less_memory(
        self, undisturbed: Callable[[str], Path], tmp_path: Path, corpus: Path, small_model: Any
    ) -> None:
        # The resumed run counts the words beforehand, which the first did not: their codes must not move.
        out, model = tmp_path / "out", small_model("gpt2")
        with pytest.raises(TheodoliteError, match="Interrupted"):
            resumed(out, corpus, model, units="word", listener=Stopping(9))
        estimate = open_survey(undisturbed("word")).facts["memory"]
        resumed(out, corpus, model, units="word", memory=estimate["bytes"] - 1)
        assert_equal(out, undisturbed("word"))

    def test_a_changed_corpus_is_reported(self, tmp_path: Path, small_model: Any) -> None:
        text = tmp_path / "corpus.txt"
        text.write_text("\n".join(DOCUMENTS[:40]), encoding="utf-8")
        with pytest.raises(TheodoliteError, match="Interrupted"):
            resumed(tmp_path / "out", text, small_model("bert"), listener=Stopping(2))
        text.write_text("\n".join(DOCUMENTS[:39]), encoding="utf-8")
        with pytest.raises(InputError, match=r"corpus.sha256"):
            resumed(tmp_path / "out", text, small_model("bert"))

    @pytest.mark.slow
    def test_a_full_disk_by_its_error(
        self,
        undisturbed: Callable[[str], Path],
        tmp_path: Path,
        corpus: Path,
        small_model: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        out, whole, count = tmp_path / "out", files.write_atomically, 0

        def filling(path: Path, write: Callable[[Path], None]) -> None:
            nonlocal count
            count += 1

            def full(beside: Path) -> None:
                beside.write_bytes(b"half")
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            whole(path, full if count > 12 else write)

        with monkeypatch.context() as patch:
            patch.setattr(files, "write_atomically", filling)
            with pytest.raises(
                TheodoliteError, match=r"The disk is full: .* could not be written. Free some space"
            ):
                resumed(out, corpus, small_model("bert"))
        # Two from before, and nothing of the one that failed.
        assert sorted(names(out / "checkpoints")) == ["000002", "000003"]
        resumed(out, corpus, small_model("bert"))
        assert_equal(out, undisturbed("id"))

    def test_a_full_disk(
        self, undisturbed: Callable[[str], Path], tmp_path: Path, corpus: Path, small_model: Any
    ) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("a small disk can be mounted by the superuser only")
        try:
            with pytest.raises(TheodoliteError, match=r"The disk is full: .* Free some space"):
                resumed(disk / "out", corpus, small_model("bert"))
            assert not list(disk.rglob("*.part"))
            assert names(disk / "out" / "checkpoints")
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            listener = Stopping(10**6)
            resumed(disk / "out", corpus, small_model("bert"), listener=listener)
            assert any(line.startswith("resuming after") for line in listener.said)
            assert_equal(disk / "out", undisturbed("id"))
        finally:
            subprocess.run(["umount", str(disk)], check=True)
