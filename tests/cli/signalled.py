"""A survey by command in a separate process, which sends signals to itself at a given batch."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import theodolite.sources.text.source as text_source
from theodolite.cli.app import main
from theodolite.surveys import text_survey


def run_command(
    arguments: list[str], out: Path, batch: int, signals: list[int], ignored: list[int], *, in_pilot: bool
) -> None:
    """Run the command; the signals arrive after so many batches of the fold, or of the pilot."""
    text_survey.SHARD_CHARS = 1500
    run, count = text_source.TextSource.run, 0

    def signalling(self: Any, prepared: Any, sink: Any) -> None:
        nonlocal count
        count += (out / "pilot.safetensors").exists() != in_pilot
        run(self, prepared, sink)
        if count == batch and signals:
            for number in signals:
                os.kill(os.getpid(), number)

    text_source.TextSource.run = signalling  # type: ignore[method-assign]
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the tests inherit that it is ignored
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    sys.argv = ["theodolite", *arguments]
    with out.with_suffix(".log").open("a", encoding="utf-8") as sys.stderr:
        main()
