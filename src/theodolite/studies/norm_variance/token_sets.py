"""Making the embedding sets of selected tokens (figures 1 and 8, table 2): select, read again, write."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.engines.progress import Listener
from theodolite.errors import InputError, TheodoliteError, nearest
from theodolite.hashing import mix, text_hash
from theodolite.measures.decomposition import frequent
from theodolite.state.pilot import Pilot
from theodolite.statistics.cells import cells_to_separate
from theodolite.storage.location import local_path
from theodolite.studies.choice import AUTO, check_population, default_population
from theodolite.studies.norm_variance.token_set_files import TokenSetTables, read_token_sets, write_token_sets
from theodolite.studies.norm_variance.units import read_units, strip_markers
from theodolite.studies.rare_units import find_min_count
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData, check_layer, middle_layer
from theodolite.surveys.reopen import check_readable, reopen
from theodolite.surveys.survey import Survey, folder_of
from theodolite.surveys.token_sets import PositionFilter, TokenSets, gather

INTERVALS, MIN_CHARACTERS = 10, 3
TOKEN_COLUMNS = "unit text n log10_n q m v interval".split()
MAX_VECTORS = 200  # per token


def make_token_sets(
    folder: Survey | str | Path,
    *,
    layer: int | None = None,
    seed: int = 0,
    most: int = MAX_VECTORS,
    units: Sequence[str] = (),
    population: str = AUTO,
    model: str | None = None,
    corpus: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    listener: Listener | None = None,
) -> TokenSetTables:
    """Select tokens of a finished survey, read the documents that contain them again, and write their vectors.

    `units` names the tokens; by default they are selected as in appendix A. `population` may exclude first or
    massive positions or sinks from the sets and from n, Q, M and V; "auto" is that of `default_population`.
    `model` and `corpus` are the new locations of the surveyed ones if they have moved; other weights or other
    documents are rejected.
    """
    if most < 1:
        raise InputError(f"--most requires at least 1 vector per token (got {most}).")
    path = local_path(folder_of(folder), "sets")
    survey = read_survey_data(path, ("layers", "tokens", "units"))
    check_readable(survey.facts)
    at = middle_layer(survey) if layer is None else check_layer(survey, layer)
    population = default_population([survey.facts]) if population == AUTO else population
    check_population(survey, population)
    chosen = (
        find_tokens(survey, at, units, population=population)
        if units
        else select_tokens(survey, at, seed=seed, population=population)
    )
    pilot, by_sinks = Pilot.load(path), cells_to_separate([population]).sinks
    among = PositionFilter(population, pilot.massive_above(at))
    reopened = reopen(
        survey.facts,
        list(survey.layer_names) if by_sinks else [at],
        model=model,
        corpus=corpus,
        device=device,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    sets = gather(
        reopened,
        chosen["unit"].tolist(),
        most=most,
        among=among,
        layer=at,
        pilot=pilot if by_sinks else None,
        listener=listener,
    )
    _check_counts(survey, at, chosen, sets)
    how = {
        "layer": at,
        "population": population,
        "seed": seed,
        "most": most,
        "by_hand": list(units),
        "documents": sets.documents,
        "of": len(reopened),
    }
    write_token_sets(path, survey.facts, chosen, sets, how)
    return read_token_sets(path, survey.facts)


def _check_counts(survey: SurveyData, layer: int, chosen: pd.DataFrame, sets: TokenSets) -> None:
    """Check that the second pass found all occurrences.

    Occurrences are counted over all positions, since a norm close to the massive threshold may be on either side
    of it in another batch.
    """
    table = read_units(survey, layer, "all")
    surveyed = dict(zip(table["unit"], table["n"].tolist(), strict=True))
    for unit, met, n in zip(chosen["unit"], sets.met.tolist(), sets.n.tolist(), strict=True):
        if surveyed[unit] != met or not n:
            raise TheodoliteError(
                f"The second pass found {unit!r} {met:,} times ({n:,} in the population), the survey "
                f"{surveyed[unit]:,} times: the tokenizer or the code of the model has changed; survey again."
            )


def select_tokens(survey: SurveyData, layer: int, *, seed: int = 0, population: str = "all") -> pd.DataFrame:
    """Return the tokens selected by appendix A, one row each, by ascending interval and descending n.

    The range of log10 n of the units with 1 <= log10 n <= 5 and at least three characters is divided into 10 equal
    intervals. Of the units T_r in interval r, N_r = 2 + floor(4 sqrt(|T_r| / max_r |T_r|)) are drawn, or all if
    there are fewer: those with the smallest hash of (seed, unit), independent of order and of other units. Special
    units, and units without M and V, are never drawn. n, Q, M and V are those of the population.

    Reference: Yamagiwa and Shimodaira 2024, appendix A. It prints the 4 inside the root; the authors have since
    corrected that.
    """
    table = read_units(survey, layer, population)
    if table.empty:
        raise InputError(f"{survey.model} on {survey.corpus} has no units. Survey again with --units id.")
    long = table["text"].map(lambda text: len(strip_markers(str(text))) >= MIN_CHARACTERS).to_numpy(bool)
    drawable = long & ~table["special"].to_numpy(bool) & table["v"].notna().to_numpy(bool)
    fit = table[frequent(table["n"].to_numpy(np.int64)) & drawable]
    if len(fit) < 2:
        lower = " or with a smaller --min-count" if find_min_count(survey.facts) > 1 else ""
        raise InputError(
            f"{survey.model} on {survey.corpus}: only {len(fit)} units of at least {MIN_CHARACTERS} characters "
            f"occur 10 to 100,000 times and have M and V, and at least 2 are required; survey more text{lower}, "
            "or name tokens with --unit."
        )
    fit = fit.assign(
        interval=assign_intervals(fit["log10_n"].to_numpy(np.float64)),
        order=mix(seed, np.array([text_hash(str(unit)) for unit in fit["unit"]], dtype=np.uint64)),
    )
    sizes = draw_counts(np.bincount(fit["interval"], minlength=INTERVALS).tolist())
    drawn = [part.nsmallest(sizes[int(r)], "order") for r, part in fit.groupby("interval")]
    return _sort_tokens(pd.concat(drawn))


def find_tokens(survey: SurveyData, layer: int, units: Sequence[str], *, population: str = "all") -> pd.DataFrame:
    """Return the named units, found by key or else by text; the most frequent one if several have that text."""
    table = read_units(survey, layer, population).sort_values("n", ascending=False, kind="stable")
    if len(set(units)) < 2:
        raise InputError("--unit requires at least two different tokens: a plane cannot be fitted to one.")
    reads = table["text"].map(lambda text: strip_markers(str(text)))
    found = []
    for unit in dict.fromkeys(units):
        rows = table[table["unit"] == unit]
        rows = rows if len(rows) else table[(reads == unit).to_numpy(bool)]
        if not len(rows):
            where = "" if population == "all" else f" in population {population}"
            hint = nearest(unit, reads.drop_duplicates().tolist())
            raise InputError(f"--unit {unit!r}: the survey of {survey.model} has no such unit{where}.{hint}")
        found.append(rows.iloc[:1])
    chosen = pd.concat(found).drop_duplicates("unit")
    if len(chosen) < 2:
        raise InputError(f"--unit: {' and '.join(map(repr, units))} are the same unit; give two or more.")
    return _sort_tokens(chosen.assign(interval=assign_intervals(chosen["log10_n"].to_numpy(np.float64))))


def draw_counts(sizes: Sequence[int]) -> list[int]:
    """Return N_r = 2 + floor(4 sqrt(|T_r| / max_r |T_r|)) for the sizes |T_r|, exactly, in integer arithmetic.

    >>> draw_counts([400, 100, 25, 24, 0])
    [6, 4, 3, 2, 2]
    """
    largest = max(sizes)
    return [2 + isqrt(16 * size // largest) for size in sizes]


def assign_intervals(log10_n: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the interval of each unit, 0 to 9: [min, max] is divided into equal ones. (units,) -> (units,)

    >>> assign_intervals(np.array([1.0, 1.19, 1.2, 2.0, 3.0])).tolist()
    [0, 0, 1, 5, 9]
    """
    if log10_n.min() == log10_n.max():
        return np.zeros(len(log10_n), dtype=np.int64)
    edges = np.linspace(log10_n.min(), log10_n.max(), INTERVALS + 1)[1:-1]
    return np.searchsorted(edges, log10_n, side="right").astype(np.int64)


def _sort_tokens(chosen: pd.DataFrame) -> pd.DataFrame:
    order = ["interval", "n", "unit"]
    return chosen.sort_values(order, ascending=[True, False, True], ignore_index=True)[TOKEN_COLUMNS]
