"""The driver: gives shards to workers that are idle, and shards of workers that died to others.

What a worker holds is known from the files it has saved, never from what it said. A shard is given to one worker
at a time; it is given again only after the folder of the one that had it was taken from that worker, and only if
what is saved there does not hold it. So each is counted once.

A worker whose GPU would wait for text is told with each shard which comes next, and prepares that one meanwhile.
It is folded only when it is given: one that another worker, idle, can have at once goes there.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from theodolite.engines.ahead import ahead
from theodolite.errors import TheodoliteError
from theodolite.surveys.cluster.crew import Answer, Crew
from theodolite.surveys.cluster.worker import Report, Worker
from theodolite.surveys.engine import Work
from theodolite.surveys.files import AGAIN
from theodolite.surveys.left_out import LeftOut, LostShard
from theodolite.surveys.listener import Progress
from theodolite.surveys.partials import Partials
from theodolite.surveys.plan import Documents

TRIES = 3  # for a shard whose workers die
LIVES = 5  # of a worker that saves nothing between its deaths
PATIENCE = 10.0  # seconds without a worker before the user hears of it


class Drive:
    """One run of a crew over the shards that no file holds."""

    def __init__(
        self,
        work: Work,
        crew: Crew,
        left_out: LeftOut,
        greet: Callable[[str], None],
        check: Callable[[str, Any], None],
    ) -> None:
        assert work.out is not None, "workers need a folder to save to"
        self.work, self.crew, self.left_out = work, crew, left_out
        self.partials = Partials(work.out)
        self._greet, self._check = greet, check  # asks a new worker for its hello; refuses what it says
        self._folder: dict[str, str] = {}  # by worker, where it saves
        self._given: dict[str, set[int]] = {}  # by worker, all that it was given since it began
        self._in_hand: dict[str, tuple[int, int]] = {}  # by worker, the shard it is at and its documents
        self._unsaved: set[str] = set()  # workers with sums that no file holds
        self._idle: deque[str] = deque()
        self._wanting: set[int] = set()  # shards to be given, not in the pass under way
        self._promised: dict[str, tuple[int, Documents]] = {}  # by worker, what it prepares while it folds
        self._pass: Iterator[tuple[int, Documents]] | None = None
        self._tries: Counter[str] = Counter()  # deaths by folder, since it was last saved to
        self._killed: Counter[int] = Counter()  # workers by shard
        self._positions: dict[int, int] = {}  # by shard that is folded
        self._began, self._begun, self._alone_since = time.monotonic(), 0.0, time.monotonic()
        self._stopping = False
        self._last_words = ""
        self.deaths = 0
        self.spent = {"folding": 0.0, "computing": 0.0, "saving": 0.0}  # seconds of all workers together

    def run(self, workers: Iterable[str]) -> None:
        """Fold all that is not held, with workers that have loaded the model; return once all is saved."""
        held = self._take_up()
        self._wanting = set(self.work.plan.shards) - held - self.left_out.shards.keys()
        self._positions = dict.fromkeys(held, 0)
        self._begun = self._share()
        free = deque(self.partials.names())
        for worker in workers:
            self._begin(worker, free.popleft() if free else self.partials.fresh())
        while self._more():
            self._give()
            for answer in self.crew.answers(0.5):
                self._hear(answer)
            self._stopping = self._stopping or self.work.listener.stop()
            self._look_around()
        if self._stopping and self._left():
            raise TheodoliteError(
                f"Interrupted after {sum(self._positions.values()):,} positions, all saved: the same command with "
                "--resume goes on."
            )

    def _take_up(self) -> set[int]:
        """Take every folder from whoever wrote it, and return the shards they hold."""
        for name in self.partials.names():
            self.partials.fence(name)
        states = self.partials.disjoint(self.work.listener.warn)
        for name in set(self.partials.names()) - states.keys():
            self.partials.remove(name)  # nothing was saved in it
        return {shard.index for saved in states.values() for shard in saved.shards}

    def _more(self) -> bool:
        return bool(self._in_hand or self._unsaved or (self._left() and not self._stopping))

    def _left(self) -> bool:
        return bool(self._wanting or self._pass is not None or self._promised)

    def _give(self) -> None:
        """Give every idle worker the next shard; one that gets none saves what it has."""
        for _ in range(len(self._idle)):
            worker = self._idle.popleft()
            known = None if self._stopping else self._promised.pop(worker, None)
            if (shard := known or self._next() or self._broken_promise()) is not None:
                number, documents = shard
                self._in_hand[worker] = (number, len(documents))
                self._given[worker].add(number)
                if waits_for_text(self.work, self.crew) and (coming := self._next()) is not None:
                    self._promised[worker] = coming
                sent = documents if known is None else None  # it has them
                self.crew.ask(worker, "fold", number, sent, self._promised.get(worker))
            elif worker in self._unsaved:
                self.crew.ask(worker, "save")
            else:
                self._idle.append(worker)

    def _broken_promise(self) -> tuple[int, Documents] | None:
        """Return a shard that was promised to a worker which is still busy, if there is one."""
        busy = None if self._stopping else next(iter(self._promised), None)
        return None if busy is None else self._promised.pop(busy)

    def _next(self) -> tuple[int, Documents] | None:
        """Read the next shard; those that came back in the meantime make a pass of their own."""
        while (self._wanting or self._pass is not None) and not self._stopping:
            if self._pass is None:
                self._pass = ahead(self.work.plan.read(sorted(self._wanting)), depth=2)
                self._wanting = set()
            if (read := next(self._pass, None)) is not None:
                return read[0], self.left_out.without(*read)
            self._pass = None
        return None

    def _begin(self, worker: str, folder: str) -> None:
        self._folder[worker], self._given[worker] = folder, set()
        work = self.work
        self.crew.ask(
            worker, "begin", self.partials.path(folder), dict(work.frames), work.plan.corpus_sha256, work.every
        )

    def _hear(self, answer: Answer) -> None:
        worker, error = answer.name, answer.error
        if error is None and answer.method == "hello":
            try:
                self._check(worker, answer.value)
            except TheodoliteError as unlike:
                error = str(unlike)
        if error is not None:
            self.crew.stop(worker)
            self._lost(worker, error)
        elif answer.method == "hello":
            self.crew.ask(worker, "load", self.work.plan.remake)
        elif answer.method == "load":
            self._begin(worker, self._folder[worker])
        else:
            if answer.method == "save":
                self._safe(worker)
                self.spent["saving"] += answer.value
            elif answer.method == "fold":
                self._reported(worker, answer.value)
            self._idle.append(worker)

    def _reported(self, worker: str, report: Report) -> None:
        _, documents = self._in_hand.pop(worker)
        self.spent["folding"] += report.seconds
        self.spent["computing"] += report.computing
        self.spent["saving"] += report.saving
        if report.poisons or report.failed:
            self._not_folded(worker, report, documents)
            return
        self._unsaved.add(worker)
        if report.saved:
            self._safe(worker)
        if report.unsaved is not None:
            reason = report.unsaved.removesuffix(AGAIN)
            self.work.listener.warn(f"{reason} The sums are kept in memory, and saving is tried again.")
        self._positions[report.shard] = report.positions
        done = sum(self._positions.values())
        self.work.listener.progress(Progress(self._share(), done, time.monotonic() - self._began, self._begun))

    def _safe(self, worker: str) -> None:
        self._unsaved.discard(worker)
        self._tries.pop(self._folder[worker], None)
        self.partials.tidy(self._folder[worker])

    def _not_folded(self, worker: str, report: Report, documents: int) -> None:
        """Leave out what raised, and have the shard folded again, with those that were undone with it."""
        self.left_out.add(report.poisons)
        self._given[worker].discard(report.shard)
        if report.failed:
            self._killed[report.shard] += 1
        self._want_again(report.shard, documents, report.failed or "")
        self.left_out.save(self.partials.folder)  # before anyone folds the shard without it
        if report.undone:
            self._give_back(worker, self._folder[worker])
            self._unsaved.discard(worker)

    def _lost(self, worker: str, reason: str) -> None:
        """Take a dead worker's folder, have folded again what it does not hold, and start another in its place."""
        self.deaths += 1
        self._last_words = reason = reason.removesuffix(AGAIN)  # this run goes on by itself
        self._unsaved.discard(worker)
        if (promised := self._promised.pop(worker, None)) is not None:
            self._wanting.add(promised[0])
        old = self._folder.pop(worker)
        folder = self.partials.fence(old)
        again = self._give_back(worker, folder)
        shard, documents = self._in_hand.pop(worker, (None, 0))
        if shard in again:  # it may have been saved just before
            self._wanting.discard(shard)
            self._killed[shard] += 1
            self._want_again(shard, documents, f"{TRIES} workers died at it; the last: {reason}")
            self.left_out.save(self.partials.folder)
        self.work.listener.warn(
            f"a worker was lost ({reason}); {len(again)} shards that it had not saved are folded again"
        )
        self._tries[folder] = self._tries.pop(old, 0) + 1
        if self._tries[folder] < LIVES:
            name = f"{worker.partition('+')[0]}+{self.deaths}"
            self._folder[name], self._given[name] = folder, set()
            self.crew.start(name, Worker)
            self._greet(name)

    def _give_back(self, worker: str, folder: str) -> set[int]:
        """Want again, and return, the shards that the worker was given and its folder does not hold."""
        saved = self.partials.saved(folder, self.work.listener.warn)
        kept = {shard.index for shard in saved.shards} if saved is not None else set()
        lost = self._given[worker] - kept
        self._given[worker] -= lost
        self._wanting |= lost
        for shard in lost:
            self._positions.pop(shard, None)
        self._positions = dict.fromkeys(kept, 0) | self._positions
        return lost

    def _want_again(self, shard: int, documents: int, reason: str) -> None:
        """Have a shard folded again, unless it has failed too often."""
        if self._killed[shard] < TRIES:
            self._wanting.add(shard)
        else:
            self.left_out.shards[shard] = LostShard(shard, documents, reason)

    def _look_around(self) -> None:
        """Give up if no worker is left; tell if there has been none for a while."""
        if not self._folder:
            raise TheodoliteError(
                f"No worker is left: each was lost {LIVES} times without saving a shard. The last: "
                f"{self._last_words} What was saved is whole: the same command with --resume goes on."
            )
        if self._idle or self._in_hand or self._unsaved:
            self._alone_since = time.monotonic()
        elif time.monotonic() - self._alone_since > PATIENCE and self.deaths:
            self._alone_since = float("inf")
            self.work.listener.say("no worker is left: waiting for room on the cluster, or Ctrl-C to stop")

    def _share(self) -> float:
        return sum(self.work.plan.weight(shard) for shard in self._positions)


def waits_for_text(work: Work, crew: Crew) -> bool:
    """Say whether workers prepare ahead. Words get their codes in the order in which they are folded."""
    return crew.room.gpus > 0 and not work.plan.source.units.open
