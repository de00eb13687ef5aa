"""The pilot: a look at some documents that fixes each layer's centre and what counts as massive."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from theodolite.batch import Batch
from theodolite.errors import DamagedError, InputError, TheodoliteError
from theodolite.sources.layers import Layer
from theodolite.sources.source import Source
from theodolite.statistics.cells import told_apart
from theodolite.statistics.fold import most_sampled
from theodolite.statistics.frame import Frame
from theodolite.statistics.sample import Reservoir
from theodolite.surveys.files import read_tensors, write_tensors
from theodolite.surveys.residence import home
from theodolite.surveys.storage import Place

POSITIONS = 2048  # kept of each layer: enough for medians, and bounded
MASSIVE = 10.0  # a norm above this multiple of the median is massive
FILE = "pilot.safetensors"


@dataclass(frozen=True, slots=True)
class LayerPilot:
    """One layer's word: its median norm, and the coordinate-wise median of its ordinary positions."""

    median_norm: float
    centre: Tensor  # (dim,) float32
    spread: float = 0.0  # the median |x - c| of the same; 0 where a pilot of old did not tell. Moves no number.


@dataclass(frozen=True)
class Pilot:
    """What the pilot fixed, by layer, and where it was taken."""

    layers: dict[int, LayerPilot]
    facts: dict[str, Any]

    @property
    def sha256(self) -> str:
        """Return a digest of the numbers: surveys with the same one can be merged without moving a sum."""
        digest = sha256()
        for index, layer in sorted(self.layers.items()):
            digest.update(f"{index} {layer.median_norm!r} ".encode() + layer.centre.numpy().tobytes())
        return digest.hexdigest()

    def frame(
        self, layer: int, *, populations: Sequence[str], sample_size: int, contextuality: bool = False
    ) -> Frame:
        """Return the frame in which the layer's statistics are kept."""
        first, massive = told_apart(populations)
        word = self.layers[layer]
        size = min(sample_size, most_sampled(len(word.centre)))
        return Frame(
            word.centre, MASSIVE * word.median_norm, first, massive, size, contextuality, spread=word.spread
        )

    def save(self, folder: Place) -> None:
        """Write pilot.safetensors."""
        tensors: dict[str, Tensor] = {}
        for index, layer in self.layers.items():
            tensors[f"layer{index}.centre"] = layer.centre
            tensors[f"layer{index}.median_norm"] = torch.tensor(layer.median_norm, dtype=torch.float64)
            tensors[f"layer{index}.spread"] = torch.tensor(layer.spread, dtype=torch.float64)
        write_tensors(folder / FILE, tensors, {"facts": json.dumps(self.facts | {"sha256": self.sha256})})

    @classmethod
    def load(cls, folder: Place) -> Pilot:
        """Read pilot.safetensors of a survey folder."""
        if not (folder / FILE).is_file():
            raise InputError(f"--pilot {folder}: there is no {FILE} in it; give the folder of a survey.")
        tensors, metadata = read_tensors(folder / FILE)
        layers = {
            int(name.removeprefix("layer").removesuffix(".centre")): LayerPilot(
                float(tensors[name.replace("centre", "median_norm")]),
                centre,
                float(tensors.get(name.replace("centre", "spread"), 0.0)),
            )
            for name, centre in tensors.items()
            if name.endswith(".centre")
        }
        facts = json.loads(metadata["facts"])
        written = facts.pop("sha256")
        pilot = cls(layers, facts)
        if written != pilot.sha256:  # sums about another centre would be wrong, and nothing would tell
            raise DamagedError(f"{folder / FILE} is damaged: its numbers are not those that were written.")
        return pilot

    def check(self, layers: Sequence[Layer], model_sha256: str) -> None:
        """Refuse a pilot of other weights or without a layer that is wanted."""
        if self.facts["model_sha256"] != model_sha256:
            raise InputError(
                "--pilot was taken with other weights than this model's; leave it out to take a new one."
            )
        for layer in layers:
            if layer.index not in self.layers or len(self.layers[layer.index].centre) != layer.dim:
                raise InputError(f"--pilot knows no layer {layer.index} ({layer.name}) of {layer.dim} dimensions.")


def take_pilot(source: Source, documents: Sequence[tuple[int, Any]], model_sha256: str) -> Pilot:
    """Run the chosen documents and keep, by hash, a bounded number of positions of each layer."""
    kept = {layer.index: Reservoir(min(POSITIONS, most_sampled(layer.dim))) for layer in source.layers}
    there = home(source)

    def sink(batch: Batch) -> None:
        near = batch.places.key.argsort()[:POSITIONS]  # no others can be kept: they need not be copied
        vector = batch.taken().index_select(0, near.to(batch.states.device)).cpu().float()
        kept[batch.layer].offer(key=batch.places.key[near], first=batch.places.first[near], vector=vector)

    positions = 0
    for prepared in source.prepare(documents):
        source.run(prepared, sink)
        positions += prepared.positions
    if not positions:
        raise InputError("The pilot's documents hold no token that counts; is the corpus blank, or all special?")

    def word(layer: Layer) -> LayerPilot:
        return _word(layer, *(kept[layer.index].rows[name].to(there or "cpu") for name in ("vector", "first")))

    # Medians of a thousand columns leave Python, and take one core each; a device has them at once.
    with ThreadPoolExecutor(None if there is None else 1) as pool:
        layers = {
            layer.index: told for layer, told in zip(source.layers, pool.map(word, source.layers), strict=True)
        }
    return Pilot(layers, {"documents": len(documents), "positions": positions, "model_sha256": model_sha256})


def _word(layer: Layer, vectors: Tensor, first: Tensor) -> LayerPilot:
    finite = torch.isfinite(vectors).all(dim=1)
    if not finite.any():
        raise TheodoliteError(
            f"Layer {layer.index} ({layer.name}): all {len(vectors)} states of the pilot are NaN or infinite. "
            "Half precision overflows in some models: try --dtype float32 or bfloat16."
        )
    vectors, first = vectors[finite], first[finite]
    norms = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64)
    median = float(norms.median())
    ordinary = (norms <= MASSIVE * median) & ~first
    # A mean that includes one massive position is worse than no centre; a median does not see it. A median of an
    # odd or even number of float32 values is here one of them, so that x - c is exact or rounds once.
    middle = vectors[ordinary if ordinary.any() else norms <= MASSIVE * median]
    centre = middle.median(dim=0).values
    spread = torch.linalg.vector_norm(middle - centre, dim=1, dtype=torch.float64).median()
    return LayerPilot(median, centre.cpu(), float(spread))
