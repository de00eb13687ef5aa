"""The survey done the naive way: every vector kept, one document at a time, no padding, then each definition."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from tests import oracles
from tests.small_models import FACTS, blocks_of

PARTS = ("q", "m", "v", "v_within", "v_between")
QUANTILES = {"01": 0.01, "05": 0.05, "25": 0.25, "50": 0.5, "75": 0.75, "95": 0.95, "99": 0.99}
BIN = 2 ** (1 / 64) - 1  # quantiles come from a histogram with 64 bins an octave


@dataclass(frozen=True)
class Vectors:
    """All positions of one layer; those that are not finite too."""

    x: NDArray[np.float64]  # (positions, dim)
    unit: NDArray[np.object_]  # (positions,) keys
    first: NDArray[np.bool_]  # (positions,)


@dataclass(frozen=True)
class Tolerance:
    """What may separate a survey from its oracle.

    `state` is how far the states themselves may be apart, by their norm; errors of sums follow from it.
    """

    state: float
    ratio: float  # of numbers that are ratios of sums: cosines, spectral measures
    fit: float  # of a line over units, which magnifies errors of V and M


FORWARD = Tolerance(state=2e-6, ratio=1e-5, fit=2e-3)
"""The oracle runs single documents and the survey runs batches; a forward pass is not batch-invariant, and float32
states come out about 1e-6 of their norm apart."""
SAME_STATES = Tolerance(state=0.0, ratio=1e-5, fit=1e-6)
"""Oracle and survey look at the same states: only the sums can differ. Unit sums are float64, spectral sums are
float32 within a batch, hence 1e-5 for what is made of them."""


def everything(
    model: Any, tokenizer: Any, family: str, documents: Sequence[str], max_tokens: int
) -> dict[int, Vectors]:
    """Run every window by itself as plain transformers does and keep all states of all layers."""
    facts = FACTS[family]
    before, after = (tokenizer.convert_tokens_to_ids(list(names)) for names in (facts.before, facts.after))
    size = max_tokens - len(before) - len(after)
    last: list[Any] = []
    blocks_of(model, family)[-1].register_forward_hook(lambda module, args, output: last.append(output))
    states: dict[int, list[NDArray[np.float64]]] = {}
    units: list[str] = []
    first: list[bool] = []
    for text in documents:
        ids = tokenizer(text, add_special_tokens=False, truncation=False)["input_ids"]
        for start in range(0, max(len(ids), 1), size):
            window = [*before, *ids[start : start + size], *after]
            last.clear()
            with torch.no_grad():
                library = model(torch.tensor([window]), output_hidden_states=True).hidden_states
            taken = [state[0] for state in library]
            if facts.final_norm:  # the library's last state is after the norm; the block's stands before it
                block = last[0][0] if isinstance(last[0], tuple) else last[0]
                taken.insert(-1, block[0])
            for layer, state in enumerate(taken):
                states.setdefault(layer, []).append(state.double().numpy())
            units += tokenizer.convert_ids_to_tokens(window)
            first += [True] + [False] * (len(window) - 1)
    keys, flags = np.array(units, dtype=object), np.array(first)
    return {layer: Vectors(np.concatenate(parts), keys, flags) for layer, parts in states.items()}


def check(survey: Any, vectors: dict[int, Vectors], tolerance: Tolerance = FORWARD) -> None:
    """Compare every column of layers and of tokens, for every layer and population."""
    layers = survey.layers.set_index(["layer", "population"])
    assert sorted(vectors) == sorted(set(survey.layers["layer"]))
    tokens = dict(list(survey.tokens.groupby(["layer", "population"])))
    special = set(survey.units.loc[survey.units["special"], "unit"])
    found = {layer: massive(held, 10 * survey.pilot.layers[layer].median_norm) for layer, held in vectors.items()}
    sinks = np.logical_or.reduce(list(found.values()))  # every layer has the same positions
    for layer, held in vectors.items():
        finite = np.isfinite(held.x).all(axis=1)
        chosen = {
            "all": np.ones(len(finite), dtype=bool),
            "without-first": ~held.first,
            "without-massive": ~found[layer],
            "without-sinks": ~sinks,
        }
        assert set(chosen) == set(survey.facts["populations"])
        for population, mask in chosen.items():
            row = layers.loc[(layer, population)]
            part = mask & finite
            where = f"layer {layer} {population}"
            _check_layer(row, held.x[part], held.unit[part], tolerance, where=where)
            _check_text(row, held.x[part], held.unit[part], special, tolerance, where)
            assert row["nonfinite"] == (mask & ~finite).sum()
            assert row["massive"] == (part & found[layer]).sum()
            _check_tokens(tokens[layer, population], held.x[part], held.unit[part], tolerance)


def massive(held: Vectors, bound: float) -> NDArray[np.bool_]:
    """Return which positions are massive: finite, and longer than the bound."""
    with np.errstate(invalid="ignore"):
        longer: NDArray[np.bool_] = np.linalg.norm(held.x, axis=1) > bound
    return longer & np.isfinite(held.x).all(axis=1)


def _codes(units: NDArray[np.object_]) -> tuple[list[str], NDArray[np.int64]]:
    names = sorted(set(units))
    number = {name: code for code, name in enumerate(names)}
    return names, np.array([number[unit] for unit in units], dtype=np.int64)


def _check_layer(
    row: pd.Series, x: NDArray[np.float64], unit: NDArray[np.object_], tolerance: Tolerance, where: str
) -> None:
    names, codes = _codes(unit)
    assert (row["n"], row["types"], row["dim"]) == (len(x), len(names), x.shape[1])
    whole = oracles.decomposition(x, codes)
    _check_parts(row, whole, "", tolerance, where)
    counts = np.bincount(codes)
    used = np.flatnonzero((counts >= 10) & (counts <= 100_000))
    assert row["units_used"] == len(used)
    reasons = json.loads(row["undefined"]) if isinstance(row["undefined"], str) else {}
    if len(used) < 3:
        for column in (*(f"filtered_{part}" for part in PARTS), "q_cv", "tradeoff_slope", "tradeoff_r2"):
            assert pd.isna(row[column])
            assert reasons[column].startswith("fewer than three units")
    else:
        frequent = np.isin(codes, used)
        _check_parts(row, oracles.decomposition(x[frequent], codes[frequent]), "filtered_", tolerance, where)
        units = list(oracles.qmv_by_unit(x[frequent], codes[frequent]).values())
        _check_fit(row, units, reasons, tolerance, where)
    assert abs(row["mean_cosine"] - oracles.mean_cosine(x)) < tolerance.ratio, where
    for column, value in oracles.spectral(x).items():
        # Ratios of variances: as the states are apart by their norm, so are variances by sqrt(Q / V) more.
        loss = tolerance.state * np.sqrt(whole.q / whole.v)
        assert abs(row[column] - value) <= (tolerance.ratio + 4 * loss) * max(abs(value), 1), (where, column)
    _check_norms(row, oracles.norms(x), tolerance, where)


def _check_text(
    row: pd.Series,
    x: NDArray[np.float64],
    unit: NDArray[np.object_],
    special: set[str],
    tolerance: Tolerance,
    where: str,
) -> None:
    """Compare the sums over units that are not special, frequent or not."""
    text = np.array([key not in special for key in unit], dtype=bool)
    _, codes = _codes(unit)
    often = text & np.isin(codes, np.flatnonzero((np.bincount(codes) >= 10) & (np.bincount(codes) <= 100_000)))
    for prefix, rows, least in (("unfiltered_text_", text, 1), ("text_", often, 3)):
        used = len(np.unique(codes[rows]))
        assert row[f"{prefix}units_used"] == used, where
        if used >= least:
            _check_parts(row, oracles.decomposition(x[rows], codes[rows]), prefix, tolerance, where)
        else:
            assert pd.isna(row[f"{prefix}q"]), where


def _check_parts(row: pd.Series, parts: oracles.Parts, prefix: str, tolerance: Tolerance, where: str) -> None:
    for part in PARTS:
        value, mine = getattr(parts, part), row[f"{prefix}{part}"]
        assert abs(mine - value) <= _allowed(part, value, parts.q, tolerance), (where, prefix + part, mine, value)


def _allowed(part: str, value: float, q: float, tolerance: Tolerance) -> float:
    """Bound the error of a squared length: of |a|^2 with a off by e, 2 |a| e + e^2, where e = state sqrt(Q).

    With the same states: 1e-9 of V and 1e-12 of Q, which is what float64 sums about a near centre keep.
    """
    off = tolerance.state * np.sqrt(q)
    return float(2 * np.sqrt(max(value, 0)) * off + off**2 + 1e-9 * abs(value) + 1e-12 * q)


def _check_fit(
    row: pd.Series, units: list[oracles.Parts], reasons: dict[str, str], tolerance: Tolerance, where: str
) -> None:
    q, m, v = (np.array([getattr(unit, part) for unit in units]) for part in "qmv")
    q_cv = oracles.coefficient_of_variation(q)  # Q is off by twice what its states are
    assert abs(row["q_cv"] - q_cv) <= (1e-9 + 4 * tolerance.state) * (1 + q_cv), (where, "q_cv")
    if (v <= 1e-20 * q).all():  # no position vectors: every occurrence is the same vector
        assert pd.isna(row["tradeoff_slope"])
        assert pd.isna(row["tradeoff_r2"])
        assert reasons["tradeoff_slope"] == "V is 0 for every unit"
        return
    slope, r2 = oracles.line(m, v)
    assert abs(row["tradeoff_slope"] - slope) <= tolerance.fit * max(abs(slope), 1e-3), (where, "slope")
    assert abs(row["tradeoff_r2"] - r2) <= tolerance.fit, (where, "r2")


def _check_norms(row: pd.Series, norms: NDArray[np.float64], tolerance: Tolerance, where: str) -> None:
    near = 1e-6 + tolerance.state  # norms are taken in float32
    assert abs(row["norm_min"] - norms.min()) <= near * norms.min(), where
    assert abs(row["norm_max"] - norms.max()) <= near * norms.max(), where
    assert row["zero"] == (norms == 0).sum()
    for name, level in QUANTILES.items():
        value = oracles.quantile(norms, level)
        assert abs(row[f"norm_p{name}"] - value) <= (BIN + near) * value, (where, name)


def _check_tokens(
    table: pd.DataFrame, x: NDArray[np.float64], unit: NDArray[np.object_], tolerance: Tolerance
) -> None:
    names, codes = _codes(unit)
    rows, counts = table.set_index("unit").to_dict("index"), np.bincount(codes)
    assert sorted(rows) == names
    for code, parts in oracles.qmv_by_unit(x, codes).items():
        row, n = rows[names[code]], int(counts[code])
        assert row["n"] == n
        for part in "qmv":
            value = getattr(parts, part)
            allowed = _allowed(part, value, parts.q, tolerance)
            assert abs(row[part] - value) <= allowed, (names[code], part, row[part], value)
        if n == 1:
            assert row["v"] == 0
            assert pd.isna(row["v_unbiased"])
            assert pd.isna(row["m_unbiased"])
        else:
            assert math.isclose(row["v_unbiased"], row["v"] * n / (n - 1), rel_tol=1e-12)
            assert math.isclose(row["m_unbiased"] + row["v_unbiased"], row["q"], rel_tol=1e-12)
