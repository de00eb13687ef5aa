"""The pilot: a few documents that fix centres, thresholds of massive norms, and which units are frequent."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.errors import DamagedError, InputError, TheodoliteError
from theodolite.models.layers import Layer
from theodolite.sources.batch_limit import BatchLimit, fits_in_memory
from theodolite.sources.source import Source, device_for_sums
from theodolite.statistics.cells import cells_to_separate
from theodolite.statistics.fold import max_sample_size
from theodolite.statistics.frame import Frame
from theodolite.statistics.sample import Reservoir
from theodolite.statistics.unit_groups import FREQUENT
from theodolite.storage.file_names import PILOT
from theodolite.storage.files import read_tensors, write_tensors
from theodolite.storage.location import Location

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
        self, layer: int, *, populations: Sequence[str], sample_size: int, contextuality: bool = False
    ) -> Frame:
        """Return the frame of a layer's statistics."""
        separated = cells_to_separate(populations)
        pilot = self.layers[layer]
        size = min(sample_size, max_sample_size(len(pilot.centre)))
        return Frame(
            pilot.centre,
            self.massive_above(layer),
            separate_first=separated.first,
            separate_massive=separated.massive,
            separate_sinks=separated.sinks,
            sample_size=size,
            contextuality=contextuality,
            spread=pilot.spread,
            frequent=pilot.frequent,
        )

    def save(self, folder: Location) -> None:
        """Write pilot.safetensors."""
        tensors: dict[str, Tensor] = {}
        for index, layer in self.layers.items():
            tensors[f"layer{index}.centre"] = layer.centre
            tensors[f"layer{index}.median_norm"] = torch.tensor(layer.median_norm, dtype=torch.float64)
            tensors[f"layer{index}.spread"] = torch.tensor(layer.spread, dtype=torch.float64)
            tensors[f"layer{index}.frequent"] = torch.tensor(layer.frequent, dtype=torch.int64)
        write_tensors(folder / PILOT, tensors, {"facts": json.dumps(self.facts | {"sha256": self.sha256})})

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
        pilot = cls(layers, facts)
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


def take_pilot(source: Source, documents: Sequence[tuple[int, Any]], model_sha256: str) -> Pilot:
    """Run the chosen documents; measure positions of each layer, chosen by hash, and count units."""
    kept = {layer.index: Reservoir(min(POSITIONS, max_sample_size(layer.dim))) for layer in source.layers}
    counts = Counter[int]()
    device = device_for_sums(source) or "cpu"

    def sink(batch: Batch) -> None:
        near = batch.places.key.argsort()[:POSITIONS]  # no others can be chosen, so they are not copied
        vector = batch.taken().index_select(0, near.to(batch.states.device)).cpu().float()
        chosen.append((batch.layer, batch.places, near, vector))

    positions, limit, waiting = 0, BatchLimit(), deque(source.prepare(documents))
    while waiting:
        prepared, chosen = waiting.popleft(), list[tuple[int, Places, Tensor, Tensor]]()
        if not fits_in_memory(source, prepared, sink):
            limit.lower(prepared, device)
            waiting.extendleft(reversed(limit.split(prepared)))
            continue
        for layer, places, near, vector in chosen:
            kept[layer].offer(key=places.key[near], first=places.first[near], vector=vector)
            names = places.unit if places.unit_hash is None else places.unit_hash
            found, occurrences = np.unique(names.numpy(), return_counts=True)
            counts.update(dict(zip(found.tolist(), occurrences.tolist(), strict=True)))
        positions += prepared.positions
    if not positions:
        raise InputError(
            "The documents of the pilot have no position to measure. Is the corpus empty, or only special tokens?"
        )

    by_count = sorted(counts.items(), key=lambda unit: (-unit[1], unit[0]))
    times = len(source.layers) * MIN_OCCURRENCES
    frequent = tuple(name for name, count in by_count[:FREQUENT] if count >= times)  # the same for all layers

    def measure(layer: Layer) -> LayerPilot:
        vectors, first = (kept[layer.index].rows[name].to(device) for name in ("vector", "first"))
        return replace(_measure_layer(layer, vectors, first), frequent=frequent)

    # On the CPU, medians of layers run in parallel threads; a device computes them one after the other.
    with ThreadPoolExecutor(None if device == "cpu" else 1) as pool:
        layers = {
            layer.index: pilot
            for layer, pilot in zip(source.layers, pool.map(measure, source.layers), strict=True)
        }
    return Pilot(layers, {"documents": len(documents), "positions": positions, "model_sha256": model_sha256})


def _measure_layer(layer: Layer, vectors: Tensor, first: Tensor) -> LayerPilot:
    finite = torch.isfinite(vectors).all(dim=1)
    if not finite.any():
        raise TheodoliteError(
            f"Layer {layer.index} ({layer.name}): all {len(vectors)} states of the pilot are NaN or infinite. "
            "Half precision overflows in some models: try --dtype float32 or --dtype bfloat16."
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
