"""The sweep: one block, one direction, biases of growing norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from theodolite.measures.fixed_point import Bracket, brackets, fixed_point, post_ln_fixed_point
from theodolite.studies.block.attending import Tables, attending
from theodolite.studies.block.inputs import Inputs
from theodolite.studies.block.lengths import Lengths, lengths
from theodolite.studies.block.subject import Subject

QUANTITIES = ("mean_norm", "norm_of_mean")
NONE = "none in range"
STEPS = 10


def default_norms(rms: float, dim: int) -> list[float]:
    """Return 0 and ten norms, a constant factor apart, from half the inputs' to well past both scales.

    The scales are the inputs' own and sqrt(dim), the length of what leaves a fresh layer norm.

    >>> [round(norm, 2) for norm in default_norms(1.0, 100)]
    [0.0, 0.5, 0.75, 1.13, 1.71, 2.58, 3.88, 5.85, 8.81, 13.27, 20.0]
    """
    if not rms > 0:
        rms = 0.02 * dim**0.5
    return [0.0, *np.geomspace(rms / 2, 2 * max(rms, dim**0.5), STEPS).tolist()]


def sweep(
    subject: Subject, inputs: Inputs, norms: Sequence[float], say: Callable[[float], None] = lambda norm: None
) -> Tables:
    """Return the tables norms, fixed_points, heads, scores, histogram, softmax and extremes of one run."""
    ends: dict[float, tuple[Lengths, Lengths]] = {}
    parts: dict[str, list[pd.DataFrame]] = {}
    for norm in norms:
        say(norm)
        states = inputs.biased(norm)
        out, seen = subject.watched(states)
        ends[norm] = lengths(states), lengths(out)
        for name, table in attending(subject, seen, states).items():
            parts.setdefault(name, []).append(table.assign(norm=norm))
    tables = {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}
    return {"norms": _ends(ends), "fixed_points": _fixed_points(subject, inputs, ends), **tables}


def _ends(ends: dict[float, tuple[Lengths, Lengths]]) -> pd.DataFrame:
    rows = []
    for norm, both in ends.items():
        told = {
            f"{name}_{end}": value
            for end, found in zip(("in", "out"), both, strict=True)
            for name, value in found._asdict().items()
        }
        rows.append({"norm": norm, **told})
    return pd.DataFrame(rows)


def _fixed_points(subject: Subject, inputs: Inputs, ends: dict[float, tuple[Lengths, Lengths]]) -> pd.DataFrame:
    """Return a row a quantity: where it is the same on both sides of the block."""

    @cache
    def at(norm: float) -> tuple[Lengths, Lengths]:
        states = inputs.biased(norm)
        return lengths(states), lengths(subject.run(states))

    rows = []
    for quantity in QUANTITIES:
        gaps = [_gap(both, quantity) for both in ends.values()]
        found = brackets(list(ends), gaps)
        row: dict[str, Any] = {"quantity": quantity, "crossings": len(found), "closed_form": np.nan}
        if subject.closing is not None and quantity == "mean_norm":
            square = float(subject.closing.gamma.square().sum() + subject.closing.beta.square().sum())
            row["closed_form"] = post_ln_fixed_point(square, inputs.mean_square)
        rows.append(row | _point(found, quantity, at))
    return pd.DataFrame(rows)


def _point(
    found: Sequence[Bracket], quantity: str, at: Callable[[float], tuple[Lengths, Lengths]]
) -> dict[str, Any]:
    if not found:
        return {"n_star": np.nan, "value": np.nan, "attracting": None, "reason": NONE}
    first = next((each for each in found if each.attracting), found[0])
    star = fixed_point(
        lambda norm: _gap(at(norm), quantity), first, lambda norm: getattr(at(norm)[0], quantity) ** 2
    )
    value = getattr(at(star)[0], quantity)
    return {"n_star": star, "value": value, "attracting": first.attracting, "reason": ""}


def _gap(both: tuple[Lengths, Lengths], quantity: str) -> float:
    entering, leaving = (getattr(end, quantity) for end in both)
    return float(leaving**2 - entering**2)
