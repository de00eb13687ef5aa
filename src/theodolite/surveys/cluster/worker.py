"""A worker: loads the model once, folds the shards it is given, saves its sums with the list of their shards."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from theodolite.batch import Batch
from theodolite.engines.ahead import beside
from theodolite.errors import TheodoliteError, first_line
from theodolite.sources.source import Source
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.surveys.checkpoints import Checkpoints
from theodolite.surveys.cluster.culprits import culprits
from theodolite.surveys.left_out import Poison
from theodolite.surveys.pilot import Pilot, take_pilot
from theodolite.surveys.plan import Documents
from theodolite.surveys.residence import home, moved
from theodolite.surveys.state import ShardKey, State
from theodolite.surveys.storage import Place, try_to_write


@dataclass(frozen=True, slots=True)
class Hello:
    """What a worker says of its machine before it does anything."""

    host: str
    versions: dict[str, str]
    memory: int  # bytes that are free
    gpus: int  # that torch can use
    sees: bool  # what the driver wrote where the survey will be


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a shard."""

    shard: int
    positions: int = 0
    seconds: float = 0.0  # for reading and folding it
    saved: bool = False  # with all before it
    saving: float = 0.0  # seconds
    computing: float = 0.0  # seconds of a core, of those for reading and folding
    unsaved: str | None = None  # why the state could not be saved; it is kept in memory
    poisons: tuple[Poison, ...] = ()  # documents to leave out: the shard is not folded
    undone: bool = False  # what was not saved is forgotten, this shard and those before it
    failed: str | None = None  # why the shard is not folded, where no document is to blame


class Coming(NamedTuple):
    """A shard that is prepared before it is given."""

    shard: int
    documents: Documents
    batches: Callable[[], Sequence[Any]]  # waits for them, or raises what preparing them raised


class Worker:
    """One process of a cluster."""

    def __init__(self) -> None:
        self._source: Source
        self._state: State
        self._checkpoints: Checkpoints
        self._begun: tuple[Place, Mapping[int, Frame], str, float]
        self._closed = 0
        self._safe = 0  # shards that are saved
        self._coming: Coming | None = None

    def hello(self, probe: Place, where: Path, seeing: float) -> Hello:
        """Look for the probe, which the driver wrote, for so many seconds, and say what is here.

        Paths mean what they mean to the driver, in the folder `where` it was started, if that is here too. Nothing
        is left: this may be a machine that has another folder of that name.
        """
        import psutil
        import torch

        from theodolite.surveys.run import versions

        with suppress(OSError):
            os.chdir(where)
        host = platform.node()
        try:
            try_to_write(probe.parent)
        except OSError as error:
            raise TheodoliteError(
                f"--out: {host} cannot write to {probe.parent} ({error.strerror or error}); the survey's folder "
                "must be one that every machine of the cluster sees."
            ) from None
        told = {name: version for name, version in versions().items() if name != "platform"}
        free, gpus = psutil.virtual_memory().available, torch.cuda.device_count()
        return Hello(host, told, free, gpus, _seen(probe, seeing))

    def load(self, remake: Callable[[], Source]) -> None:
        """Load the model."""
        self._source = remake()
        self._closed = len(self._source.units)

    def pilot(self, documents: Documents, model_sha256: str) -> Pilot:
        """Take the pilot; of documents that raise it is taken without, and the fold will name them."""
        try:
            return take_pilot(self._source, documents, model_sha256)
        except TheodoliteError:
            raise
        except Exception:
            bad = {poison.document for poison in culprits(self._source, -1, documents)}
            if not bad:
                raise
            return take_pilot(self._source, [each for each in documents if each[0] not in bad], model_sha256)

    def begin(self, folder: Place, frames: Mapping[int, Frame], corpus_sha256: str, every: float) -> int:
        """Take up what is saved in the folder, or begin empty; return how many shards that is."""
        self._begun = (folder, frames, corpus_sha256, every)
        units = self._source.units
        units.forget(self._closed)
        self._state = State({}, units)  # what was there goes first: two states might not fit
        self._checkpoints = Checkpoints(folder, every)
        saved = self._checkpoints.latest(lambda path: State.load(path, frames, units), lambda text: None)
        self._state = saved or State({index: LayerFold(frame) for index, frame in frames.items()}, units)
        if (device := home(self._source)) is not None:
            moved(self._state, device)  # saved from there; here nothing is read off
        self._safe = len(self._state.shards)
        return self._safe

    def fold(self, shard: int, documents: Documents | None, coming: tuple[int, Documents] | None = None) -> Report:
        """Fold a shard, whole or not at all, and save if it is time. `coming` is prepared meanwhile.

        Without documents it is the shard that was coming.
        """
        began, computed, touched = time.monotonic(), time.process_time(), False
        documents, batches_of = self._taken(shard, documents)
        if coming is not None:
            self._coming = Coming(*coming, beside(partial(self._source.prepare, coming[1])))
        try:
            batches = batches_of()
            for batch in batches:
                touched = True
                self._source.run(batch, self._sink)
        except Exception as error:
            return self._failed(shard, documents, error, touched)
        positions = sum(batch.positions for batch in batches)
        self._state.positions += positions
        self._state.shards.append(ShardKey(self._begun[2], shard))
        folded, computed = time.monotonic(), time.process_time() - computed
        due = self._checkpoints.due()
        unsaved = self._saved() if due else None
        saving = time.monotonic() - folded
        return Report(shard, positions, folded - began, due and unsaved is None, saving, computed, unsaved)

    def _taken(self, shard: int, documents: Documents | None) -> tuple[Documents, Callable[[], Sequence[Any]]]:
        """Return the shard's documents and what gives its batches: begun before, or to be prepared now."""
        coming, self._coming = self._coming, None  # what was begun for another worker's sake is let go
        if documents is not None:
            return documents, partial(self._source.prepare, documents)
        assert coming is not None, "no documents came, nor were any coming"
        assert coming.shard == shard, f"shard {coming.shard} was coming, and {shard} is wanted"
        return coming.documents, coming.batches

    def save(self) -> float:
        """Save what is not saved yet; return the seconds it took."""
        began = time.monotonic()
        if (unsaved := self._saved()) is not None:
            raise TheodoliteError(unsaved)
        return time.monotonic() - began

    def _sink(self, batch: Batch) -> None:
        self._state.folds[batch.layer].update(batch)

    def _saved(self) -> str | None:
        """Save what is new, or say why that could not be done."""
        if len(self._state.shards) == self._safe:
            return None
        try:
            self._checkpoints.save(self._state)
            self._safe = len(self._state.shards)
        except (TheodoliteError, OSError) as error:
            self._checkpoints.postpone()
            return f"{platform.node()}: {error}"
        return None

    def _failed(self, shard: int, documents: Documents, error: Exception, touched: bool) -> Report:
        """Find the documents to blame, and go back to what is saved if the sums were touched."""
        reason = f"{type(error).__name__}: {first_line(error, '')}"[:300]
        found = tuple(culprits(self._source, shard, documents))
        if touched:
            self.begin(*self._begun)
        return Report(shard, poisons=found, undone=touched, failed=None if found else reason)


def _seen(probe: Place, seconds: float) -> bool:
    """Say whether the file is here, or comes to be: a shared folder may show it late."""
    until = time.monotonic() + seconds
    while not probe.is_file():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True
