"""Progress on stderr (lines, or a bar with rate and time left), results on stdout, and signals such as Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from theodolite.cli.pipes import discard, ignore_end_of_reader
from theodolite.engines.progress import Listener, Progress
from theodolite.environment import STOP_SIGNALS


class PipedConsole(Console):
    """Prints to stdout or stderr, and continues if the program that reads them has ended."""

    def on_broken_pipe(self) -> None:
        """Discard all further output; rich would end the command with exit code 1."""
        discard(self.file)


EVERY = 15.0  # seconds between lines if stderr is not a terminal


class Printer(Listener):
    """Prints progress to stderr, with a bar if it is a terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = PipedConsole(stderr=True, highlight=False)
        self._bar: Bar | None = None
        self._task: Any = None
        self._printed = 0.0
        self._interrupted = False
        self._asked = False
        self._complete = False  # everything of a survey has been read, and it is not complete yet

    def say(self, text: str) -> None:
        """Print a line of progress."""
        if self.quiet:
            return
        self._close()
        if text.startswith("measuring layer") and not self.console.is_terminal:
            return  # one line per layer is too much for a log file
        self._print(text, style="dim")

    def warn(self, text: str) -> None:
        """Print a warning, even with --quiet."""
        self._close()
        self._print(f"warning: {text}", style="yellow")

    def progress(self, progress: Progress) -> None:
        """Update the bar, or print a line every EVERY seconds."""
        self._complete = progress.share > 1 - 1e-9
        if self.quiet:
            return
        text = format_progress(progress)
        if self.console.is_terminal:
            with suppress(OSError):  # see _print
                if self._bar is None:
                    self._bar = Bar(BarColumn(), TextColumn("{task.description}"), console=self.console)
                    self._bar.start()
                    self._task = self._bar.add_task(text, total=1.0)
                self._bar.update(self._task, completed=progress.share, description=text)
        elif time.monotonic() - self._printed >= EVERY or progress.share >= 1:
            self._printed = time.monotonic()
            self._print(text)

    def end(self) -> None:
        """Note that a survey is complete."""
        self._complete = False

    def stop(self) -> bool:
        """Return whether a signal asked to stop."""
        self._asked = True
        return self._interrupted

    @contextmanager
    def listening(self) -> Iterator[Printer]:
        """In the body, a signal asks the run to save and stop; a second Ctrl-C stops it immediately.

        So does the first signal if the run has not asked yet whether to stop: there is nothing to save. SIGTERM
        and SIGHUP often come twice, to the process and to its group, so only Ctrl-C counts.
        """

        def interrupt(number: int, frame: FrameType | None) -> None:
            if not self._asked or (self._interrupted and number == signal.SIGINT):
                raise KeyboardInterrupt
            if not self._interrupted:
                self._interrupted = True
                what = (
                    "everything has been read: completing the results"
                    if self._complete
                    else "stopping after the current batch is processed and saved"
                )
                self.warn(f"{what}; Ctrl-C again stops without saving")

        ignored = [number for number in STOP_SIGNALS[1:] if signal.getsignal(number) == signal.SIG_IGN]  # nohup
        before = {number: signal.signal(number, interrupt) for number in STOP_SIGNALS if number not in ignored}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)
            self._close()

    def _print(self, text: str, style: str | None = None) -> None:
        # Without soft_wrap, rich would break paths and commands into lines of 80 characters in a log file.
        with suppress(OSError):  # the terminal was closed; the run saves what it has
            self.console.print(text, markup=False, style=style, soft_wrap=True)

    def _close(self) -> None:
        if self._bar is not None:
            with suppress(OSError):
                self._bar.stop()
            self._bar = None


def format_progress(progress: Progress) -> str:
    """Return one line with share, positions, rate and time left.

    >>> format_progress(Progress(0.5, 30_000, 60.0))
    ' 50%     30,000 positions    500/s  1:00 left'
    >>> format_progress(Progress(0.75, 30_000, 60.0, at_start=0.5, before=60_000))
    ' 75%     90,000 positions    500/s  1:00 left'
    """
    rate = progress.positions / progress.seconds if progress.seconds > 0 else 0.0
    gone = progress.share - progress.at_start
    left = progress.seconds * (1 - progress.share) / gone if gone > 0 else 0.0
    minutes, seconds = divmod(round(left), 60)
    return (
        f"{progress.share:4.0%} {progress.before + progress.positions:>10,} {progress.unit} {rate:>6,.0f}/s  "
        f"{minutes}:{seconds:02d} left"
    )


def silence_transformers() -> None:
    """Hide the progress bars and warnings of transformers."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def print_result(value: str = "") -> None:
    """Print a result to stdout."""
    with ignore_end_of_reader():
        sys.stdout.write(value + "\n")
