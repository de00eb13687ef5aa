"""The source of images and sound: documents to model inputs, and a forward pass to states."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from theodolite.batch import Batch, Places
from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.models.attention_calls import AttentionCall
from theodolite.models.attention_sums import Span, sum_attention
from theodolite.models.hooks import hook_layers
from theodolite.models.layers import RESIDUAL, Layer
from theodolite.models.media_anatomy import (
    ITEMS_FIRST,
    LAYOUTS,
    ROWS,
    TIME_FIRST,
    MediaAnatomy,
    StateRows,
    arrange_rows,
)
from theodolite.models.streams import choose_stream_layers
from theodolite.sources.rows import locate_rows
from theodolite.sources.source import Sink
from theodolite.sources.units import Unit, Units

KINDS = ("none", "position", "document", "label")


class Item(NamedTuple):
    """One item of a batch: a picture, or a segment of sound."""

    document: int
    window: int
    name: str  # of the document
    label: str


@dataclass(frozen=True)
class MediaBatch:
    """The inputs of the model, and the items that they represent."""

    inputs: dict[str, Tensor]
    items: tuple[Item, ...]
    positions: int = 0  # rows of the first layer; 0: as many per item as for the probe
    counts: dict[str, tuple[int, ...]] = field(
        default_factory=dict
    )  # by stack, positions of each item that are not padding


class Feeder(Protocol):
    """Turns documents into the inputs of a kind of model."""

    def probe(self) -> dict[str, Tensor]:
        """Return a small input to inspect the model with."""

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> list[MediaBatch]:
        """Return the batches of these documents; may run in another thread and must not run the model."""

    def complete(self, batch: MediaBatch) -> MediaBatch:
        """Add inputs that need the model itself, such as a transcript."""


class MediaSource:
    """A model over images or sound, with states grouped by nothing, by position, by document or by label."""

    def __init__(
        self,
        model: nn.Module,
        feeder: Feeder,
        *,
        corpus_key: int = 0,
        kind: str = "none",
        layers: str | Sequence[int | str] | None = None,
        flat: bool = False,
        anatomy: MediaAnatomy | None = None,
        streams: Sequence[str] = (RESIDUAL,),
        attention: bool = False,
    ) -> None:
        if kind not in KINDS:
            raise InputError(
                f"--units {kind!r} is not available for images and sound; choose one of {', '.join(KINDS)}."
            )
        self.feeder, self.corpus_key, self.flat = feeder, corpus_key, flat
        self._device = find_device(model)
        self.anatomy = anatomy or MediaAnatomy.of(model, self._to_device(feeder.probe()), flat=flat)
        self.layers: tuple[Layer, ...]
        self.layers, self._streams = choose_stream_layers(
            self.anatomy.layers,
            layers,
            streams,
            lambda: self.anatomy.find_streams(self._to_device(feeder.probe())),
            attention=attention,
        )
        self.units = Units(kind, [Unit("all", "all")] if kind == "none" else [])

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> list[MediaBatch]:
        """Decode the documents into batches of model inputs."""
        batches = self.feeder.prepare(documents)
        return [
            batch if batch.positions else replace(batch, positions=len(batch.items) * self.anatomy.rows)
            for batch in batches
        ]

    def units_of(self, prepared: MediaBatch) -> Sequence[int]:
        """Return the codes that documents or labels could have: an upper bound."""
        return range(max(len(self.units), len(prepared.items)))

    def run(self, prepared: MediaBatch, sink: Sink) -> None:
        """Run one forward pass; the rows of each layer go to the sink when its hook is called."""
        batch = self.feeder.complete(prepared)
        stack_of = {layer.index: layer.stack for layer in self.layers}
        places: dict[tuple[str, int, bool], Places] = {}  # layers of one shape have the same places

        def on_states(index: int, states: Tensor) -> None:
            stack, layout = stack_of[index], self.anatomy.layouts.get(index, ITEMS_FIRST)
            self._check_state(index, states, batch, layout)
            arranged = arrange_rows(states, flat=self.flat, counts=batch.counts.get(stack), layout=layout)
            shape = (f"{stack} {layout}", len(arranged.rows), arranged.ordered)
            if shape not in places:
                places[shape] = self._places(batch.items, arranged)
            sink(Batch(index, arranged.rows.cpu(), places[shape], attention=measured.pop(index, None)))

        def measure(layer: Layer, call: AttentionCall) -> None:
            items, _, positions, _ = call.query.shape
            counts = torch.tensor(batch.counts.get(layer.stack) or [positions] * items)
            counted = torch.arange(positions)[None] < counts[:, None]
            spans = [Span(item, 0, positions) for item in range(items)]
            measured[layer.index] = sum_attention(call, spans, counted)

        anatomy, measured = self.anatomy, dict[int, dict[str, Tensor]]()
        of_streams = [layer.index for layer in self.layers if layer.stream != RESIDUAL]
        residual = [layer.index for layer in self.layers if layer.stream == RESIDUAL]
        attention = {layer.index: partial(measure, layer) for layer in self.layers if layer.attention_heads}
        last = max(layer.index if layer.block is None else layer.block for layer in self.layers)
        with (
            nullcontext() if self._streams is None else self._streams.capture(of_streams, on_states, attention),
            hook_layers(
                anatomy.model, anatomy.hook_points, on_states, residual, complete=anatomy.complete, last=last
            ) as forward,
        ):
            calls = forward(**self._to_device(batch.inputs))
        for index, expected in anatomy.calls.items():
            if calls.get(index, 0) > expected:
                raise InputError(
                    f"modules: {anatomy.layers[index].name!r}: the module was called {calls[index]} times for "
                    f"input {batch.items[0].document} and {expected} times when it was first reached, so that its "
                    "calls cannot be matched; survey inputs with other numbers of calls separately."
                )

    def _check_state(self, index: int, states: Tensor, batch: MediaBatch, layout: str) -> None:
        """Reject the output of a module of the user that does not have the items of the batch."""
        if not self.anatomy.calls:  # layers that were found by looking at the model are checked there
            return
        name, shape, items = self.anatomy.layers[index].name, tuple(states.shape), len(batch.items)
        where = f"layout: {name!r} returned the shape {shape} for input {batch.items[0].document} of {items} items"
        if layout == ROWS:
            if self.units.kind != "none":
                raise InputError(f"{where}: these rows belong to no item; units must be none.")
            mask = batch.inputs.get("attention_mask")
            if batch.counts and (mask is None or not bool(mask.all())):
                raise InputError(f"{where}: padding cannot be found in such rows; give inputs without padding.")
        elif shape[1 if layout == TIME_FIRST and states.dim() == 3 else 0] != items:
            raise InputError(f"{where}, which is not {layout}; give another layout, one of {', '.join(LAYOUTS)}.")

    def _places(self, items: Sequence[Item], arranged: StateRows) -> Places:
        item, position = arranged.item.numpy(), arranged.position.numpy()
        document = np.array([each.document for each in items], dtype=np.int64)[item]
        window = np.array([each.window for each in items], dtype=np.int64)[item]
        return locate_rows(
            self.corpus_key,
            document=document,
            window=window,
            position=position,
            unit=self._codes(items, item, position),
            context=mix(document, window, position),
            ordered=arranged.ordered and self.anatomy.ordered,
            units=self.units,
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

    def _to_device(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return move_inputs(inputs, self._device)


def move_inputs(inputs: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return the inputs on a device; inputs of a user module that are not tensors stay as they are."""
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in inputs.items()}


def find_device(model: nn.Module) -> torch.device:
    """Return the device of a model: that of its first parameter, or the CPU if it has none."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
