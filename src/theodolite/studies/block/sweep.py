"""The sweep: one block run with a bias of increasing norm in one direction, and its fixed points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from theodolite.measures.laboratories.fixed_point import Bracket, find_brackets, fixed_point, post_ln_fixed_point
from theodolite.studies.block.inputs import Inputs
from theodolite.studies.block.isolated_block import IsolatedBlock
from theodolite.studies.block.measurements import StateNorms, Tables, measure_attention, measure_states

QUANTITIES = ("mean_norm", "norm_of_mean")
NONE = "none in range"
STEPS = 10


def default_norms(rms: float, dim: int) -> list[float]:
    """Return 0 and ten norms in geometric progression, from half the norm of the inputs to twice the larger scale.

    The scales are the norm of the inputs and sqrt(dim), the norm of the output of an untrained layer norm.

    >>> [round(norm, 2) for norm in default_norms(1.0, 100)]
    [0.0, 0.5, 0.75, 1.13, 1.71, 2.58, 3.88, 5.85, 8.81, 13.27, 20.0]
    """
    if not rms > 0:
        rms = 0.02 * dim**0.5
    return [0.0, *np.geomspace(rms / 2, 2 * max(rms, dim**0.5), STEPS).tolist()]


def sweep(
    block: IsolatedBlock,
    inputs: Inputs,
    norms: Sequence[float],
    say: Callable[[float], None] = lambda norm: None,
) -> Tables:
    """Return the tables norms, fixed_points, heads, scores, histogram, softmax and extremes of one run."""
    ends: dict[float, tuple[StateNorms, StateNorms]] = {}
    parts: dict[str, list[pd.DataFrame]] = {}
    for norm in norms:
        say(norm)
        states = inputs.add_bias(norm)
        out, captured = block.run_and_capture(states)
        ends[norm] = measure_states(states), measure_states(out)
        for name, table in measure_attention(block, captured, states).items():
            parts.setdefault(name, []).append(table.assign(norm=norm))
    tables = {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}
    return {"norms": _ends(ends), "fixed_points": _fixed_points(block, inputs, ends), **tables}


def _ends(ends: dict[float, tuple[StateNorms, StateNorms]]) -> pd.DataFrame:
    rows = []
    for norm, both in ends.items():
        columns = {
            f"{name}_{end}": value
            for end, norms in zip(("in", "out"), both, strict=True)
            for name, value in norms._asdict().items()
        }
        rows.append({"norm": norm, **columns})
    return pd.DataFrame(rows)


def _fixed_points(
    block: IsolatedBlock, inputs: Inputs, ends: dict[float, tuple[StateNorms, StateNorms]]
) -> pd.DataFrame:
    """Return one row per quantity: the norm of the bias at which it is equal at the input and the output."""

    @cache
    def at(norm: float) -> tuple[StateNorms, StateNorms]:
        states = inputs.add_bias(norm)
        return measure_states(states), measure_states(block.run(states))

    rows = []
    for quantity in QUANTITIES:
        gaps = [_gap(both, quantity) for both in ends.values()]
        crossings = find_brackets(list(ends), gaps)
        row: dict[str, Any] = {"quantity": quantity, "crossings": len(crossings), "closed_form": np.nan}
        if block.closing_norm is not None and quantity == "mean_norm":
            square = float(block.closing_norm.gamma.square().sum() + block.closing_norm.beta.square().sum())
            row["closed_form"] = post_ln_fixed_point(square, inputs.mean_square)
        rows.append(row | _point(crossings, quantity, at))
    return pd.DataFrame(rows)


def _point(
    crossings: Sequence[Bracket], quantity: str, at: Callable[[float], tuple[StateNorms, StateNorms]]
) -> dict[str, Any]:
    if not crossings:
        return {"n_star": np.nan, "value": np.nan, "attracting": None, "reason": NONE}
    first = next((each for each in crossings if each.attracting), crossings[0])
    star = fixed_point(
        lambda norm: _gap(at(norm), quantity), first, lambda norm: getattr(at(norm)[0], quantity) ** 2
    )
    value = getattr(at(star)[0], quantity)
    return {"n_star": star, "value": value, "attracting": first.attracting, "reason": ""}


def _gap(both: tuple[StateNorms, StateNorms], quantity: str) -> float:
    entering, leaving = (getattr(end, quantity) for end in both)
    return float(leaving**2 - entering**2)
