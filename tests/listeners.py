"""A listener that tests give to a run: it keeps what it is sent, and can stop the run."""

from __future__ import annotations

import math

from theodolite.engines.progress import Listener


class RecordingListener(Listener):
    """Keeps messages and warnings. Stops the run at its `stop_at`-th question whether to stop."""

    def __init__(self, stop_at: float = math.inf) -> None:
        self.said: list[str] = []
        self.warned: list[str] = []
        self.stop_at, self.asked = stop_at, 0

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warned.append(text)

    def stop(self) -> bool:
        self.asked += 1
        return self.asked >= self.stop_at
