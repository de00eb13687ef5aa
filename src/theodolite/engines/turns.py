"""Turns: a thread that feeds a GPU asks for the interpreter often, and for moments; the cores are others'."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

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


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread meanwhile: where text is prepared on all cores, calling others takes longest."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
