"""The budget: how much of the time of training measuring may take, and whether the next measurement fits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Seconds spent measuring beside seconds spent training; `share` None sets no bound.

    The first measurement is always taken and may overdraw; the next ones wait until the time is earned.

    >>> now = iter([0.0, 0.0, 1.0, 30.0, 102.0])
    >>> budget = Budget(0.02, clock=lambda: next(now))
    >>> budget.start()
    >>> with_first = budget.fits()  # at 0 s
    >>> budget.spend(1.0)
    >>> with_first, budget.fits(), budget.fits(), budget.fits()  # at 1, 30 and 102 s
    (True, False, False, True)
    """

    share: float | None = 0.02
    clock: Callable[[], float] = time.monotonic
    spent: float = 0.0
    began: float | None = None
    _last: float | None = field(default=None, repr=False)

    def start(self) -> None:
        """Begin to count the time of training."""
        if self.began is None:
            self.began = self.clock()

    def spend(self, seconds: float, expected: float | None = None) -> None:
        """Note what a measurement took; `expected` is what the next will, if that is less."""
        self.spent += seconds
        self._last = seconds if expected is None else expected

    def fits(self) -> bool:
        """Say whether a measurement like the last would keep within the share of the time spent training."""
        now = self.clock()
        if self.share is None or self._last is None:
            return True
        return self.spent + self._last <= self.share * self._training(now)

    @property
    def used(self) -> float:
        """Return the seconds of measuring over those of training; NaN before any training."""
        training = self._training(self.clock())
        return self.spent / training if training > 0 else float("nan")

    def _training(self, now: float) -> float:
        return now - (self.began if self.began is not None else now) - self.spent
