"""The state: every sum of a survey and the list of shards it holds, as two safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from theodolite.sources.units import Unit, Units
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.surveys.files import read_tensors, write_tensors

STATE, SAMPLE = "state.safetensors", "sample.safetensors"


@dataclass(frozen=True, slots=True, order=True)
class ShardKey:
    """A shard as the state names it: which corpus, which run of its documents."""

    corpus: str  # sha256
    index: int


@dataclass
class State:
    """The folds of all layers, the shards folded whole, and how far the one under way has come."""

    folds: dict[int, LayerFold]
    units: Units
    shards: list[ShardKey] = field(default_factory=list)
    cursor: int = 0  # batches folded of the shard after these
    positions: int = 0

    def save(self, folder: Path) -> None:
        """Write state.safetensors and sample.safetensors."""
        sums: dict[str, Tensor] = {}
        samples: dict[str, Tensor] = {}
        for index, fold in self.folds.items():
            for name, tensor in fold.state().items():
                (samples if name.startswith("sample.") else sums)[f"layer{index}.{name}"] = tensor
        facts = {
            "shards": [[shard.corpus, shard.index] for shard in self.shards],
            "cursor": self.cursor,
            "positions": self.positions,
            "units": _listed(self.units),
        }
        write_tensors(folder / STATE, sums, {"facts": json.dumps(facts)})
        write_tensors(folder / SAMPLE, samples, {})

    @classmethod
    def load(cls, folder: Path, frames: Mapping[int, Frame], units: Units) -> State:
        """Read both files into folds of these frames; an open vocabulary takes up the words it had."""
        sums, metadata = read_tensors(folder / STATE)
        samples, _ = read_tensors(folder / SAMPLE)
        facts = json.loads(metadata["facts"])
        folds = {}
        for index, frame in frames.items():
            prefix = f"layer{index}."
            fold = LayerFold(frame)
            both = (sums, samples)
            fold.load(
                {k.removeprefix(prefix): v for part in both for k, v in part.items() if k.startswith(prefix)}
            )
            folds[index] = fold
        for key, text, special, tokens in facts["units"] or []:
            units.add(Unit(key, text, None, special, tokens))
        shards = [ShardKey(corpus, index) for corpus, index in facts["shards"]]
        return cls(folds, units, shards, facts["cursor"], facts["positions"])


def _listed(units: Units) -> list[list[Any]] | None:
    """Return the units of an open vocabulary; a closed one is known from the tokenizer."""
    if not units.open:
        return None
    known = list(units.known)  # at once: the thread that tokenizes ahead may be adding to it
    return [[unit.key, unit.text, unit.special, unit.tokens] for unit in known]
