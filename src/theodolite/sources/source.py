"""What a source is: something that turns documents into batches of states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from theodolite.batch import Batch, Places
from theodolite.sources.layers import Layer
from theodolite.sources.units import Units

Sink = Callable[[Batch], None]


class Prepared(Protocol):
    """One batch ready to run: what the model is fed, and where its rows will stand."""

    @property
    def places(self) -> Places:
        """Where the rows of each layer will stand."""

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

    def run(self, prepared: Any, sink: Sink) -> None:
        """Carry one batch through the model; the sink is called once for each layer, in order."""
