"""Propose rules from a baseline and its own groups of documents, so that other documents of its source pass.

A fresh survey differs from the baseline by the errors of both. Columns that are known by group of documents become
tests, which use the errors of both sides. Columns that are not get a tolerance: sqrt(2) standard errors of the
baseline times a quantile of Student's t, over as many limits as there are. Rules of both kinds together are broken
by chance in at most a share `level` of checks; tests get four fifths of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from theodolite.checks.rules import IGNORE, Rule, Rules
from theodolite.checks.significance import GROUPS, Spread, combine_spreads, p_of_difference
from theodolite.checks.subject import COUNTS, STORE, VECTORS, Subject
from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.measures.resampling import MIN_GROUPS, group_error
from theodolite.statistics.cells import POPULATIONS
from theodolite.storage.download import download
from theodolite.storage.file_names import SAMPLE, STATE
from theodolite.storage.files import read_tensors
from theodolite.stores.compare import ASPECTS
from theodolite.studies.sample_export.export import PositionDecoder
from theodolite.studies.sample_file import SampleFile
from theodolite.surveys.survey import Survey
from theodolite.tables.shape import spectral_numbers
from theodolite.text import format_percent, list_layers

Array = NDArray[np.float64]
TESTED = ("q", "m_of_q", "v_within_of_v", "mean_cosine")
SPECTRAL = ("effective_rank", "anisotropy_svd")
TWONN_FACTOR = 1.7
"""By how much the standard error of TwoNN, which assumes independent vectors, can be too small."""
TEST_SHARE = 0.8
"""Of the level, for tests; the rest is for tolerances."""
SPLITS = 1000
WIDEST = 2048
"""Coordinates above which no tolerance of the spectrum is computed: 20 spectra per layer would take minutes."""
COUNT_TOLERANCE = 0.25
"""Relative, for the number of positions, if the sums by group of documents were not kept."""


class Tolerance(NamedTuple):
    """A number without values by group of documents: its standard error relative to the number, and a column."""

    table: str
    column: str
    relative_se: float


def propose_rules(baseline: Subject, *, level: float = 0.05, seed: int = 0) -> tuple[Rules, list[str]]:
    """Return rules that the source of the baseline keeps, and comments that describe how they were made."""
    facts = _describe(baseline)
    if baseline.kind == STORE:
        return _propose_store(baseline, level, facts)
    tested, undefined = _find_tested(baseline)
    chosen, alarms = _calibrate(baseline, tested, round(TEST_SHARE * level, 6), level, seed)
    rules = [
        Rule(
            column, layers=_name_layers(layers, baseline), population=baseline.population, test=True, ignore=IGNORE
        )
        for column, layers in tested.items()
    ]
    limits = list(_tolerances(baseline))
    factor = float(np.sqrt(2) * stats.t.isf((1 - TEST_SHARE) * level / 2 / max(len(limits), 1), GROUPS - 1))
    rules += _as_limits(limits, factor, baseline)
    rules += _guards(baseline)
    if not rules:
        raise InputError(f"{baseline.name} has no numbers that rules could be about.")
    comments = [
        f"Rules for other documents of the same source, or the same documents again: {baseline.label}.",
        f"Tests: a change is significant over groups of documents, {format_percent(chosen)} over all tests "
        "(Holm), and larger than `ignore`.",
        f"Limits: {factor:.1f} standard errors of the baseline, of the layer where that is most.",
        f"In {SPLITS:,} splits of the baseline's groups of documents into halves, {format_percent(alarms)} would "
        "break a test."
        if tested
        else "No number has an error over groups of documents, so there are no tests. Ten groups are required: "
        "survey more documents.",
        *undefined,
    ]
    return Rules(tuple(rules), chosen, facts, "proposed rules"), comments


def _describe(baseline: Subject) -> dict[str, Any]:
    """Return what the rules were written from."""
    found: dict[str, Any] = {"kind": baseline.kind, "name": baseline.title}
    if baseline.step is not None:
        found["step"] = baseline.step
    digest = (baseline.facts.get("model") or {}).get("sha256")
    return found | ({"weights": str(digest)} if digest else {})


def _name_layers(layers: Sequence[int], baseline: Subject) -> tuple[int, ...] | None:
    return None if list(layers) == baseline.layer_numbers else tuple(layers)


# Tests


def _find_tested(baseline: Subject) -> tuple[dict[str, list[int]], list[str]]:
    """Return the columns to test with the layers at which they have an error, and notes on those left out."""
    rows = baseline.table("layers")
    rows = rows[rows["population"] == baseline.population]
    found: dict[str, list[int]] = {}
    notes = []
    for column in TESTED:
        if f"{column}_se" not in rows:
            continue
        known = rows[rows[f"{column}_se"].notna() & (rows[f"{column}_se"].astype(float) > 0)]
        layers = sorted(int(layer) for layer in known["layer"])
        if layers:
            found[column] = layers
        left = [layer for layer in baseline.layer_numbers if layer not in layers]
        if left:
            notes.append(f"{column} has no error over documents at {list_layers(left)}, so it is not tested.")
    return found, notes


def _calibrate(
    baseline: Subject, tested: Mapping[str, Sequence[int]], level: float, most: float, seed: int
) -> tuple[float, float]:
    """Return the level of the tests and the share of splits that break one.

    The level is lowered until at most a share `most` of the splits of the baseline's own groups into halves would
    be an alarm: with few or very unequal documents, Student's t alone promises too much.
    """
    values = _pseudo_values(baseline, tested)
    if not len(values):
        return level, float("nan")
    smallest = _split_halves(values, np.random.default_rng(seed))
    for _ in range(6):
        alarms = float((smallest <= level).mean())
        if alarms <= most:
            break
        level /= 2
    return level, alarms


def _pseudo_values(baseline: Subject, tested: Mapping[str, Sequence[int]]) -> Array:
    """Return g theta - (g - 1) theta_i of each number and group. (numbers, groups)

    Their mean over all groups is theta.
    The mean over half of the groups is then nearly the number of half of the documents.
    """
    if "jackknife" not in baseline.tables:
        return np.zeros((0, 0))
    table = baseline.table("jackknife")
    table = table[table["population"] == baseline.population]
    found = []
    for column, layers in tested.items():
        rows = table[(table["column"] == column) & table["layer"].isin(layers)]
        found += [part["value"].to_numpy(np.float64) for _, part in rows.groupby("layer")]
    usable = [one for one in found if len(one) >= MIN_GROUPS]
    most = max(map(len, usable), default=0)
    without = np.array([one for one in usable if len(one) == most])
    return most * without.mean(axis=1, keepdims=True) - (most - 1) * without if len(without) else np.zeros((0, 0))


def _split_halves(values: Array, rng: np.random.Generator) -> Array:
    """Return the smallest p-value, corrected, of each of SPLITS random splits. values: (numbers, groups)"""
    numbers, groups = values.shape
    order = rng.permuted(np.tile(np.arange(groups), (SPLITS, 1)), axis=1)
    halves = values[:, order[:, : groups // 2]], values[:, order[:, groups // 2 :]]  # (numbers, splits, half)
    means = [half.mean(axis=2) for half in halves]
    spreads = [Spread(half.std(axis=2, ddof=1) / np.sqrt(half.shape[2]), half.shape[2]) for half in halves]
    p = p_of_difference(means[1] - means[0], IGNORE * np.abs(means[0]), *combine_spreads(*spreads))
    return np.asarray(p.min(axis=0) * numbers)  # the first step of Holm's correction


# Tolerances


def _tolerances(baseline: Subject) -> Iterator[Tolerance]:
    """Yield the numbers that have no value by group of documents, with a standard error."""
    se = _count_error(baseline)
    if se is not None:
        yield Tolerance(COUNTS, "positions", se / float(baseline.table(COUNTS)["positions"].iloc[0]))
    rows = baseline.table("layers")
    rows = rows[rows["population"] == baseline.population].set_index("layer")
    errors = _spectral_errors(baseline)
    if "twonn_se" in rows:
        errors["twonn"] = dict(TWONN_FACTOR * rows["twonn_se"].dropna().astype(float))
    for column, by_layer in errors.items():
        for layer, error in by_layer.items():
            value = rows[column].get(layer)
            if pd.notna(value) and value > 0 and error > 0:
                yield Tolerance("layers", column, error / float(value))


def _as_limits(tolerances: Sequence[Tolerance], factor: float, baseline: Subject) -> Iterator[Rule]:
    """Yield one rule per column, wide enough for each of its layers."""
    for table, column in dict.fromkeys((one.table, one.column) for one in tolerances):
        most = max(one.relative_se for one in tolerances if one.column == column)
        population = baseline.population if table == "layers" else None
        yield Rule(column, table=table, population=population, relative=_round_up(factor * most))


def _round_up(value: float) -> float:
    """Return a number with two digits that is not smaller.

    >>> _round_up(0.01234), _round_up(12.0), _round_up(987.0)
    (0.013, 12.0, 990.0)
    """
    step = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(f"{np.ceil(value / step - 1e-9) * step:.2g}")


def _guards(baseline: Subject) -> Iterator[Rule]:
    """Yield rules that no chance breaks: how many documents were read, and that all numbers are finite."""
    counts = baseline.table(COUNTS)
    if "documents" in counts and counts["documents"].iloc[0] > 0:
        yield Rule("documents", table=COUNTS, relative=0.1)
    if "positions" in counts and _count_error(baseline) is None:
        yield Rule("positions", table=COUNTS, relative=COUNT_TOLERANCE)
    rows = baseline.table("layers")
    if "nonfinite" in rows and (rows["nonfinite"] == 0).fillna(False).all():
        yield Rule("nonfinite", population=baseline.population, max=0)


def _count_error(baseline: Subject) -> float | None:
    """Return the standard error of the number of positions, from the counts of groups of documents."""
    first = baseline.layer_numbers[0]
    if isinstance(baseline.source, Survey):
        folds = baseline.source.state.folds
        n = folds[first].groups.n if first in folds else None
    elif baseline.source is None or STATE not in baseline.facts["files"]:
        n = None
    else:
        path = download(baseline.source, [STATE]) / STATE
        n = read_tensors(path, f"layer{first}.groups.n")[0].get(f"layer{first}.groups.n")
    if n is None:
        return None
    by_group = n.sum(0).double().numpy()
    if (by_group > 0).sum() < MIN_GROUPS:
        return None
    return float(np.sqrt(len(by_group)) * by_group.std(ddof=1))


def _spectral_errors(baseline: Subject) -> dict[str, dict[int, float]]:
    """Return the jackknife error over documents of numbers of the spectrum, from the sample; empty without one.

    The sample has the same documents and fewer vectors, so that its error is not smaller than that of the survey.
    """
    found: dict[str, dict[int, float]] = {name: {} for name in SPECTRAL}
    if baseline.source is None:
        return found
    decoder = PositionDecoder(baseline.facts)
    for layer in baseline.layer_numbers:
        key, vectors = _sampled(baseline, layer)
        if len(key) < 2 or vectors.shape[1] > WIDEST:
            continue
        document = decoder(key)["document"].to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isnan(document).any() or (document < 0).any():
            continue
        group = (mix(document.astype(np.int64)) % np.uint64(GROUPS)).astype(np.int64)
        for name, error in _jackknife_spectrum(vectors.astype(np.float64), group).items():
            if np.isfinite(error) and error > 0:
                found[name][layer] = error
    return found


def _sampled(baseline: Subject, layer: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return keys and vectors of the sample of a layer, of the default population."""
    source = baseline.source
    if isinstance(source, Survey):
        rows = source.state.folds[layer].sample.population(POPULATIONS[baseline.population])
        if not rows:
            return np.zeros(0, np.int64), np.zeros((0, 1), np.float32)
        return rows["key"].numpy(), rows["vector"].float().numpy()
    if SAMPLE not in baseline.facts["files"]:
        return np.zeros(0, np.int64), np.zeros((0, 1), np.float32)
    found = SampleFile(source).rows(layer, baseline.population)
    return found.key, found.vector


