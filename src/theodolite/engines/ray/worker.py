"""A worker: loads the model once, folds the shards assigned to it, and saves sums and list of shards."""

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

from theodolite.engines.batch_splitting import PartlyAddedError
from theodolite.engines.engine import Documents
from theodolite.engines.gpu import move_to_device
from theodolite.engines.local import FoldStep, fold_prepared
from theodolite.engines.ray.bisect import find_failing_documents
from theodolite.errors import TheodoliteError, first_line, full_message
from theodolite.sources.batch_limit import BatchLimit
from theodolite.sources.prefetch import run_in_thread
from theodolite.sources.source import Source, device_for_sums
from theodolite.state.checkpoints import Checkpoints
from theodolite.state.pilot import Pilot, take_pilot
from theodolite.state.skipped import SkippedDocument
from theodolite.state.state import ShardKey, State
from theodolite.statistics.cuda.context import GpuContext
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.storage.location import Location, check_writable


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """The machine of a worker, as compared with the driver's before the run starts."""

    host: str
    versions: dict[str, str]
    gpus: int  # usable by torch
    sees_output: bool  # whether a file that the driver wrote beside the survey's folder is visible


@dataclass(frozen=True, slots=True)
class ShardResult:
    """The outcome of folding a shard."""

    shard: int
    positions: int = 0
    seconds: float = 0.0  # for reading and folding
    saved: bool = False  # this shard and all before it are saved
    save_seconds: float = 0.0
    cpu_seconds: float = 0.0  # of a core, for reading and folding
    save_error: str | None = None  # why the state could not be saved; it is kept in memory
    failing: tuple[SkippedDocument, ...] = ()  # documents to skip; the shard is not folded
    rolled_back: bool = False  # whatever was not saved is lost: this shard and those before it
    error: str | None = None  # why the shard is not folded, if no single document is at fault
    warnings: tuple[str, ...] = ()  # for the user


class NextShard(NamedTuple):
    """A shard that is prepared before it is assigned."""

    shard: int
    documents: Documents
    wait: Callable[[], Sequence[Any]]  # returns its batches, or raises the error of preparing them


