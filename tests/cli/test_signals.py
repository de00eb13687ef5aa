"""Ctrl-C, SIGTERM and SIGHUP: what was folded is saved, and no lock is left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.signalled import run_command
from tests.shared import slow
from tests.small_models import sentences

from theodolite.cli.console import Printer
from theodolite.engines.progress import Progress
from theodolite.surveys.folder import open_survey

ABORTED = 130  # what the shell expects after Ctrl-C
ALL = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


class Ran:
    """What a command left: its exit code, its messages, its folder, and the lock files beside it."""

    def __init__(self, code: int, out: Path) -> None:
        self.code, self.text, self.out = code, out.with_suffix(".log").read_text(), out
        self.locks = [path.name for path in out.parent.iterdir() if path.name.endswith(".lock")]


@pytest.fixture
def survey(small_model: Any, tmp_path: Path) -> Callable[..., Ran]:
    (tmp_path / "corpus.txt").write_text("\n".join(sentences(60, seed=8)), encoding="utf-8")
    out = tmp_path / "out"
    given = [str(small_model("bert")), "--corpus", str(tmp_path / "corpus.txt"), "--out", str(out)]
    sizes = ["--batch-tokens", "256", "--sample-size", "64", "--layers", "0,2"]

    def process(
        *signals: int, ignored: list[int] | None = None, options: tuple[str, ...] = (), in_pilot: bool = False
    ) -> Ran:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.cli.signalled", "tests.surveys.preloaded"])
        child = context.Process(
            target=run_command,
            args=(["survey", *given, *sizes, *options], out, 3, list(signals), ignored or []),
            kwargs={"in_pilot": in_pilot},
        )
        child.start()
        child.join()
        return Ran(int(child.exitcode or 0), out)

    return process


@pytest.mark.parametrize("number", [signal.SIGINT, slow(signal.SIGTERM), slow(signal.SIGHUP)], ids=str)
def test_it_is_saved_and_resumed(survey: Callable[..., Ran], number: int) -> None:
    stopped = survey(number)
    assert stopped.code == 1
    assert "stopping after the current batch is processed and saved" in stopped.text
    assert "positions, all saved. Run the same command with --resume to continue." in stopped.text
    assert stopped.locks == []
    assert list((stopped.out / "checkpoints").iterdir())
    resumed = survey(options=("--resume",))
    assert resumed.code == 0
    assert "resuming after" in resumed.text
    assert open_survey(resumed.out)
    assert resumed.locks == []


@pytest.mark.slow
def test_twice_as_to_a_process_and_its_group(survey: Callable[..., Ran]) -> None:
    stopped = survey(signal.SIGTERM, signal.SIGTERM, signal.SIGHUP)
    assert stopped.code == 1
    assert stopped.text.count("stopping after the current batch") == 1
    assert "all saved" in stopped.text


def test_a_second_ctrl_c_does_not_wait(survey: Callable[..., Ran]) -> None:
    stopped = survey(signal.SIGINT, signal.SIGINT)
    assert (stopped.code, stopped.locks) == (ABORTED, [])
    assert "all saved" not in stopped.text
    assert stopped.text.endswith("\ntheodolite: Interrupted.\n")


def test_before_anything_is_folded(survey: Callable[..., Ran]) -> None:
    stopped = survey(signal.SIGTERM, in_pilot=True)
    assert (stopped.code, stopped.locks) == (ABORTED, [])
    assert stopped.text.endswith("\ntheodolite: Interrupted.\n")
    assert not stopped.out.exists()


@pytest.mark.slow
def test_what_is_ignored_stays_ignored(survey: Callable[..., Ran]) -> None:
    ran = survey(signal.SIGHUP, ignored=[signal.SIGHUP])  # nohup
    assert ran.code == 0
    assert open_survey(ran.out)


def test_a_closed_terminal_is_no_reason_to_fail() -> None:
    ours, theirs = os.openpty()
    os.close(ours)
    printer, stream = Printer(), os.fdopen(theirs, "w")
    printer.console.file = stream
    with pytest.raises(OSError, match="Input/output"):
        os.write(theirs, b"there is nobody")
    printer.warn("stopping")
    for share in (0.5, 1.0):
        printer.progress(Progress(share, 10, 1.0))
    printer.say("nothing was raised")
    with suppress(OSError):
        stream.close()


@pytest.mark.parametrize(
    ("share", "answer"), [(0.5, "stopping after the current batch"), (1.0, "everything has been read: completing")]
)
def test_the_answer_says_what_is_left_to_do(share: float, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Printer(quiet=True).listening() as printer:
        printer.progress(Progress(share, 10, 1.0))
        printer.stop()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert capsys.readouterr().err.startswith(f"warning: {answer}")


def test_after_one_survey_the_answer_is_about_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    with Printer(quiet=True).listening() as printer:
        printer.progress(Progress(1.0, 10, 1.0))
        printer.stop()
        printer.end()
        os.kill(os.getpid(), signal.SIGINT)
    assert capsys.readouterr().err.startswith("warning: stopping after the current batch")


def test_progress_that_nobody_reads_is_no_reason_to_fail() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code = "from theodolite.cli.console import Printer; Printer().say('hello'); print('continued')"
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=writer, check=False)
    os.close(writer)
    assert (ran.returncode, ran.stdout) == (0, b"continued\n")


def test_handlers_are_restored() -> None:
    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup
    before = [signal.getsignal(number) for number in ALL]
    with Printer().listening():
        assert all(signal.getsignal(number) not in before for number in ALL)
    assert [signal.getsignal(number) for number in ALL] == before
    signal.signal(signal.SIGHUP, inherited)
