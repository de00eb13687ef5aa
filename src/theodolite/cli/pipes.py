"""Output to a program that may end before it has read everything, such as `head`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def ignore_end_of_reader() -> Iterator[None]:
    """In the body, discard what is written to stdout once the program that reads it has ended.

    The command continues: its files and its exit code may be what the user wants.
    """
    try:
        yield
    except BrokenPipeError:
        discard(sys.stdout)


def discard(stream: IO[str]) -> None:
    """Discard all that is written to a stream from now on, and what it has not written yet."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
