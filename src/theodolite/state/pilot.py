"""The pilot: a few documents that fix centres, thresholds of massive norms, and which units are frequent."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.corpora.fields import FieldChoice
from theodolite.errors import DamagedError, InputError, TheodoliteError
from theodolite.models.layers import RESIDUAL, Layer
from theodolite.sources.batch_limit import BatchLimit, fits_in_memory
from theodolite.sources.source import Source, device_for_sums, each_batch, each_kind
from theodolite.statistics.cells import cells_to_separate
from theodolite.statistics.fold import max_sample_size
from theodolite.statistics.frame import Frame
from theodolite.statistics.rare_units import KeptUnits
from theodolite.statistics.sample import Reservoir
from theodolite.statistics.unit_groups import FREQUENT
from theodolite.storage.file_names import PILOT
from theodolite.storage.files import read_tensors, write_tensors
from theodolite.storage.location import Location

UNIT_FIELDS = ("names", "n", "weights")
POSITIONS = 2048  # per layer: enough for medians, in bounded memory
MIN_OCCURRENCES = 8  # of a frequent unit in the pilot, so that small surveys do not keep sums of many units
MASSIVE = 10.0  # a norm above this multiple of the median is massive


@dataclass(frozen=True, slots=True)
class LayerPilot:
    """The median norm of a layer, and the coordinate-wise median of its ordinary positions."""

    median_norm: float
    centre: Tensor  # (dim,) float32
    spread: float = 0.0  # median |x - c| of the same positions; 0 in older pilots. Changes no number.
    frequent: tuple[int, ...] = ()  # the most frequent units, by code or hash; only error bars depend on them


@dataclass(frozen=True)
class Pilot:
    """Centres and thresholds by layer, and how the pilot was taken."""

    layers: dict[int, LayerPilot]
    facts: dict[str, Any]
    kept: KeptUnits | None = None  # the units that have a vector, if not all; of this survey's corpus

    @property
    def sha256(self) -> str:
        """Return a digest of the numbers: surveys with the same digest are merged without re-centring."""
        digest = sha256()
        for index, layer in sorted(self.layers.items()):
            digest.update(f"{index} {layer.median_norm!r} ".encode() + layer.centre.numpy().tobytes())
        return digest.hexdigest()

    def massive_above(self, layer: int) -> float:
        """Return the norm above which a position of the layer is massive."""
        return MASSIVE * self.layers[layer].median_norm

    def frame(
        self,
        layer: int | Layer,
        *,
        populations: Sequence[str],
        sample_size: int,
        contextuality: bool = False,
        by: FieldChoice | None = None,
        layer_scores: bool = False,
    ) -> Frame:
        """Return the frame of a layer's statistics; `by` are the groups of documents by a field of the corpus."""
        separated = cells_to_separate(populations)
        layer = Layer(layer, "", 0) if isinstance(layer, int) else layer
        pilot = self.layers[layer.index]
        size = min(sample_size, max_sample_size(len(pilot.centre)))
        return Frame(
            pilot.centre,
            self.massive_above(layer.index),
            separate_first=separated.first,
            separate_massive=separated.massive,
            separate_sinks=separated.sinks,
            sample_size=size,
            contextuality=contextuality,
            layer_scores=layer_scores,
            spread=pilot.spread,
            frequent=pilot.frequent,
            kept=self.kept,
            by_groups=0 if by is None else len(by),
            by_matrices=0 if by is None else by.matrices,
            by_rows=0 if by is None else by.unit_rows,
            marks_sinks=layer.stream == RESIDUAL,
            attention_heads=layer.attention_heads,
        )

    def save(self, folder: Location) -> None:
        """Write pilot.safetensors."""
        tensors: dict[str, Tensor] = {}
        for index, layer in self.layers.items():
            tensors[f"layer{index}.centre"] = layer.centre
            tensors[f"layer{index}.median_norm"] = torch.tensor(layer.median_norm, dtype=torch.float64)
            tensors[f"layer{index}.spread"] = torch.tensor(layer.spread, dtype=torch.float64)
            tensors[f"layer{index}.frequent"] = torch.tensor(layer.frequent, dtype=torch.int64)
        facts = self.facts | {"sha256": self.sha256}
        if self.kept is not None:
            tensors |= {f"units.{name}": getattr(self.kept, name) for name in UNIT_FIELDS}
            facts["min_count"] = self.kept.min_count
        write_tensors(folder / PILOT, tensors, {"facts": json.dumps(facts)})

    @classmethod
    def load(cls, folder: Location) -> Pilot:
        """Read pilot.safetensors of a survey folder."""
        if not (folder / PILOT).is_file():
            raise InputError(f"--pilot {folder}: there is no {PILOT} in this folder. Give the folder of a survey.")
        tensors, metadata = read_tensors(folder / PILOT)
        layers = {
            int(name.removeprefix("layer").removesuffix(".centre")): LayerPilot(
                float(tensors[name.replace("centre", "median_norm")]),
                centre,
                float(tensors.get(name.replace("centre", "spread"), 0.0)),
                tuple(tensors.get(name.replace("centre", "frequent"), torch.zeros(0)).long().tolist()),
            )
            for name, centre in tensors.items()
            if name.endswith(".centre")
        }
        try:
            facts = json.loads(metadata["facts"])
            written = facts.pop("sha256")
        except (KeyError, ValueError) as error:
            raise DamagedError(f"{folder / PILOT} is damaged: its metadata cannot be read.") from error
        kept = None
        if (min_count := facts.pop("min_count", None)) is not None:
            kept = KeptUnits(min_count, *(tensors[f"units.{name}"] for name in UNIT_FIELDS))
        pilot = cls(layers, facts, kept)
        if written != pilot.sha256:  # sums about another centre would be wrong without notice
            raise DamagedError(f"{folder / PILOT} is damaged: its numbers do not match its checksum.")
        return pilot

    def check(self, layers: Sequence[Layer], model_sha256: str) -> None:
        """Reject a pilot of other weights, or one that lacks a layer."""
        if self.facts["model_sha256"] != model_sha256:
            raise InputError(
                "--pilot was taken with other weights than this model's. Omit --pilot to take a new one."
            )
        for layer in layers:
            if layer.index not in self.layers or len(self.layers[layer.index].centre) != layer.dim:
                raise InputError(f"--pilot has no layer {layer.index} ({layer.name}) with {layer.dim} dimensions.")


