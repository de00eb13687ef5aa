"""Correlation over layers of M/Q with the mean cosine, and of V_W/V with self-similarity (section 5.3).

The paper calls its ratios consistent with published cosines and does not test it. If all vectors had the same
norm, M/Q would be the mean cosine C, and V_W/V about (1 - S)/(1 - C), where S is the self-similarity. So V_W/V may
rise although S rises, if C rises faster.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.drift import best_p, circular_shifts, drop_undefined, layer_steps, pearson, spearman
from theodolite.studies.anisotropy.layers import Z, tabulate_layers
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.profile import profile
from theodolite.studies.survey_data import SurveyData

EQUAL_NORMS = "equal_norms"
COSINES = ["mean_cosine", "self_similarity"]
PAIRS = {
    "cosine": ("m_of_q", "mean_cosine"),
    "similarity": ("v_within_of_v", "self_similarity"),
    EQUAL_NORMS: ("v_within_of_v", EQUAL_NORMS),
}
"""The pairs of columns correlated over layers, by the prefix of their result columns."""
TESTS = {"pearson": pearson, "spearman": spearman}


def comparable_choices(choice: Choice) -> tuple[Choice, Choice]:
    """Return the choices for M/Q and for V_W/V whose units match those of the cosines best, by default.

    The mean cosine is over all positions, so M/Q is over all units including special ones. Unbiased, it is
    undefined for units that occur once, so it is over frequent units then. Self-similarity is over units that
    occur at least five times and are not special, so V_W/V is over frequent units without special ones.
    """
    auto = choice.specials == "auto"
    means = choice.with_filter("frequent" if choice.variant == "unbiased" else "all")
    units = choice.with_filter("frequent")
    if not auto:
        return means, units
    return replace(means, specials="kept"), replace(units, specials="left-out")


def consistency(survey: SurveyData, choice: Choice, name: str | None = None) -> pd.DataFrame:
    """Return one row per layer: its depth, the two ratios and the two cosines, each with its interval.

    `equal_norms` is the approximate V_W/V if all vectors had the same norm. The correlations over layers are
    repeated in every row.
    """
    table = tabulate_layers(survey, choice.population, COSINES, name)
    for column, chosen in zip(("m_of_q", "v_within_of_v"), comparable_choices(choice), strict=True):
        found = profile(survey, chosen)
        values, half = found[column].to_numpy(np.float64), Z * found[f"{column}_se"].to_numpy(np.float64)
        table[column], table[f"{column}_low"], table[f"{column}_high"] = values, values - half, values + half
    table[EQUAL_NORMS] = equal_norm_ratio(*(table[column].to_numpy(np.float64) for column in COSINES))
    return table.assign(**correlate_layers(table))


def equal_norm_ratio(cosine: NDArray[np.float64], similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (1 - S)/(1 - C), NaN if all vectors point in the same direction. (layers,) each

    For vectors of norm 1, V = 1 - C, and V of a unit is 1 - S_t up to 1/n. Here all units have the same weight.

    >>> equal_norm_ratio(np.array([0.5, 1.0]), np.array([0.75, 1.0]))
    array([0.5, nan])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(cosine < 1, (1 - similarity) / (1 - cosine), np.nan)


def correlate_layers(table: pd.DataFrame) -> dict[str, float | str]:
    """Return the correlations of each pair over layers, their p, p over circular shifts, and of first differences.

    Keys are such as `cosine_pearson`, `cosine_pearson_p`, `_shift_p`, `_step` and `_step_p`. `cosine_undefined`
    states why they are NaN, and is empty if they are not. p is exact, over all permutations, where there are at
    most ten values: Student's t gives p = 0 for five layers in the same order.
    """
    result: dict[str, float | str] = {}
    stacks = list(table["stack"])
    for pair, columns in PAIRS.items():
        x, y = (table[column].to_numpy(np.float64) for column in columns)
        result[f"{pair}_layers"] = len(drop_undefined(x, y)[0])
        for test, correlate in TESTS.items():
            found, shifts = best_p(x, y, correlate), circular_shifts(x, y, correlate)
            steps = best_p(*layer_steps(x, y, stacks), correlate)
            result |= {f"{pair}_{test}": found.coefficient, f"{pair}_{test}_p": found.p}
            result |= {f"{pair}_{test}_shift_p": shifts.p, f"{pair}_shift_floor": shifts.floor}
            result |= {f"{pair}_{test}_step": steps.coefficient, f"{pair}_{test}_step_p": steps.p}
            result[f"{pair}_undefined"] = found.reason
    return result
