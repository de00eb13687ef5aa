"""What changed while a model trained: each measure's way from the first step to the last, by its turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from theodolite.naming import several
from theodolite.report.findings.finding import ALIKE, Finding, apart
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.numbers import count, show
from theodolite.report.rows import Row, layer_name, layer_rows, number, populations
from theodolite.report.tables import Tables

MEASURES = {
    "mean_cosine": "the mean cosine",
    "anisotropy_svd": "the SVD anisotropy",
    "effective_rank": "the effective rank",
    "twonn": "the intrinsic dimension (TwoNN)",
    "norm_p50": "the median norm",
}

# Embeddings and a final norm are no blocks, and differ from them so much that they would lead any mean.
NO_BLOCKS = ("embeddings", "final norm")


@dataclass(frozen=True)
class Moment:
    """A step, the mean of a measure over layers there, and the mean of their standard errors (NaN: not told)."""

    step: float
    value: float
    error: float

    def told(self) -> str:
        """Write the value with its error and its step."""
        error = f" ± {show(self.error, 2)}" if self.error > 0 else ""
        return f"{show(self.value)}{error} at step {count(self.step)}"


def is_series(tables: Tables) -> bool:
    """Say whether these are the tables of a series: its layers are told by step."""
    return "step" in tables.layers.columns


def training(series: Tables) -> list[Finding]:
    """Return what changed over the steps, a finding a measure; nothing where fewer than two steps tell it."""
    known = populations(series)
    if not is_series(series) or not known:
        return []
    found = [_way(series, known[0], column, label) for column, label in MEASURES.items()]
    return [one for one in found if one is not None]


def _way(series: Tables, population: str, column: str, label: str) -> Finding | None:
    curve, layers = over_steps(series, population, column)
    if len(curve) < 2:
        return None
    points = turns(curve)
    over = f", the mean over {several(layers, 'layer')}," if layers > 1 else ""
    no_errors = (
        "" if any(one.error > 0 for one in curve) else f" It has no error bar; less than {ALIKE:.0%} is no change."
    )
    name = label[0].upper() + label[1:]
    if len(points) < 2:
        beyond = "its error" if not no_errors else "that"
        text = f"{name}{over} began at {curve[0].told()} and did not move by more than {beyond}.{no_errors}"
    else:
        text = (
            f"{name}{over} was {points[0].told()}{_legs(points)}.{no_errors}{_other(series, population, column)}"
        )
    return Finding(
        f"training-{column}",
        f"{show(curve[0].value, 3)} → {show(curve[-1].value, 3)}",
        f"{label}, step {count(curve[0].step)} to {count(curve[-1].step)}",
        text,
        column=column,
        chart="steps",
        formula=formula_id(series, column),
    )


def over_steps(series: Tables, population: str, column: str) -> tuple[list[Moment], int]:
    """Return the mean over blocks at every step, and of how many: only layers that tell it at every step count."""
    rows = [row for row in layer_rows(series, population) if math.isfinite(number(row, "step"))]
    steps = sorted({number(row, "step") for row in rows})
    by_layer: dict[float, dict[float, Row]] = {}
    for row in rows:
        by_layer.setdefault(number(row, "layer"), {})[number(row, "step")] = row
    told = [
        at for at in by_layer.values() if all(math.isfinite(number(at.get(step, {}), column)) for step in steps)
    ]
    blocks = [at for at in told if not layer_name(at[steps[0]]).endswith(NO_BLOCKS)] or told
    curve = [
        Moment(step, *(fmean(number(at[step], name) for at in blocks) for name in (column, f"{column}_se")))
        for step in steps
        if blocks
    ]
    return curve, len(blocks)


def turns(curve: Sequence[Moment]) -> list[Moment]:
    """Return the first moment, the highest and the lowest in their order, and the last, less what is no change.

    >>> [one.step for one in turns([Moment(0, 1.0, 0.1), Moment(1, 5.0, 0.1), Moment(2, 2.0, 0.1)])]
    [0, 1, 2]
    >>> [one.step for one in turns([Moment(0, 1.0, 0.1), Moment(1, 1.1, 0.1), Moment(2, 1.0, 0.1)])]
    [0]
    """
    first, last = curve[0], curve[-1]
    inner = {max(curve, key=lambda one: one.value), min(curve, key=lambda one: one.value)} - {first, last}
    points = [first]
    for one in sorted(inner, key=lambda moment: moment.step):
        # A turn must stand out from where it came and from where it went.
        if _moved(points[-1], one) and _moved(one, last):
            points.append(one)
    return [*points, last] if _moved(points[-1], last) else points


def _moved(a: Moment, b: Moment) -> bool:
    return apart(a.value, b.value, a.error, b.error)


def _legs(points: list[Moment]) -> str:
    legs = [
        f"{'rose' if after.value > before.value else 'fell'} to {after.told()}"
        for before, after in pairwise(points)
    ]
    return ", " + ", then ".join(legs)


def _other(series: Tables, population: str, column: str) -> str:
    """Where massive activations make the last value, tell it without them."""
    if population != "all" or "without-massive" not in populations(series):
        return ""
    whole, rest = (over_steps(series, name, column)[0] for name in (population, "without-massive"))
    if (
        len(rest) < 2
        or not _moved(whole[-1], rest[-1])
        or abs(whole[-1].value - rest[-1].value) < 0.1 * abs(whole[-1].value)
    ):
        return ""
    return f" Without massive activations it is {rest[-1].told()} (the population without-massive)."
