"""Surveys in separate processes, which can be killed: at a given write, at a given batch, or from outside.

Processes are forked from a server that has imported everything, so that one costs a fraction of a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import theodolite.sources.text.source as text_source
import theodolite.state.checkpoints as checkpoints
import theodolite.storage.files as files
import theodolite.surveys.folder as folder
import theodolite.surveys.text_survey as text_surveys
import theodolite.tables.table_files as table_files
from theodolite.engines.progress import Listener
from theodolite.surveys.api import survey as run_survey

SETTINGS = {"batch_tokens": 256, "checkpoint_every": 0.0, "sample_size": 256}


class Log(Listener):
    """Writes the messages of a run to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def say(self, text: str) -> None:
        self._write(f"say: {text}")

    def warn(self, text: str) -> None:
        self._write(f"warn: {text}")

    def _write(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")


def small_steps() -> None:
    """Make many small shards, and a checkpoint after every batch."""
    torch.set_num_threads(1)  # the same in every run, and the machine may be busy
    text_surveys.SHARD_CHARS = 1500
    checkpoints.SHARE = float("inf")


def survey(model: Path, corpus: Path, out: Path, die: str, settings: dict[str, Any]) -> None:
    """Run in this process, and die at a moment.

    `die` is "", "write N", "pilot N" (batches), "batch N" (after the pilot), "clear" or "move N" (files).
    """
    small_steps()
    what, _, number = die.partition(" ")
    if what == "write":
        _die_at_write(int(number))
    elif what in ("pilot", "batch"):
        piloted = out / "pilot.safetensors"
        _die_at_batch(int(number), lambda: piloted.exists() == (what == "batch"))
    elif what == "clear":
        checkpoints.Checkpoints.clear = lambda self: _die()  # type: ignore[method-assign]
    elif what == "move":
        _die_at_move(int(number))
    run_survey(model, corpus, out=out, listener=Log(out.with_suffix(".log")), **(SETTINGS | settings))


def start(*arguments: Any) -> Any:
    """Start a survey in a separate process and return the process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.surveys.runner", "tests.surveys.preloaded"])
    process = context.Process(target=survey, args=arguments)
    process.start()
    return process


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_at_write(number: int) -> None:
    """Die with the file half written."""
    whole, count = files.write_atomically, 0

    def half(path: Path, write: Callable[[Path], None]) -> None:
        nonlocal count
        count += 1
        if count < number:
            whole(path, write)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}.part")
        write(beside)
        os.truncate(beside, beside.stat().st_size // 2)
        _die()

    files.write_atomically = table_files.write_atomically = half


def _die_at_move(number: int) -> None:
    """Die before the n-th file of a replacement is moved into place."""
    move, count = folder.move, 0

    def dying(file: Path, to: Path) -> None:
        nonlocal count
        count += 1
        if count == number:
            _die()
        move(file, to)

    folder.move = dying


def _die_at_batch(number: int, counts: Callable[[], bool]) -> None:
    """Die with a batch folded into some of the layers, the n-th of those that count."""
    run, count = text_source.TextSource.run, 0

    def dying(self: Any, prepared: Any, sink: Any) -> None:
        nonlocal count
        count += counts()
        layers = 0

        def partly(batch: Any) -> None:
            nonlocal layers
            layers += 1
            if count == number and layers == 2:
                _die()
            sink(batch)

        run(self, prepared, partly)

    text_source.TextSource.run = dying  # type: ignore[method-assign]
