"""Turns at the interpreter: a thread that feeds a GPU asks for it often, and for moments."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

OFTEN = 2e-4
"""Seconds for which another thread may keep the interpreter from one that waits; Python's own choice is 5e-3."""


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads change places more often meanwhile.

    Every call of the GPU's library gives the interpreter up, and gets it back from a thread that reads or lays out
    text only when that one's turn is over: a forward pass is a thousand such calls.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(OFTEN, before))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