def _jackknife_spectrum(vectors: Array, group: NDArray[np.int64]) -> dict[str, float]:
    """Return the jackknife errors of SPECTRAL over groups, to first order. (vectors, dim), (vectors,) -> by name

    Without a group, the variances along the principal directions change; that these turn changes eigenvalues only
    to second order.
    """
    vectors = vectors - vectors.mean(axis=0)
    present, group = np.unique(group, return_inverse=True)
    if len(present) < MIN_GROUPS:
        return {}
    along = vectors @ np.linalg.eigh(vectors.T @ vectors)[1]
    members = (group == np.arange(len(present))[:, None]).astype(np.float64)
    left = (len(vectors) - members.sum(axis=1))[:, None]
    sums, squares = members @ along, members @ np.square(along)
    means = (along.sum(axis=0) - sums) / left
    variances = np.maximum((np.square(along).sum(axis=0) - squares) / left - np.square(means), 0.0)
    numbers = [spectral_numbers(np.sort(row)[::-1]) for row in variances]
    without = np.array([[each[name] for name in SPECTRAL] for each in numbers])
    return dict(zip(SPECTRAL, group_error(without).tolist(), strict=True))


# Stores


def _propose_store(baseline: Subject, level: float, facts: Mapping[str, Any]) -> tuple[Rules, list[str]]:
    """Return rules for a store: tests of its vectors, and limits for the answers that have an interval."""
    rules = [Rule("rows", table=COUNTS, relative=0.1)]
    tests = [name for name in ASPECTS if baseline.source.sums]
    rules += [Rule(name, table=VECTORS, test=True) for name in tests]
    answers = baseline.table("answers")
    known = answers[answers["value"].notna() & answers["low"].notna() & answers["high"].notna()]
    known = known[known["high"].astype(float) > known["low"].astype(float)]
    factor = float(np.sqrt(2) * stats.norm.isf((1 - TEST_SHARE) * level / 2 / max(len(known), 1)) / 1.96)
    for row in known.to_dict("records"):
        half = max(row["high"] - row["value"], row["value"] - row["low"])
        rules.append(
            Rule("value", table="answers", where={"question": row["question"]}, absolute=_round_up(factor * half))
        )
    comments = [
        f"Rules for other rows of the same source, or the same store later: {baseline.label}.",
        f"Tests of {len(tests)} aspects of the vectors, {format_percent(TEST_SHARE * level)} over all of them "
        "(Holm); every row counts as a document.",
    ]
    return Rules(tuple(rules), TEST_SHARE * level, facts, "proposed rules"), comments