Gather = Callable[[Any], list[Any]]
"""Returns the values of this and all other processes, in order."""


def take_pilot(source: Source, documents: Sequence[tuple[int, Any]], gather: Gather | None = None) -> Pilot:
    """Run the chosen documents; measure positions of each layer, chosen by hash, and count units."""
    return take_pilots(source, documents, gather)[0]


def take_pilots(source: Source, documents: Sequence[tuple[int, Any]], gather: Gather | None = None) -> list[Pilot]:
    """Return the pilot of each kind of unit of the source, from one pass over the documents.

    With `gather`, each process reads its own documents, and all get the pilot of all documents.
    """
    device, seen = device_for_sums(source) or "cpu", [_Seen(source.layers) for _ in each_kind(source)]
    limit, waiting = BatchLimit(), deque(source.prepare(documents))
    while waiting:
        prepared, chosen = waiting.popleft(), _ChosenRows()
        if not fits_in_memory(source, prepared, chosen.take):
            limit.lower(prepared, device)
            waiting.extendleft(reversed(limit.split(prepared)))
            continue
        for one in chosen.rows:
            seen[one.kind].add(one)
        for of_kind, batch in zip(seen, each_batch(prepared), strict=True):
            of_kind.positions += batch.positions
    if gather is not None:
        for of_kind in seen:
            of_kind.merge_all(gather)
    if not seen[0].positions:
        raise InputError(
            "The documents of the pilot have no position to measure. Is the corpus empty, or only special tokens?"
        )
    return [Pilot(one.measure(device), {"documents": len(documents), "positions": one.positions}) for one in seen]


