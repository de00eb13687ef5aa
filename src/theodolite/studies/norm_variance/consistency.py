"""Whether M/Q goes with the mean cosine and V_W/V against self-similarity, layer by layer (section 5.3).

The paper calls its ratios consistent with cosines that others published, and does not test it. Were all vectors of
one length, M/Q would be the mean cosine C, and V_W/V about (1 - S)/(1 - C), S being the self-similarity: the
second may rise where S rises too, if only C rises faster.
"""

from __future__ import annotations

from dataclasses import replace
from math import factorial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.drift import circular_shifts, complete, first_differences, pearson, spearman
from theodolite.studies.anisotropy.by_layer import Z, by_layer
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.profile import profile
from theodolite.studies.surveyed import Surveyed

EQUAL_NORMS = "equal_norms"
COSINES = ["mean_cosine", "self_similarity"]
PAIRS = {
    "cosine": ("m_of_q", "mean_cosine"),
    "similarity": ("v_within_of_v", "self_similarity"),
    EQUAL_NORMS: ("v_within_of_v", EQUAL_NORMS),
}
"""What is correlated over layers, by the name that its columns begin with."""
TESTS = {"pearson": pearson, "spearman": spearman}


def comparable(choice: Choice) -> tuple[Choice, Choice]:
    """Return the units for M/Q and those for V_W/V that come nearest to the cosines', unless others are asked for.

    The mean cosine is over every position, so M/Q is over all units, special ones too; without bias it cannot be
    told of units that occur once, so then it is over frequent ones. Self-similarity is over units that occur at
    least five times and are not special, so V_W/V is over frequent ones that are not.
    """
    auto = choice.specials == "auto"
    means = choice.filtered("frequent" if choice.variant == "unbiased" else "all")
    units = choice.filtered("frequent")
    if not auto:
        return means, units
    return replace(means, specials="kept"), replace(units, specials="left-out")


def consistency(survey: Surveyed, choice: Choice, name: str | None = None) -> pd.DataFrame:
    """Return a row per layer: where it stands, the two ratios and the two cosines, each with its low and high.

    `equal_norms` is what V_W/V would about be if all vectors were of one length. The correlations over all layers
    stand in every row.
    """
    table = by_layer(survey, choice.population, COSINES, name)
    for column, chosen in zip(("m_of_q", "v_within_of_v"), comparable(choice), strict=True):
        found = profile(survey, chosen)
        values, half = found[column].to_numpy(np.float64), Z * found[f"{column}_se"].to_numpy(np.float64)
        table[column], table[f"{column}_low"], table[f"{column}_high"] = values, values - half, values + half
    table[EQUAL_NORMS] = of_equal_norms(*(table[column].to_numpy(np.float64) for column in COSINES))
    return table.assign(**correlations(table))


def of_equal_norms(cosine: NDArray[np.float64], similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (1 - S)/(1 - C), NaN where all point one way. (layers,) each

    Of vectors of length 1, V = 1 - C, and a unit's own V is 1 - S_t, but for 1/n; here every unit counts once.

    >>> of_equal_norms(np.array([0.5, 1.0]), np.array([0.75, 1.0]))
    array([0.5, nan])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(cosine < 1, (1 - similarity) / (1 - cosine), np.nan)


def correlations(table: pd.DataFrame) -> dict[str, float | str]:
    """Return for each pair how it correlates over layers, with p, the p over circular shifts, and over steps.

    Names are such as `cosine_pearson`, `cosine_pearson_p`, `_shift_p`, `_step` and `_step_p`; `cosine_undefined`
    tells why they are NaN and is empty where they are not. Student's t gives p = 0 where ranks agree throughout;
    as two of all orders do, p of Spearman is no smaller than 2/layers!.
    """
    told: dict[str, float | str] = {}
    stacks = list(table["stack"])
    for pair, columns in PAIRS.items():
        x, y = (table[column].to_numpy(np.float64) for column in columns)
        layers = told[f"{pair}_layers"] = len(complete(x, y)[0])
        for test, correlate in TESTS.items():
            found, shifts = correlate(x, y), circular_shifts(x, y, correlate)
            steps = first_differences(x, y, stacks, correlate)
            least = 2 / factorial(layers) if correlate is spearman and layers else 0.0
            told |= {f"{pair}_{test}": found.coefficient, f"{pair}_{test}_p": float(np.maximum(found.p, least))}
            told |= {f"{pair}_{test}_shift_p": shifts.p, f"{pair}_shift_floor": shifts.floor}
            told |= {f"{pair}_{test}_step": steps.coefficient, f"{pair}_{test}_step_p": steps.p}
            told[f"{pair}_undefined"] = found.reason
    return told
