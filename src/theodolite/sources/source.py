"""The Source protocol: turns documents into batches of states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from theodolite.batch import Batch
from theodolite.models.layers import Layer
from theodolite.sources.units import Units

Sink = Callable[[Batch], None]


class Prepared(Protocol):
    """One batch that is ready to run."""

    @property
    def positions(self) -> int:
        """The number of rows of each layer."""


class Source(Protocol):
    """A model over a kind of document."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers whose states are read."""

    @property
    def units(self) -> Units:
        """The units of positions."""

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> Sequence[Prepared]:
        """Turn (number, document) pairs into batches. Pure, except for new units; may run in another thread."""

    def units_of(self, prepared: Any) -> Iterable[int]:
        """Return the codes of the units in a batch, to count units without running the model."""

    def run(self, prepared: Any, sink: Sink) -> None:
        """Run the model on one batch; the sink is called once per layer and kind of unit, in order."""


def each_kind(source: Source) -> tuple[Source, ...]:
    """Return the source, and the same source by other kinds of units that it batches in the same pass."""
    return (source, *getattr(source, "others", ()))


def each_batch(prepared: Any) -> tuple[Any, ...]:
    """Return a batch by each kind of unit of its source."""
    return (prepared, *getattr(prepared, "others", ()))


def device_for_sums(source: Source) -> str | None:
    """Return the device on which the sums of a source's states are accumulated; None for the CPU."""
    return str(getattr(source, "device", "")) if getattr(source, "resident", False) else None