class _Chosen(NamedTuple):
    """The positions of one layer of a batch that the pilot may measure."""

    kind: int
    layer: int
    places: Places
    near: Tensor
    vector: Tensor


class _ChosenRows:
    """Those of all layers of a batch, which are dropped if memory runs out before its last layer."""

    def __init__(self) -> None:
        self.rows: list[_Chosen] = []

    def take(self, batch: Batch) -> None:
        near = batch.places.key.argsort()[:POSITIONS]  # no others can be chosen, so they are not copied
        vector = batch.taken().index_select(0, near.to(batch.states.device)).float()
        self.rows.append(_Chosen(batch.kind, batch.layer, batch.places, near, vector))


class _Seen:
    """What a pilot has seen of one kind of unit: positions of each layer, chosen by hash, and counts of units."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.positions = 0
        self._layers = layers
        self._kept = {layer.index: Reservoir(min(POSITIONS, max_sample_size(layer.dim))) for layer in layers}
        self._counts = Counter[int]()

    def add(self, chosen: _Chosen) -> None:
        places, near = chosen.places, chosen.near
        self._kept[chosen.layer].offer(key=places.key[near], first=places.first[near], vector=chosen.vector)
        names = places.unit if places.unit_hash is None else places.unit_hash
        found, times = np.unique(names.numpy(), return_counts=True)
        self._counts.update(dict(zip(found.tolist(), times.tolist(), strict=True)))

    def merge_all(self, gather: Gather) -> None:
        """Add what all other processes have seen. Every process gets the same rows, in the same order."""
        for index, kept in self._kept.items():
            rows = {name: part.cpu() for name, part in kept.rows.items()}
            of_all, self._kept[index] = gather(rows), Reservoir(kept.size)
            for rows in filter(None, of_all):
                self._kept[index].offer(**rows)
        self._counts = sum(gather(self._counts), Counter())
        self.positions = sum(gather(self.positions))

    def measure(self, device: str) -> dict[int, LayerPilot]:
        by_count = sorted(self._counts.items(), key=lambda unit: (-unit[1], unit[0]))
        times = len(self._layers) * MIN_OCCURRENCES
        frequent = tuple(name for name, count in by_count[:FREQUENT] if count >= times)  # the same for all layers

        def measure(layer: Layer) -> LayerPilot:
            vectors, first = (self._kept[layer.index].rows[name].to(device) for name in ("vector", "first"))
            return replace(_measure_layer(layer, vectors, first), frequent=frequent)

        # On the CPU, medians of layers run in parallel threads; a device computes them one after the other.
        with ThreadPoolExecutor(None if device == "cpu" else 1) as pool:
            return {
                layer.index: pilot
                for layer, pilot in zip(self._layers, pool.map(measure, self._layers), strict=True)
            }


def _measure_layer(layer: Layer, vectors: Tensor, first: Tensor) -> LayerPilot:
    finite = torch.isfinite(vectors).all(dim=1)
    if not finite.any():
        raise TheodoliteError(
            f"Layer {layer.index} ({layer.name}): all {len(vectors)} states of the pilot are NaN or infinite. "
            "If the model runs in half precision, which overflows in some models, use --dtype float32 or "
            "bfloat16; otherwise check its weights."
        )
    vectors, first = vectors[finite], first[finite]
    norms = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64)
    median = float(norms.median())
    ordinary = (norms <= MASSIVE * median) & ~first
    # A mean with one massive position in it is worse than no centre; a median ignores it. The median of float32
    # values is one of them, so that x - c is exact or rounds once.
    middle = vectors[ordinary if ordinary.any() else norms <= MASSIVE * median]
    centre = middle.median(dim=0).values
    spread = torch.linalg.vector_norm(middle - centre, dim=1, dtype=torch.float64).median()
    return LayerPilot(median, centre.cpu(), float(spread))
