"""What a source is: something that turns documents into batches of states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from theodolite.batch import Batch
from theodolite.sources.layers import Layer
from theodolite.sources.units import Units

Sink = Callable[[Batch], None]


class Prepared(Protocol):
    """One batch ready to run."""

    @property
    def positions(self) -> int:
        """How many rows each layer will give."""


class Source(Protocol):
    """A model over a kind of document."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that are taken."""

    @property
    def units(self) -> Units:
        """What positions are counted by."""

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> Sequence[Prepared]:
        """Turn (number, document) pairs into batches. Pure, apart from new units; may run in another thread."""

    def units_of(self, prepared: Any) -> Iterable[int]:
        """Return the codes of the units in a batch, for counting them without running the model."""

    def run(self, prepared: Any, sink: Sink) -> None:
        """Carry one batch through the model; the sink is called once for each layer, in order."""
