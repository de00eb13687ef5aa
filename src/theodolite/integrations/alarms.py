"""Alarms: dead blocks, exploding norms, new sinks, attention and states that are not finite."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from theodolite.errors import InputError


class GeometryWarning(UserWarning):
    """The geometry of a layer has changed in a way that healthy training does not."""


HARMLESS_LOGIT = 30.0
"""Logits grow many times in the first steps of a healthy run, but not beyond this."""


@dataclass(frozen=True, slots=True)
class Alarms:
    """When a block or layer raises an alarm. None disables an alarm.

    A value is compared with the baseline: the last `baseline` measurements before it that were healthy, at least
    three. So the slow changes of a healthy run move the baseline, and no run needs thresholds of its own.

    - `norm`: the median norm of a layer is more than this many times the largest of the baseline.
    - `dead`: the mean of |w|/|x| of a block, for its input x and what it adds to it, w, is less than this share of
      the median of the first `baseline` measurements. The block then hardly changes the states.
    - `attention`: the mean of the largest weight of each row of attention in a block is above this number, and by
      0.1 above the largest of the baseline. Only with `attention` of the probe.
    - `logits`: the largest attention logit of a block is above 30, and more than this many times the largest of
      the baseline. Only with `attention` of the probe.
    - `sinks`: the share of massive positions is larger than that of the baseline by more than this share of all
      positions, and more than twice as large.

    An alarm is raised when this is so in `patience` consecutive measurements. States that are NaN or infinite
    raise it at once.
    """

    norm: float | None = 3.0
    dead: float | None = 0.05
    sinks: float | None = 0.001
    attention: float | None = 0.9
    logits: float | None = 3.0
    patience: int = 2
    baseline: int = 5

    def __post_init__(self) -> None:
        for name in ("norm", "logits"):
            value = getattr(self, name)
            if value is not None and not value > 1:
                raise InputError(f"alarms: {name} must be a factor above 1 (got {value!r}); None disables it.")
        for name in ("dead", "sinks", "attention"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise InputError(f"alarms: {name} must be between 0 and 1 (got {value!r}); None disables it.")
        for name, least in (("patience", 1), ("baseline", 3)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(
                    f"alarms: {name} must be a number of measurements, at least {least} (got {value!r})."
                )


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm: what happened to which layer, and the values that say so."""

    step: int
    layer: str
    kind: str  # norm, dead, sinks, attention, logits or finite
    before: float
    now: float

    def __str__(self) -> str:
        return f"step {self.step}: {self.layer} {SENTENCES[self.kind].format(before=self.before, now=self.now)}"


SENTENCES = {
    "norm": "is exploding: its median norm was at most {before:.3g} in the baseline and is {now:.3g}",
    "dead": "is dead: it changed its input by {before:.3g} of its norm in the baseline, and now by {now:.3g}",
    "sinks": "has new sinks: {before:.2%} of its positions were massive in the baseline, and now {now:.2%}",
    "attention": "has sharp attention: its mean largest weight was {before:.2f} in the baseline and is {now:.2f}",
    "logits": "has spiking attention logits: the largest was {before:.3g} in the baseline and is {now:.3g}",
    "finite": "has states that are NaN or infinite: {now:.2%} of its positions",
}


@dataclass
class AlarmDetector:
    """Keeps the baseline of every layer and counts how long each has been outside it."""

    thresholds: Alarms
    healthy: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # by layer and kind
    outside: dict[tuple[str, str], int] = field(default_factory=dict)

    def update(
        self,
        step: int,
        rows: pd.DataFrame,
        updates: Mapping[str, float],
        sharpness: pd.DataFrame | None = None,
    ) -> list[Alarm]:
        """Judge one measurement: the rows of one population, the update of each block, and its attention."""
        found = []
        for row in rows.to_dict("records"):
            layer, n, lost = str(row["layer_name"]), _count(row.get("n")), _count(row.get("nonfinite"))
            found += self._judge(step, layer, "finite", lost / (n + lost) if n + lost else 0.0)
            found += self._judge(step, layer, "norm", _number(row.get("norm_p50")))
            if n:
                found += self._judge(step, layer, "sinks", _count(row.get("massive")) / n)
        for block, value in updates.items():
            found += self._judge(step, block, "dead", value)
        for row in [] if sharpness is None else sharpness.to_dict("records"):
            for kind, column in (("attention", "attention_max"), ("logits", "logit_max")):
                found += self._judge(step, str(row["layer_name"]), kind, _number(row.get(column)))
        return found

    @property
    def active(self) -> set[tuple[str, str]]:
        """The layers and kinds that are outside their baseline now."""
        return {key for key, times in self.outside.items() if times >= self._patience(key[1])}

    def _patience(self, kind: str) -> int:
        return 1 if kind == "finite" else self.thresholds.patience

    def _judge(self, step: int, layer: str, kind: str, value: float) -> list[Alarm]:
        """Compare a value with its baseline; return an alarm if it has just been outside for long enough."""
        if math.isnan(value):
            return []
        key, known = (layer, kind), self.healthy.setdefault((layer, kind), [])
        before = self._outside(kind, value, known)
        if before is None:
            self.outside[key] = 0
            # What a block did at first is the baseline of the whole run: it may die slowly.
            if kind != "dead" or len(known) < self.thresholds.baseline:
                self.healthy[key] = [*known, value][-self.thresholds.baseline :]
            return []
        self.outside[key] = self.outside.get(key, 0) + 1
        return [Alarm(step, layer, kind, before, value)] if self.outside[key] == self._patience(kind) else []

    def _outside(self, kind: str, value: float, known: list[float]) -> float | None:
        """Return the number of the baseline that a value is compared with if it is outside it, else None."""
        limits = self.thresholds
        if kind == "finite":
            return 0.0 if value > 0 else None
        if len(known) < 3:
            return None
        if kind == "norm" and limits.norm is not None and value > limits.norm * max(known):
            return max(known)
        if kind == "dead" and limits.dead is not None and value < limits.dead * statistics.median(known):
            return statistics.median(known)
        if kind == "attention" and limits.attention is not None:
            return max(known) if value > max(limits.attention, max(known) + 0.1) else None
        if kind == "logits" and limits.logits is not None:
            return max(known) if value > max(HARMLESS_LOGIT, limits.logits * max(known)) else None
        if kind == "sinks" and limits.sinks is not None and value > max(2 * max(known), max(known) + limits.sinks):
            return max(known)
        return None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and value == value else 0
