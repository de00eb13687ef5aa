"""The driver: assigns shards to idle workers, and the shards of dead workers to others.

Which shards a worker has folded is read from the files it has saved, never from its replies. A shard is assigned
to one worker at a time. It is assigned again only after the folder of the first worker has been renamed, so that
this worker can no longer change it, and only if the state saved there does not contain the shard. So each shard is
counted once.

A worker whose GPU would otherwise wait for text is given the next shard together with each shard, and prepares it
meanwhile. The next shard is folded only when it is assigned: an idle worker may take it first.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from theodolite.engines.engine import Documents, Work
from theodolite.engines.progress import Progress
from theodolite.engines.ray.pool import Reply, WorkerPool
from theodolite.engines.ray.worker import ShardResult, Worker
from theodolite.errors import TheodoliteError
from theodolite.sources.prefetch import prefetch
from theodolite.state.skipped import Skipped, SkippedShard
from theodolite.state.worker_states import WorkerStates
from theodolite.storage.atomic import DISK_HINT
from theodolite.text import pluralize

MAX_SHARD_FAILURES = 3  # workers that may die or fail at a shard before it is skipped
MAX_WORKER_DEATHS = 5  # of a worker that saves nothing in between
NOTICE_AFTER = 10.0  # seconds without any worker before the user is warned


class Driver:
    """One run of the workers of a pool over all shards that are not saved yet."""

    def __init__(
        self,
        work: Work,
        pool: WorkerPool,
        skipped: Skipped,
        request_inspection: Callable[[str], None],
        check_machine: Callable[[str, Any], None],
    ) -> None:
        assert work.out is not None, "workers need a folder to save to"
        self.work, self.pool, self.skipped = work, pool, skipped
        self.states = WorkerStates(work.out)
        self._request_inspection, self._check_machine = request_inspection, check_machine  # of a new worker
        self._folder: dict[str, str] = {}  # by worker: where it saves
        self._assigned: dict[str, set[int]] = {}  # by worker: all shards assigned since it was started
        self._running: dict[str, tuple[int, int]] = {}  # by worker: the current shard and its number of documents
        self._unsaved: set[str] = set()  # workers with sums that are not saved
        self._idle: deque[str] = deque()
        self._pending: set[int] = set()  # shards to assign that the current reader does not read
        self._prepared: dict[str, tuple[int, Documents]] = {}  # by worker: the shard that it prepares meanwhile
        self._reader: Iterator[tuple[int, Documents]] | None = None
        self._deaths_in: Counter[str] = Counter()  # by folder, since it was last saved to
        self._failures: Counter[int] = Counter()  # by shard
        self._positions: dict[int, int] = {}  # by folded shard
        self._started, self._initial_share = time.monotonic(), 0.0
        self._last_active = time.monotonic()
        self._stopping = False
        self._last_error = ""
        self.deaths = 0
        self.seconds = {"folding": 0.0, "computing": 0.0, "saving": 0.0}  # of all workers together

    def run(self, workers: Iterable[str]) -> None:
        """Fold all shards that are not saved, with workers that have loaded the model; return when all are."""
        saved = self._take_over_folders()
        self._pending = set(self.work.plan.shards) - saved - self.skipped.shards.keys()
        self._positions = dict.fromkeys(saved, 0)
        self._initial_share = self._share()
        folders = deque(self.states.names())
        for worker in workers:
            self._restore(worker, folders.popleft() if folders else self.states.create())
        while self._has_work():
            self._assign_shards()
            for reply in self.pool.replies(0.5):
                self._handle(reply)
            self._stopping = self._stopping or self.work.listener.stop()
            self._check_workers()
        if self._stopping and self._has_unassigned():
            raise TheodoliteError(
                f"Interrupted after {sum(self._positions.values()):,} positions, all saved. Run the same command "
                "with --resume to continue."
            )

    def _take_over_folders(self) -> set[int]:
        """Rename every folder, so that workers of an earlier run cannot write to it; return the saved shards."""
        for name in self.states.names():
            self.states.fence(name)
        states = self.states.disjoint(self.work.listener.warn)
        for name in set(self.states.names()) - states.keys():
            self.states.remove(name)  # nothing was saved in it
        return {shard.index for saved in states.values() for shard in saved.shards}

    def _has_work(self) -> bool:
        return bool(self._running or self._unsaved or (self._has_unassigned() and not self._stopping))

    def _has_unassigned(self) -> bool:
        return bool(self._pending or self._reader is not None or self._prepared)

    def _assign_shards(self) -> None:
        """Assign the next shard to each idle worker; a worker for which there is none saves its sums."""
        for _ in range(len(self._idle)):
            worker = self._idle.popleft()
            prepared = None if self._stopping else self._prepared.pop(worker, None)
            if (shard := prepared or self._read_next() or self._take_prepared()) is not None:
                number, documents = shard
                self._running[worker] = (number, len(documents))
                self._assigned[worker].add(number)
                if prepares_ahead(self.work, self.pool) and (following := self._read_next()) is not None:
                    self._prepared[worker] = following
                to_send = documents if prepared is None else None  # the worker has those of a prepared shard
                self.pool.call(worker, "fold", number, to_send, self._prepared.get(worker))
            elif worker in self._unsaved:
                self.pool.call(worker, "save")
            else:
                self._idle.append(worker)

    def _take_prepared(self) -> tuple[int, Documents] | None:
        """Return a shard that a busy worker has prepared but not started, if there is one."""
        busy = None if self._stopping else next(iter(self._prepared), None)
        return None if busy is None else self._prepared.pop(busy)

    def _read_next(self) -> tuple[int, Documents] | None:
        """Read the next shard; shards that became pending in the meantime are read in another pass."""
        while (self._pending or self._reader is not None) and not self._stopping:
            if self._reader is None:
                self._reader = prefetch(self.work.plan.read(sorted(self._pending)), depth=2)
                self._pending = set()
            if (read := next(self._reader, None)) is not None:
                return read[0], self.skipped.without(*read)
            self._reader = None
        return None

    def _restore(self, worker: str, folder: str) -> None:
        self._folder[worker], self._assigned[worker] = folder, set()
        work = self.work
        self.pool.call(
            worker, "restore", self.states.path(folder), dict(work.frames), work.plan.corpus_sha256, work.every
        )

    def _handle(self, reply: Reply) -> None:
        worker, error = reply.worker, reply.error
        if error is None and reply.method == "inspect":
            try:
                self._check_machine(worker, reply.value)
            except TheodoliteError as mismatch:
                error = str(mismatch)
        if error is not None:
            self.pool.stop(worker)
            self._replace(worker, error)
        elif reply.method == "inspect":
            self.pool.call(worker, "load", self.work.plan.remake)
        elif reply.method == "load":
            self._restore(worker, self._folder[worker])
        else:
            if reply.method == "save":
                self._mark_saved(worker)
                self.seconds["saving"] += reply.value
            elif reply.method == "fold":
                self._handle_shard(worker, reply.value)
            self._idle.append(worker)

    def _handle_shard(self, worker: str, result: ShardResult) -> None:
        _, documents = self._running.pop(worker)
        self.seconds["folding"] += result.seconds
        self.seconds["computing"] += result.cpu_seconds
        self.seconds["saving"] += result.save_seconds
        for text in result.warnings:
            self.work.listener.warn(text)
        if result.failing or result.error or result.rolled_back:
            self._handle_failure(worker, result, documents)
            return
        self._unsaved.add(worker)
        if result.saved:
            self._mark_saved(worker)
        if result.save_error is not None:
            reason = result.save_error.removesuffix(DISK_HINT)
            self.work.listener.warn(f"{reason} The sums stay in memory; saving will be tried again.")
        self._positions[result.shard] = result.positions
        done, elapsed = sum(self._positions.values()), time.monotonic() - self._started
        self.work.listener.progress(Progress(self._share(), done, elapsed, self._initial_share))

    def _mark_saved(self, worker: str) -> None:
        self._unsaved.discard(worker)
        self._deaths_in.pop(self._folder[worker], None)
        self.states.tidy(self._folder[worker])

    def _handle_failure(self, worker: str, result: ShardResult, documents: int) -> None:
        """Skip the failing documents; repeat the shard, and those whose sums were lost with it."""
        self.skipped.add(result.failing)
        self._assigned[worker].discard(result.shard)
        if result.error:
            self._failures[result.shard] += 1
        self._repeat_or_skip(result.shard, documents, result.error or "")
        self.skipped.save(self.states.folder)  # before any worker folds the shard without these documents
        if result.rolled_back:
            self._reclaim(worker, self._folder[worker])
            self._unsaved.discard(worker)

    def _replace(self, worker: str, reason: str) -> None:
        """Take over the folder of a dead worker, repeat the shards it had not saved, and start another worker."""
        self.deaths += 1
        self._last_error = reason = reason.removesuffix(DISK_HINT)  # this run continues by itself
        self._unsaved.discard(worker)
        if (prepared := self._prepared.pop(worker, None)) is not None:
            self._pending.add(prepared[0])
        old = self._folder.pop(worker)
        folder = self.states.fence(old)
        lost = self._reclaim(worker, folder)
        shard, documents = self._running.pop(worker, (None, 0))
        if shard in lost:  # unless it was saved just before
            self._pending.discard(shard)
            self._failures[shard] += 1
            self._repeat_or_skip(shard, documents, f"{MAX_SHARD_FAILURES} workers died at it; the last: {reason}")
            self.skipped.save(self.states.folder)
        self.work.listener.warn(
            f"a worker was lost ({reason}); {pluralize(len(lost), 'shard')} that it had not saved will be repeated"
        )
        self._deaths_in[folder] = self._deaths_in.pop(old, 0) + 1
        if self._deaths_in[folder] < MAX_WORKER_DEATHS:
            name = f"{worker.partition('+')[0]}+{self.deaths}"
            self._folder[name], self._assigned[name] = folder, set()
            self.pool.start(name, Worker)
            self._request_inspection(name)

    def _reclaim(self, worker: str, folder: str) -> set[int]:
        """Make the shards pending that the worker was assigned and its folder does not contain; return them."""
        saved = self.states.saved(folder, self.work.listener.warn)
        kept = {shard.index for shard in saved.shards} if saved is not None else set()
        lost = self._assigned[worker] - kept
        self._assigned[worker] -= lost
        self._pending |= lost
        for shard in lost:
            self._positions.pop(shard, None)
        self._positions = dict.fromkeys(kept, 0) | self._positions
        return lost

    def _repeat_or_skip(self, shard: int, documents: int, reason: str) -> None:
        """Make a shard pending again, or skip it if it has failed too often."""
        if self._failures[shard] < MAX_SHARD_FAILURES:
            self._pending.add(shard)
        else:
            self.skipped.shards[shard] = SkippedShard(shard, documents, reason)

    def _check_workers(self) -> None:
        """Raise if no worker can be started any more; warn if there has been none for a while."""
        if not self._folder:
            raise TheodoliteError(
                f"No worker is left: each died {MAX_WORKER_DEATHS} times without saving a shard. The last error: "
                f"{self._last_error} What was saved is complete. Run the same command with --resume to continue."
            )
        if self._idle or self._running or self._unsaved:
            self._last_active = time.monotonic()
        elif time.monotonic() - self._last_active > NOTICE_AFTER and self.deaths:
            self._last_active = float("inf")
            self.work.listener.say("no worker is running: waiting for free cores on the cluster (Ctrl-C stops)")

    def _share(self) -> float:
        return sum(self.work.plan.weight(shard) for shard in self._positions)


def prepares_ahead(work: Work, pool: WorkerPool) -> bool:
    """Return whether workers prepare the next shard; not for words, which are numbered as they are folded."""
    return pool.capacity.gpus > 0 and not work.plan.source.units.open