class Worker:
    """One process of a cluster."""

    def __init__(self) -> None:
        self._source: Source
        self._state: State
        self._checkpoints: Checkpoints
        self._restored: tuple[Location, Mapping[int, Frame], str, float]  # the arguments of `restore`
        self._known_units = 0  # when the model was loaded
        self._saved_shards = 0
        self._next: NextShard | None = None
        self._contexts: list[GpuContext] = []  # of the sums, if they are on devices
        self._warnings: list[str] = []  # since the last shard
        self._limit = BatchLimit(self._warn)  # of all shards: what did not fit once does not fit later

    def inspect(self, probe: Location, folder: Path, timeout: float) -> MachineInfo:
        """Describe this machine; wait up to `timeout` seconds for the file `probe`, which the driver wrote.

        The worker changes to `folder`, the driver's working directory, if it exists here, so that relative paths
        mean the same. No file is left behind: on this machine the survey's folder may be a different one.
        """
        import torch

        from theodolite.environment import versions

        with suppress(OSError):
            os.chdir(folder)
        host = platform.node()
        try:
            check_writable(probe.parent)
        except OSError as error:
            raise TheodoliteError(
                f"--out: {host} cannot write to {probe.parent} ({error.strerror or error}). The survey's folder "
                "must be shared by all machines of the cluster."
            ) from None
        installed = {name: version for name, version in versions().items() if name != "platform"}
        return MachineInfo(host, installed, torch.cuda.device_count(), _wait_for_file(probe, timeout))

    def load(self, remake: Callable[[], Source]) -> int:
        """Load the model; return the bytes of memory that are free then."""
        from theodolite.environment import available_memory

        self._source = remake()
        self._known_units = len(self._source.units)
        return available_memory()

    def pilot(self, documents: Documents) -> Pilot:
        """Take the pilot. Documents that raise an error are skipped here; the fold will report them."""
        try:
            return take_pilot(self._source, documents)
        except TheodoliteError:
            raise
        except Exception:
            failing = {
                skipped.document for skipped in find_failing_documents(self._source, -1, documents, self._limit)
            }
            if not failing:
                raise
            return take_pilot(self._source, [each for each in documents if each[0] not in failing])

    def restore(self, folder: Location, frames: Mapping[int, Frame], corpus_sha256: str, every: float) -> int:
        """Load the state that is saved in the folder, or start with an empty one; return its number of shards."""
        self._restored = (folder, frames, corpus_sha256, every)
        units = self._source.units
        units.forget(self._known_units)
        for context in self._contexts:  # it and its folds refer to each other
            context.close()
        self._contexts = []
        self._state = State({}, units)  # free the old state first: two might not fit
        self._checkpoints = Checkpoints(folder, every)
        saved = self._checkpoints.latest(lambda path: State.load(path, frames, units), lambda text: None)
        self._state = saved or State({index: LayerFold(frame) for index, frame in frames.items()}, units)
        if (device := device_for_sums(self._source)) is not None:
            # It is saved from there, and never read off by this worker.
            self._contexts = move_to_device(self._state, device, getattr(self._source, "devices", None))
        self._saved_shards = len(self._state.shards)
        return self._saved_shards

    def fold(
        self, shard: int, documents: Documents | None, following: tuple[int, Documents] | None = None
    ) -> ShardResult:
        """Fold a complete shard or nothing of it, and save if a checkpoint is due. Prepare `following` meanwhile.

        `documents` is None for the shard that was `following` in the call before. If memory runs out while sums
        are added, the worker returns to the saved state, and runs smaller batches from then on.
        """
        started, cpu_started, touched, positions = time.monotonic(), time.process_time(), False, 0
        documents, prepare = self._take_next(shard, documents)
        if following is not None:
            self._next = NextShard(*following, run_in_thread(partial(self._source.prepare, following[1])))

        def count(step: FoldStep) -> None:
            nonlocal positions
            positions += step.positions

        partly_added, reason = False, None
        try:
            batches = prepare()
            touched = bool(batches)
            fold_prepared(self._source, self._state.folds, [(shard, batches)], on_step=count, limit=self._limit)
        except PartlyAddedError:
            partly_added = True
        except Exception as error:
            reason = f"{type(error).__name__}: {first_line(error, '')}"[:300]
        # Outside of `except`: the error is gone, and with it the frames that kept the old sums in memory.
        if partly_added:
            self._warn("the sums of this batch were incomplete: continuing from the last checkpoint")
            self.restore(*self._restored)
            return ShardResult(shard, rolled_back=True, warnings=self._take_warnings())
        if reason is not None:
            return self._fail(shard, documents, reason, touched)
        self._state.positions += positions
        self._state.shards.append(ShardKey(self._restored[2], shard))
        folded, cpu_seconds = time.monotonic(), time.process_time() - cpu_started
        due = self._checkpoints.due(self._state)
        save_error = self._save() if due else None
        return ShardResult(
            shard,
            positions,
            seconds=folded - started,
            saved=due and save_error is None,
            save_seconds=time.monotonic() - folded,
            cpu_seconds=cpu_seconds,
            save_error=save_error,
            warnings=self._take_warnings(),
        )

    def _take_next(self, shard: int, documents: Documents | None) -> tuple[Documents, Callable[[], Sequence[Any]]]:
        """Return the documents of the shard and a function that returns its batches, which may be prepared."""
        prepared, self._next = self._next, None  # a shard that went to another worker is dropped
        if documents is not None:
            return documents, partial(self._source.prepare, documents)
        assert prepared is not None, "neither documents nor a prepared shard"
        assert prepared.shard == shard, f"shard {prepared.shard} is prepared, not {shard}"
        return prepared.documents, prepared.wait

    def save(self) -> float:
        """Save what is not saved yet; return the seconds it took."""
        started = time.monotonic()
        if (error := self._save()) is not None:
            raise TheodoliteError(error)
        return time.monotonic() - started

    def _save(self) -> str | None:
        """Save the state if it has new shards; return the error if that fails."""
        if len(self._state.shards) == self._saved_shards:
            return None
        try:
            self._checkpoints.save(self._state)
            self._saved_shards = len(self._state.shards)
        except (TheodoliteError, OSError) as error:
            self._checkpoints.postpone()
            return f"{platform.node()}: {full_message(error)}"
        return None

    def _fail(self, shard: int, documents: Documents, reason: str, touched: bool) -> ShardResult:
        """Find the documents at fault, and return to the saved state if the sums were changed."""
        failing = tuple(find_failing_documents(self._source, shard, documents, self._limit))
        if touched:
            self.restore(*self._restored)
        error = None if failing else reason
        return ShardResult(
            shard, failing=failing, rolled_back=touched, error=error, warnings=self._take_warnings()
        )

    def _warn(self, text: str) -> None:
        """Keep a warning until the result of the shard is returned."""
        self._warnings.append(f"{platform.node()}: {text}")

    def _take_warnings(self) -> tuple[str, ...]:
        """Return the warnings since the last shard."""
        warnings, self._warnings = tuple(self._warnings), []
        return warnings


def _wait_for_file(probe: Location, timeout: float) -> bool:
    """Return whether the file exists within `timeout` seconds; a shared folder may show it late."""
    deadline = time.monotonic() + timeout
    while not probe.is_file():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
