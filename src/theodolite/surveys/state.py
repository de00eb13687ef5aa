"""The state: every sum of a survey and the list of shards it holds, as two safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from theodolite.sources.units import Unit, Units
from theodolite.statistics.away import Away
from theodolite.statistics.cells import CELLS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.statistic import Parts
from theodolite.surveys.files import read_metadata, read_tensors, write_tensors
from theodolite.surveys.storage import Place

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
    cursor: int = 0  # batches folded of the shard under way
    positions: int = 0
    under_way: int | None = None  # that shard's index

    def save(self, folder: Path) -> dict[str, str]:
        """Write state.safetensors and sample.safetensors side by side, and return their checksums."""
        sums: Parts = {}
        samples: Parts = {}
        for index, fold in self.folds.items():
            for name, tensor in fold.parts().items():
                (samples if name.startswith("sample.") else sums)[f"layer{index}.{name}"] = tensor
        facts = {
            "shards": [[shard.corpus, shard.index] for shard in self.shards],
            "cursor": self.cursor,
            "under_way": self.under_way,
            "positions": self.positions,
            "units": _listed(self.units),
        }
        with ThreadPoolExecutor(1, "writing samples") as pool:
            sample = pool.submit(write_tensors, folder / SAMPLE, samples, {})
            return {
                STATE: write_tensors(folder / STATE, sums, {"facts": json.dumps(facts)}),
                SAMPLE: sample.result(),
            }

    def away(self) -> list[Away]:
        """Return the sums that are still on a device, in the order in which `save` writes them."""
        tables = {
            (f"layer{index}.", cell): table.held
            for index, fold in self.folds.items()
            for cell, table in zip(CELLS, fold.moments.tables, strict=True)
        }
        return [held for _, held in sorted(tables.items(), key=itemgetter(0)) if isinstance(held, Away)]

    @classmethod
    def load(cls, folder: Path, frames: Mapping[int, Frame], units: Units) -> State:
        """Read both files into folds of these frames; an open vocabulary takes up the words it had."""
        saved = SavedState.open(folder)
        folds = {index: saved.fold(index, frame) for index, frame in frames.items()}
        for unit in saved.units:
            units.add(unit)
        return cls(folds, units, list(saved.shards), saved.cursor, saved.positions, saved.under_way)


@dataclass(frozen=True)
class SavedState:
    """A state on disk: what it holds is known at once, its sums are read a layer at a time."""

    folder: Place
    shards: tuple[ShardKey, ...]
    cursor: int
    positions: int
    units: tuple[Unit, ...]  # of an open vocabulary; a closed one is known from the tokenizer
    under_way: int | None = None

    @classmethod
    def open(cls, folder: Place) -> SavedState:
        """Read what the state says of itself, and no sum."""
        facts = json.loads(read_metadata(folder / STATE)["facts"])
        shards = tuple(ShardKey(corpus, index) for corpus, index in facts["shards"])
        units = tuple(
            Unit(key, text, None, special, tokens) for key, text, special, tokens in facts["units"] or []
        )
        return cls(folder, shards, facts["cursor"], facts["positions"], units, facts.get("under_way"))

    def fold(self, index: int, frame: Frame) -> LayerFold:
        """Read the sums of one layer."""
        prefix, fold = f"layer{index}.", LayerFold(frame)
        read = read_tensors(self.folder / STATE, prefix)[0] | read_tensors(self.folder / SAMPLE, prefix)[0]
        fold.load({name.removeprefix(prefix): tensor for name, tensor in read.items()})
        return fold


def _listed(units: Units) -> list[list[Any]] | None:
    """Return the units of an open vocabulary; a closed one is known from the tokenizer."""
    if not units.open:
        return None
    known = list(units.known)  # at once: the thread that tokenizes ahead may be adding to it
    return [[unit.key, unit.text, unit.special, unit.tokens] for unit in known]
