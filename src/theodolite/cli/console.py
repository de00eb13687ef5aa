"""Progress on stderr: lines, a bar with rate and time left, and the wish to stop."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from theodolite.surveys.listener import Listener, Progress

EVERY = 15.0  # seconds between lines where stderr is no terminal


class Printer(Listener):
    """Prints to stderr; on a terminal with a bar."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True, highlight=False)
        self._bar: Bar | None = None
        self._task: Any = None
        self._printed = 0.0
        self._asked = False

    def say(self, text: str) -> None:
        """Print what is going on."""
        if self.quiet:
            return
        self._close()
        if text.startswith("measuring layer") and not self.console.is_terminal:
            return  # one line a layer is for those who watch
        self.console.print(text, markup=False, style="dim")

    def warn(self, text: str) -> None:
        """Print what the user must not miss, quiet or not."""
        self._close()
        self.console.print(f"warning: {text}", markup=False, style="yellow")

    def progress(self, progress: Progress) -> None:
        """Move the bar, or print a line now and then."""
        if self.quiet:
            return
        text = told(progress)
        if self.console.is_terminal:
            if self._bar is None:
                self._bar = Bar(BarColumn(), TextColumn("{task.description}"), console=self.console)
                self._bar.start()
                self._task = self._bar.add_task(text, total=1.0)
            self._bar.update(self._task, completed=progress.share, description=text)
        elif time.monotonic() - self._printed >= EVERY or progress.share >= 1:
            self._printed = time.monotonic()
            self.console.print(text, markup=False)

    def stop(self) -> bool:
        """Say whether Ctrl-C was pressed."""
        return self._asked

    @contextmanager
    def listening(self) -> Iterator[Printer]:
        """While open, the first Ctrl-C asks the run to save and stop; a second one stops at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self._asked:
                raise KeyboardInterrupt
            self._asked = True
            self.warn("stopping when what is in hand is folded and saved; Ctrl-C again to stop without saving")

        before = signal.signal(signal.SIGINT, ask)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)
            self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def told(progress: Progress) -> str:
    """Return share, positions, rate and time left in one line.

    >>> told(Progress(0.5, 30_000, 60.0))
    ' 50%     30,000 positions    500/s  1:00 left'
    """
    rate = progress.positions / progress.seconds if progress.seconds > 0 else 0.0
    gone = progress.share - progress.begun
    left = progress.seconds * (1 - progress.share) / gone if gone > 0 else 0.0
    minutes, seconds = divmod(round(left), 60)
    return (
        f"{progress.share:4.0%} {progress.positions:>10,} {progress.of} {rate:>6,.0f}/s  "
        f"{minutes}:{seconds:02d} left"
    )


def hush() -> None:
    """Keep transformers' own bars and advice out of the user's terminal."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def result(value: str) -> None:
    """Print a result to stdout."""
    sys.stdout.write(value + "\n")
