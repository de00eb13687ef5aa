"""The time budget of measurements: a share of the training time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Limits the seconds spent measuring to a share of the seconds spent training. None sets no limit.

    The first measurement is always taken, even if it exceeds the budget. The next one waits until it fits.

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
    started: float | None = None
    _last: float | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start to count the training time, unless it is counted already."""
        if self.started is None:
            self.started = self.clock()

    def spend(self, seconds: float, expected: float | None = None) -> None:
        """Record the duration of a measurement; `expected` is that of the next one, if it differs."""
        self.spent += seconds
        self._last = seconds if expected is None else expected

    def fits(self) -> bool:
        """Return whether a measurement that takes as long as the last one fits into the budget."""
        now = self.clock()
        if self.share is None or self._last is None:
            return True
        return self.spent + self._last <= self.share * self._training(now)

    def describe(self, steps: int) -> str:
        """Return why a measurement does not fit after this many steps, and how often one would fit."""
        now, last, share = self.clock(), self._last or 0.0, self.share or 1.0
        training = self._training(now)
        every = f", that is every {last / share * steps / training:,.0f} steps" if training > 0 and steps else ""
        return (
            f"it takes {last:.2g} s, and share={share:g} of the training time allows one in "
            f"{last / share:.2g} s of training{every}"
        )

    @property
    def used(self) -> float:
        """The ratio of the seconds spent measuring to those spent training; NaN before any training."""
        training = self._training(self.clock())
        return self.spent / training if training > 0 else float("nan")

    def _training(self, now: float) -> float:
        return now - (self.started if self.started is not None else now) - self.spent
