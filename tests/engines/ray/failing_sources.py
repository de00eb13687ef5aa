"""Sources that raise or wait at documents with a marker; workers import them by name."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FAILS_IN_PREPARE, FAILS_IN_RUN, SLOW = "POISON", "VENOM", "SLOW"


class FailingSource:
    """Raises at a document with POISON in `prepare`, with VENOM in `run` after one layer; waits at one with SLOW.

    At SLOW it waits until the file `release` exists. With `barrier`, a folder, every process waits at its first
    shard until two processes have one. Neither is done for the pilot, which has `pilot` documents.
    """

    def __init__(
        self, source: Any, release: Path | None = None, barrier: Path | None = None, pilot: int = 0
    ) -> None:
        self.source, self.failing = source, set[int]()
        self.release, self.barrier, self.pilot = release, barrier, pilot

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def prepare(self, documents: Sequence[tuple[int, str]]) -> Any:
        if self.barrier is not None and len(documents) != self.pilot:
            (self.barrier / f"{platform.node()}-{os.getpid()}").touch()
            wait_until(lambda: len(list(self.barrier.iterdir())) > 1)
        for number, text in documents:
            if FAILS_IN_PREPARE in text:
                raise ValueError(f"cannot read document {number}")
            if FAILS_IN_RUN in text:
                self.failing.add(number)
            if SLOW in text and self.release is not None and len(documents) != self.pilot:
                wait_until(self.release.exists)
        return self.source.prepare(documents)

    def run(self, prepared: Any, sink: Callable[[Any], None]) -> None:
        fails = any(document in self.failing for document, _ in prepared.windows)
        layers = 0

        def partly(batch: Any) -> None:
            nonlocal layers
            layers += 1
            if fails and layers > 1:
                raise RuntimeError("the forward pass fails")
            sink(batch)

        self.source.run(prepared, partly)


def make_failing_source(remake: Callable[[], Any], **options: Any) -> Any:
    """Make the source on another machine, and wrap it."""
    return FailingSource(remake(), **options)


def wait_until(condition: Callable[[], bool], limit: float = 1800.0) -> None:
    """Wait for a condition on a machine that may be busy; the limit only ends a test that is broken."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the condition was not met within {limit:.0f} s")
        time.sleep(0.05)
