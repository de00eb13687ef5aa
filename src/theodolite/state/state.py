"""The state of a run: all sums and the list of their shards, stored as two safetensors files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from theodolite.devices import DeviceTensor
from theodolite.sources.units import Unit, Units
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.statistic import StateInPlace
from theodolite.storage.file_names import SAMPLE, STATE
from theodolite.storage.files import read_metadata, read_tensors, write_tensors
from theodolite.storage.location import Location

UNSEEN = "\0unseen "  # no tokenizer spells a token like this


@dataclass(frozen=True, slots=True, order=True)
class ShardKey:
    """A shard of a corpus."""

    corpus: str  # sha256
    index: int


@dataclass
class State:
    """The folds of all layers, the complete shards, and the progress of an incomplete one."""

    folds: dict[int, LayerFold]
    units: Units
    shards: list[ShardKey] = field(default_factory=list)
    cursor: int = 0  # batches folded of the incomplete shard
    positions: int = 0
    under_way: int | None = None  # index of the incomplete shard
    others: tuple[State, ...] = ()  # the same shards by other kinds of units

    def each(self) -> tuple[State, ...]:
        """Return this state, and those by other kinds of units."""
        return (self, *self.others)

    @property
    def bytes(self) -> int:
        """The size of the sums, without the samples."""
        return sum(
            tensor.nbytes
            for fold in self.folds.values()
            for name, tensor in fold.state_in_place().items()
            if not name.startswith("sample.")
        )

    def count_units_with_vector(self) -> int:
        """Return the number of units seen whose sums are kept."""
        codes = [table.codes for fold in self.folds.values() for table in fold.moments.tables]
        return len(np.unique(torch.cat(codes).numpy())) if codes else 0

    @property
    def bytes_to_save(self) -> int:
        """The size of what `save` writes, nearly; nothing is copied from a device to find out."""
        return sum(fold.nbytes for each in self.each() for fold in each.folds.values())

    def save(self, folder: Path, *, sums_kept: bool = True) -> dict[str, str]:
        """Write state.safetensors and sample.safetensors side by side, and return their checksums.

        Without the sums, state.safetensors has only the list of shards and units. Sampled vectors are written in
        half precision if that loses nothing.
        """
        sums: StateInPlace = {}
        samples: StateInPlace = {}
        for index, fold in self.folds.items():
            for name, tensor in fold.state_in_place().items():
                if name.startswith("sample."):
                    samples[f"layer{index}.{name}"] = tensor
                elif sums_kept:
                    sums[f"layer{index}.{name}"] = tensor
        facts = {
            "shards": [[shard.corpus, shard.index] for shard in self.shards],
            "cursor": self.cursor,
            "under_way": self.under_way,
            "positions": self.positions,
            "units": _list_units(self.units),
        }
        with ThreadPoolExecutor(1, "writing samples") as pool:
            sample = pool.submit(write_tensors, folder / SAMPLE, samples, {}, narrow=True)
            return {
                STATE: write_tensors(folder / STATE, sums, {"facts": json.dumps(facts)}),
                SAMPLE: sample.result(),
            }

    def drop_sums(self) -> None:
        """Free the sums, and leave what a state that was saved without them has: the samples."""
        for index, fold in self.folds.items():
            fold.sample.free_device()
            self.folds[index] = LayerFold(fold.frame)
            self.folds[index].statistics[fold.sample.name] = fold.sample

    @property
    def has_sums(self) -> bool:
        """Whether any position was added; not if the state was saved without its sums."""
        return not all(fold.is_empty for fold in self.folds.values())

    def device_tensors(self) -> list[DeviceTensor]:
        """Return the sums that are still on a device, in the order in which `save` writes them."""
        parts = {
            f"layer{index}.{name}": part
            for index, fold in self.folds.items()
            for name, part in fold.state_in_place().items()
        }
        held = [part for _, part in sorted(parts.items(), key=itemgetter(0)) if isinstance(part, DeviceTensor)]
        return [part for part in held if part.on_device is not None]

    @classmethod
    def load(cls, folder: Path, frames: Mapping[int, Frame], units: Units) -> State:
        """Read both files into folds with these frames; the words of an open vocabulary are added to `units`."""
        saved = SavedState.open(folder)
        folds = {index: saved.fold(index, frame) for index, frame in frames.items()}
        for unit in saved.units:
            units.add(unit)
        return cls(folds, units, list(saved.shards), saved.cursor, saved.positions, saved.under_way)


@dataclass(frozen=True)
class SavedState:
    """A state on disk: its metadata is read at once, its sums one layer at a time."""

    folder: Location
    shards: tuple[ShardKey, ...]
    cursor: int
    positions: int
    units: tuple[Unit, ...]  # of an open vocabulary; a closed one comes from the tokenizer
    under_way: int | None = None

    @classmethod
    def open(cls, folder: Location) -> SavedState:
        """Read the metadata of the state, without sums."""
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
        found = {name.removeprefix(prefix): tensor for name, tensor in read.items()}
        fold.load(fold.state() | found)  # a state saved without its sums has only the sample
        return fold


def _list_units(units: Units) -> list[list[Any]] | None:
    """Return the units of an open vocabulary; a closed one comes from the tokenizer."""
    if not units.open:
        return None
    known = list(units.known)  # one copy: another thread may be adding words
    return [[unit.key, unit.text, unit.special, unit.tokens] for unit in known]


def is_unseen(unit: Unit) -> bool:
    """Return whether a unit only fills the place of a code that was never seen."""
    return unit.key.startswith(UNSEEN)


def add_sums(
    state: State,
    fold_of: Callable[[int], LayerFold],
    units: Units,
    shards: Iterable[ShardKey],
    positions: int,
) -> None:
    """Add another state's sums to this one, one layer at a time; what `fold_of` returns is modified."""
    codes = _map_codes(state.units, units)
    new_codes = None if codes == list(range(len(codes))) else torch.tensor(codes, dtype=torch.int64)
    for index, fold in state.folds.items():
        theirs = fold_of(index)
        if new_codes is not None:
            theirs.recode(new_codes)
        fold.merge(theirs)
    state.shards += shards
    state.positions += positions


def add_saved_state(state: State, saved: SavedState) -> None:
    """Add a state with the same frames from disk, in the memory of one layer."""
    units = Units(state.units.kind, list(saved.units)) if state.units.open else state.units
    add_sums(
        state,
        lambda index: saved.fold(index, state.folds[index].frame),
        units,
        saved.shards,
        saved.positions,
    )


def _map_codes(units: Units, others: Units) -> list[int]:
    """Return the codes of other units in this vocabulary: words by key; a closed vocabulary has the same codes."""
    if units.open or units.kind == "group":
        return [-1 if is_unseen(unit) else units.add(unit) for unit in others.known]
    if others is not units:
        for code, unit in enumerate(others.known):
            if code >= len(units):
                units.add(unit)
            elif is_unseen(units.known[code]):
                units.replace(code, unit)
    return list(range(len(others)))
