"""The source of pictures and sound: documents through what a model is fed, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from theodolite.batch import Batch, Places
from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.sources.layers import Layer, choose
from theodolite.sources.media.anatomy import MediaAnatomy
from theodolite.sources.media.layout import Laid, laid_out
from theodolite.sources.places import places
from theodolite.sources.source import Sink
from theodolite.sources.taps import watched
from theodolite.sources.units import Unit, Units

KINDS = ("none", "position", "document", "label")


class Item(NamedTuple):
    """One thing of a batch: a picture, or a stretch of sound."""

    document: int
    window: int
    name: str  # of the document
    label: str


@dataclass(frozen=True)
class MediaBatch:
    """What the model is fed, and what it is of."""

    inputs: dict[str, Tensor]
    items: tuple[Item, ...]
    positions: int = 0  # rows that the first layer will give; 0: as many as the probe gave for each item
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)  # by stack, positions that are no padding


class Feeder(Protocol):
    """Turns documents into what a kind of model is fed."""

    def probe(self) -> dict[str, Tensor]:
        """Return a small input to look at the model with."""

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> list[MediaBatch]:
        """Return the batches of these documents; may run in another thread and may not run the model."""

    def complete(self, batch: MediaBatch) -> MediaBatch:
        """Add what only the model itself can make, such as a transcript."""


class MediaSource:
    """A model over pictures or sound, its states counted by nothing, by position, by document or by label."""

    def __init__(
        self,
        model: nn.Module,
        feeder: Feeder,
        *,
        corpus_key: int = 0,
        kind: str = "none",
        layers: str | Sequence[int] | None = None,
        flat: bool = False,
        anatomy: MediaAnatomy | None = None,
    ) -> None:
        if kind not in KINDS:
            raise InputError(f"--units {kind!r}: vectors of pictures and sound are counted by {', '.join(KINDS)}.")
        self.feeder, self.corpus_key, self.flat = feeder, corpus_key, flat
        self._device = device_of(model)
        self.anatomy = anatomy or MediaAnatomy.of(model, self._there(feeder.probe()), flat=flat)
        self.layers: tuple[Layer, ...] = choose(self.anatomy.layers, layers)
        self.units = Units(kind, [Unit("all", "all")] if kind == "none" else [])

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> list[MediaBatch]:
        """Decode the documents and make them ready for the model."""
        batches = self.feeder.prepare(documents)
        return [
            batch if batch.positions else replace(batch, positions=len(batch.items) * self.anatomy.rows)
            for batch in batches
        ]

    def units_of(self, prepared: MediaBatch) -> Sequence[int]:
        """Return the codes that documents or labels could have; what is known of a plan bounds them already."""
        return range(max(len(self.units), len(prepared.items)))

    def run(self, prepared: MediaBatch, sink: Sink) -> None:
        """One forward pass; each layer's rows go to the sink as they pass its tap."""
        batch = self.feeder.complete(prepared)
        stack_of = {layer.index: layer.stack for layer in self.layers}
        made: dict[tuple[str, int, bool], Places] = {}  # layers of one shape stand in the same places

        def take(index: int, states: Tensor) -> None:
            stack = stack_of[index]
            laid = laid_out(states, flat=self.flat, counts=batch.counts.get(stack))
            here = (stack, len(laid.rows), laid.ordered)
            if here not in made:
                made[here] = self._places(batch.items, laid)
            sink(Batch(index, laid.rows.cpu(), made[here]))

        wanted = [layer.index for layer in self.layers]
        with watched(self.anatomy.model, self.anatomy.taps, take, wanted) as forward:
            forward(**self._there(batch.inputs))

    def _places(self, items: Sequence[Item], laid: Laid) -> Places:
        item, position = laid.item.numpy(), laid.position.numpy()
        document = np.array([each.document for each in items], dtype=np.int64)[item]
        window = np.array([each.window for each in items], dtype=np.int64)[item]
        return places(
            self.corpus_key,
            document=document,
            window=window,
            position=position,
            unit=self._codes(items, item, position),
            context=mix(document, window, position),
            ordered=laid.ordered and self.anatomy.ordered,
        )

    def _codes(
        self, items: Sequence[Item], item: np.ndarray[Any, Any], position: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        kind = self.units.kind
        if kind == "none":
            return np.zeros(len(item), dtype=np.int64)
        if kind == "position":
            known, of_row = np.unique(position, return_inverse=True)
            codes = [self.units.add(Unit(str(place), str(place))) for place in known]
        else:
            names = [each.name if kind == "document" else each.label for each in items]
            codes, of_row = [self.units.add(Unit(name, name)) for name in names], item
        return np.array(codes, dtype=np.int64)[of_row]

    def _there(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return moved(inputs, self._device)


def moved(inputs: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return inputs on a device; of a module of the user's, some may be numbers or switches, and stay."""
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in inputs.items()}


def device_of(model: nn.Module) -> torch.device:
    """Return where a model lies: where its first parameter does, or here where it has none."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
