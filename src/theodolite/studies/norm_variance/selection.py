"""Which tokens stand for all: appendix A's selection, evenly over the frequencies, or by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError, nearest
from theodolite.hashing import mix, text_hash
from theodolite.measures.decomposition import frequent
from theodolite.studies.norm_variance.points import seen
from theodolite.studies.surveyed import Surveyed

INTERVALS, LEAST_CHARACTERS = 10, 3
COLUMNS = "unit text n log10_n q m v interval".split()
MARKS = ("##", "Ġ", "▁")


def select(survey: Surveyed, layer: int, *, seed: int = 0, population: str = "all") -> pd.DataFrame:
    """Return the tokens that appendix A would draw, a row each, by rising interval and falling n.

    Of the units with 1 <= log10 n <= 5 and at least three characters, [min, max] of log10 n is cut into 10 equal
    intervals, and of the units T_r in the r-th, N_r = 2 + floor(4 sqrt(|T_r| / max_r |T_r|)) are drawn: those of
    smallest hash of (seed, unit), so that neither order nor other units matter. All of T_r where it has fewer.
    Special units are never drawn. n, Q, M and V are those of the population.

    Reference: Yamagiwa and Shimodaira 2024, appendix A. It prints the 4 inside the root; the authors have since
    corrected that.
    """
    table = seen(survey, layer, population)
    long = table["text"].map(lambda text: len(bare(str(text))) >= LEAST_CHARACTERS).to_numpy(bool)
    fit = table[frequent(table["n"].to_numpy(np.int64)) & long & ~table["special"].to_numpy(bool)]
    if len(fit) < 2:
        raise InputError(
            f"{survey.model} on {survey.corpus}: only {len(fit)} units of at least {LEAST_CHARACTERS} characters "
            "occur 10 to 100,000 times, too few to draw from; survey more text, or choose by hand with --unit."
        )
    fit = fit.assign(
        interval=interval_of(fit["log10_n"].to_numpy(np.float64)),
        order=mix(seed, np.array([text_hash(str(unit)) for unit in fit["unit"]], dtype=np.uint64)),
    )
    wanted = draws(np.bincount(fit["interval"], minlength=INTERVALS).tolist())
    drawn = [part.nsmallest(wanted[int(r)], "order") for r, part in fit.groupby("interval")]
    return _listed(pd.concat(drawn))


def choose(survey: Surveyed, layer: int, units: Sequence[str], *, population: str = "all") -> pd.DataFrame:
    """Return the units named: by their key, else by what people read; the most frequent where several read so."""
    table = seen(survey, layer, population).sort_values("n", ascending=False, kind="stable")
    if len(set(units)) < 2:
        raise InputError("--unit wants at least two different tokens: a plane cannot be laid through one.")
    reads = table["text"].map(lambda text: bare(str(text)))
    found = []
    for unit in dict.fromkeys(units):
        rows = table[table["unit"] == unit]
        rows = rows if len(rows) else table[(reads == unit).to_numpy(bool)]
        if not len(rows):
            where = "" if population == "all" else f" among the positions {population}"
            hint = nearest(unit, reads.drop_duplicates().tolist())
            raise InputError(f"--unit {unit!r}: the survey of {survey.model} met no such unit{where}.{hint}")
        found.append(rows.iloc[:1])
    chosen = pd.concat(found).drop_duplicates("unit")
    if len(chosen) < 2:
        raise InputError(f"--unit: {' and '.join(map(repr, units))} are one unit here; give two or more.")
    return _listed(chosen.assign(interval=interval_of(chosen["log10_n"].to_numpy(np.float64))))


def draws(sizes: Sequence[int]) -> list[int]:
    """Return N_r = 2 + floor(4 sqrt(|T_r| / max_r |T_r|)) for the sizes |T_r|, in whole numbers, so exactly.

    >>> draws([400, 100, 25, 24, 0])
    [6, 4, 3, 2, 2]
    """
    largest = max(sizes)
    return [2 + isqrt(16 * size // largest) for size in sizes]


def interval_of(log10_n: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the interval of each, 0 to 9: [min, max] cut into equal ones, the last closed. (units,) -> (units,)

    >>> interval_of(np.array([1.0, 1.19, 1.2, 2.0, 3.0])).tolist()
    [0, 0, 1, 5, 9]
    """
    if log10_n.min() == log10_n.max():
        return np.zeros(len(log10_n), dtype=np.int64)
    edges = np.linspace(log10_n.min(), log10_n.max(), INTERVALS + 1)[1:-1]
    return np.searchsorted(edges, log10_n, side="right").astype(np.int64)


def bare(text: str) -> str:
    """Return a token's text without the marks of a space or of continuation.

    >>> bare("##ing"), bare(" the"), bare("▁of"), bare("##")
    ('ing', 'the', 'of', '##')
    """
    short = text.strip()
    for mark in MARKS:
        short = short.removeprefix(mark).strip() or short
    return short


def _listed(chosen: pd.DataFrame) -> pd.DataFrame:
    order = ["interval", "n", "unit"]
    return chosen.sort_values(order, ascending=[True, False, True], ignore_index=True)[COLUMNS]
