"""Sources that raise, or wait, at documents that say so; found by workers by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

POISON, VENOM, SLOW = "POISON", "VENOM", "SLOW"


class Poisoned:
    """Raises for a document with POISON as it is tokenized, with VENOM when half of the layers are folded."""

    def __init__(self, source: Any, seconds: float = 0.0, each: float = 0.0) -> None:
        self.source, self.seconds, self.each, self.bad = source, seconds, each, set[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def prepare(self, documents: Sequence[tuple[int, str]]) -> Any:
        time.sleep(self.each)
        for number, text in documents:
            if POISON in text:
                raise ValueError(f"cannot read document {number}")
            if VENOM in text:
                self.bad.add(number)
            if SLOW in text:
                time.sleep(self.seconds)
        return self.source.prepare(documents)

    def run(self, prepared: Any, sink: Callable[[Any], None]) -> None:
        venomous = any(document in self.bad for document, _ in prepared.windows)
        layers = 0

        def partly(batch: Any) -> None:
            nonlocal layers
            layers += 1
            if venomous and layers > 1:
                raise RuntimeError("the forward pass fails")
            sink(batch)

        self.source.run(prepared, partly)


def poisoned(remake: Callable[[], Any], seconds: float = 0.0, each: float = 0.0) -> Any:
    """Make the source elsewhere, poisoned."""
    return Poisoned(remake(), seconds, each)
