"""The pass of a bridge over its corpus, with checkpoints from which an interrupted run continues."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from theodolite.engines.progress import Listener, Progress
from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.storage.files import read_tensors, write_tensors
from theodolite.storage.location import local_path
from theodolite.studies.bridge.positions import (
    DOCUMENT,
    HELD_SHARE,
    PLACES,
    Piece,
    PositionReader,
    Positions,
    cut_pieces,
)
from theodolite.studies.bridge.spaces import Space
from theodolite.studies.laboratory import begin_laboratory

if TYPE_CHECKING:
    from theodolite.studies.bridge.bridge import Bridge

CHECKPOINT = "checkpoint.safetensors"
WRITE_SHARE = 0.03
"""Checkpoints take at most about this share of the time."""


def identify(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two runs must have in common to be continued or merged."""
    models = [facts[name] for name in ("model", "model_b") if facts[name] is not None]
    layers = [facts[name] for name in ("layers", "layers_b") if facts[name] is not None]
    return {
        "weights": [model["sha256"] for model in models],
        "dtype": [model["dtype"] for model in models],
        "layers": [[layer["index"] for layer in each] for each in layers],
        **{name: facts["settings"][name] for name in ("match", "population", "max_tokens", "sample_size")},
        "sums": facts["sums"]["pairs"],
    }


def explain_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return the first thing in which two identities differ, in words; None if they are equal."""
    names = {"corpus": "the documents", "weights": "the weights of the models", "sums": "the sums that are kept"}
    for name in one:
        if one[name] != other.get(name):
            shown = "" if name in names else f" ({other.get(name)} there, {one[name]} here)"
            return f"{names.get(name, name)} {'differ' if shown == '' else 'differs'}{shown}"
    return None


class Checkpoint:
    """The file in the folder of the results that has the sums so far. Without a folder nothing is written."""

    def __init__(self, out: str | Path | None, identity: Mapping[str, Any], every: float) -> None:
        self.folder = None if out is None else local_path(out, "bridge")
        self.identity = dict(identity)
        self._every, self._last, self._cost = every, perf_counter(), 0.0

    def write_if_due(self, reading: Reading) -> None:
        """Write the sums, at most every `every` seconds and not more often than is worth its time."""
        begin = perf_counter()
        if self.folder is None or begin - self._last < max(self._every, self._cost / WRITE_SHARE):
            return
        begin_laboratory(self.folder, "bridge")
        metadata = {"identity": json.dumps(self.identity), "progress": json.dumps(reading.progress())}
        write_tensors(self.folder / CHECKPOINT, reading.state(), metadata)
        self._last = perf_counter()
        self._cost = self._last - begin

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the state and the progress of the run to be continued; None if there is no checkpoint."""
        if self.folder is None:
            raise InputError("--resume requires --out (got none), the folder of the interrupted run.")
        if not (self.folder / CHECKPOINT).is_file():
            return None
        tensors, metadata = read_tensors(self.folder / CHECKPOINT)
        if (why := explain_difference(self.identity, json.loads(metadata["identity"]))) is not None:
            raise InputError(
                f"--resume: the run in {self.folder} was another one: {why}. Give its arguments, or another --out."
            )
        return tensors, json.loads(metadata["progress"])

    def remove(self) -> None:
        """Delete the file, when the run is complete."""
        if self.folder is not None:
            (self.folder / CHECKPOINT).unlink(missing_ok=True)


class Reading:
    """Reads documents through all models and adds their matched positions to the sums of a bridge."""

    def __init__(self, bridge: Bridge, readers: Sequence[PositionReader]) -> None:
        self.bridge, self.readers = bridge, readers
        self.chunks = 0
        self.matched = 0
        self.documents = {"documents": 0, "held_out": 0}
        self.seconds = {"forward": 0.0, "sums": 0.0}

    def read(
        self, documents: Iterable[tuple[int, str]], characters: int, listener: Listener, checkpoint: Checkpoint
    ) -> None:
        """Read the documents, which have this many characters, except those that a checkpoint has."""
        done, gone, begin = self.chunks, 0, perf_counter()
        for number, pieces in enumerate(cut_pieces(documents, whole=self.readers[0].match == DOCUMENT)):
            gone += sum(len(piece.text) for piece in pieces)
            if number < done:
                continue
            start = perf_counter()
            found = [reader.read(pieces) for reader in self.readers]
            middle = perf_counter()
            self._add(pieces, found)
            self.seconds["forward"] += middle - start
            self.seconds["sums"] += perf_counter() - middle
            self.documents["documents"] += sum(piece.number == 0 for piece in pieces)
            self.documents["held_out"] += sum(piece.number == 0 and piece.held for piece in pieces)
            self.chunks += 1
            checkpoint.write_if_due(self)
            listener.progress(Progress(min(gone / characters, 1.0), self.matched, perf_counter() - begin))
        if not self.matched:
            raise InputError(
                "CORPUS has no position that can be matched: no token of it is text for all models, or all are "
                "sinks."
            )

    def _add(self, pieces: Sequence[Piece], found: Sequence[Positions]) -> None:
        keys = found[0].keys
        for each in found[1:]:
            keys = np.intersect1d(keys, each.keys, assume_unique=True)
        if not len(keys):
            return
        self.matched += len(keys)
        rows = [torch.from_numpy(np.searchsorted(each.keys, keys)) for each in found]
        states = {
            Space(side, layer): part[rows[side]]
            for side, each in enumerate(found)
            for layer, part in each.states.items()
        }
        piece, place = keys // PLACES, keys % PLACES
        group = torch.tensor([each.group for each in pieces])[torch.from_numpy(piece)]
        self.bridge.sums.update(states, group)
        document, number = (
            np.array([getattr(each, name) for each in pieces])[piece] for name in ("document", "number")
        )
        order = torch.from_numpy((mix(document, number, place) >> np.uint64(1)).astype(np.int64))
        held, sample = group % HELD_SHARE == 0, self.bridge.sample
        sample.update(order[held], {space: states[space][held] for space in sample.rows})

    def describe(self) -> dict[str, Any]:
        """Return the matched positions, what each model has read and left out, and the seconds."""
        counts = [reader.counts for reader in self.readers]
        return {"positions": {"matched": self.matched, "models": counts}, "seconds": self.seconds}

    def progress(self) -> dict[str, Any]:
        """Return what a checkpoint records beside the sums."""
        return {"chunks": self.chunks, "documents": self.documents, **self.describe()}

    def state(self) -> dict[str, Tensor]:
        """Return the sums, the sample and the thresholds of the sinks."""
        limits = {f"limits.{side}": reader.limits for side, reader in enumerate(self.readers)}
        return self.bridge.state() | {name: limit for name, limit in limits.items() if limit is not None}

    def load(self, checkpoint: Checkpoint) -> str:
        """Continue from a checkpoint, if there is one; return a sentence about it."""
        found = checkpoint.read()
        if found is None:
            return "There is no checkpoint to resume: starting from the beginning."
        state, progress = found
        self.bridge.load(state)
        for side, (reader, counts) in enumerate(zip(self.readers, progress["positions"]["models"], strict=True)):
            reader.limits, reader.counts = state.get(f"limits.{side}"), counts
        self.chunks, self.matched = progress["chunks"], progress["positions"]["matched"]
        self.documents, self.seconds = progress["documents"], progress["seconds"]
        return f"Resuming after {self.documents['documents']:,} documents."
