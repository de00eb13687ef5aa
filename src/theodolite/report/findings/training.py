"""Findings on a series: how each measure changed from the first training step to the last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from theodolite.report.catalogue import find_formula_id
from theodolite.report.findings.finding import ALIKE, Finding, differs
from theodolite.report.tables import Row, Tables, layer_name, layer_rows, number, populations
from theodolite.text import format_count, format_number, pluralize

MEASURES = {
    "mean_cosine": "the mean cosine",
    "anisotropy_svd": "the SVD anisotropy",
    "effective_rank": "the effective rank",
    "twonn": "the intrinsic dimension (TwoNN)",
    "norm_p50": "the median norm",
}

# Embeddings and a final norm are not blocks, and differ so much from them that they would dominate a mean.
NOT_BLOCKS = ("embeddings", "final norm")


@dataclass(frozen=True)
class StepMean:
    """The mean of a measure over layers at one step, and the mean of its standard errors (NaN if unknown)."""

    step: float
    value: float
    error: float

    def describe(self) -> str:
        """Return the value with its error and its step."""
        error = f" ± {format_number(self.error, 2)}" if self.error > 0 else ""
        return f"{format_number(self.value)}{error} at step {format_count(self.step)}"


def is_series(tables: Tables) -> bool:
    """Return whether these are the tables of a series: its layers have a column `step`."""
    return "step" in tables.layers.columns


def find_training_changes(series: Tables) -> list[Finding]:
    """Return one finding per measure that is defined at two or more steps."""
    known = populations(series)
    if not is_series(series) or not known:
        return []
    found = [_find_change(series, known[0], column, label) for column, label in MEASURES.items()]
    return [one for one in found if one is not None]


def _find_change(series: Tables, population: str, column: str, label: str) -> Finding | None:
    curve, layers = average_over_blocks(series, population, column)
    if len(curve) < 2:
        return None
    points = find_turning_points(curve)
    over = f", the mean over {pluralize(layers, 'layer')}," if layers > 1 else ""
    has_errors = any(one.error > 0 for one in curve)
    no_errors = "" if has_errors else f" It has no standard error; a change below {ALIKE:.0%} is ignored."
    name = label[0].upper() + label[1:]
    if len(points) < 2:
        limit = "its standard error" if has_errors else f"{ALIKE:.0%}"
        text = f"{name}{over} was {curve[0].describe()} and did not change by more than {limit} afterwards."
    else:
        other = _without_massive(series, population, column)
        text = f"{name}{over} was {points[0].describe()}{_describe_legs(points)}.{no_errors}{other}"
    return Finding(
        f"training-{column}",
        f"{format_number(curve[0].value, 3)} → {format_number(curve[-1].value, 3)}",
        f"{label}, step {format_count(curve[0].step)} to {format_count(curve[-1].step)}",
        text,
        column=column,
        chart="steps",
        formula=find_formula_id(series, column),
    )


def average_over_blocks(series: Tables, population: str, column: str) -> tuple[list[StepMean], int]:
    """Return the mean over the blocks that define a column at every step, and the number of these blocks."""
    rows = [row for row in layer_rows(series, population) if math.isfinite(number(row, "step"))]
    steps = sorted({number(row, "step") for row in rows})
    by_layer: dict[float, dict[float, Row]] = {}
    for row in rows:
        by_layer.setdefault(number(row, "layer"), {})[number(row, "step")] = row
    complete = [
        at for at in by_layer.values() if all(math.isfinite(number(at.get(step, {}), column)) for step in steps)
    ]
    blocks = [at for at in complete if not layer_name(at[steps[0]]).endswith(NOT_BLOCKS)] or complete
    curve = [
        StepMean(step, *(fmean(number(at[step], name) for at in blocks) for name in (column, f"{column}_se")))
        for step in steps
        if blocks
    ]
    return curve, len(blocks)


def find_turning_points(curve: Sequence[StepMean]) -> list[StepMean]:
    """Return the first mean, the highest and the lowest in their order, and the last, without equal neighbours.

    >>> rising, steady = [[StepMean(i, y, 0.1) for i, y in enumerate(ys)] for ys in ([1, 5, 2], [1.0, 1.1, 1.0])]
    >>> [[one.step for one in find_turning_points(curve)] for curve in (rising, steady)]
    [[0, 1, 2], [0]]
    """
    first, last = curve[0], curve[-1]
    inner = {max(curve, key=lambda one: one.value), min(curve, key=lambda one: one.value)} - {first, last}
    points = [first]
    for one in sorted(inner, key=lambda moment: moment.step):
        # A turning point must differ from the point before it and from the last.
        if _differ(points[-1], one) and _differ(one, last):
            points.append(one)
    return [*points, last] if _differ(points[-1], last) else points


def _differ(a: StepMean, b: StepMean) -> bool:
    return differs(a.value, b.value, a.error, b.error)


def _describe_legs(points: list[StepMean]) -> str:
    legs = [
        f"{'rose' if after.value > before.value else 'fell'} to {after.describe()}"
        for before, after in pairwise(points)
    ]
    return ", " + ", then ".join(legs)


def _without_massive(series: Tables, population: str, column: str) -> str:
    """Describe the last value without massive activations, if they cause it."""
    if population != "all" or "without-massive" not in populations(series):
        return ""
    every, other = (average_over_blocks(series, name, column)[0] for name in (population, "without-massive"))
    if (
        len(other) < 2
        or not _differ(every[-1], other[-1])
        or abs(every[-1].value - other[-1].value) < 0.1 * abs(every[-1].value)
    ):
        return ""
    return f" Without massive activations it is {other[-1].describe()} (population without-massive)."
