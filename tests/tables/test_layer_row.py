"""A row of the layers' table against a recomputation that keeps every vector."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests import oracles
from tests.hard_cases import BOS, OFFSET, SEEN_ONCE, Case, hard, of_states

from theodolite.batch import GROUPS
from theodolite.measures.columns import FEW_GROUPS
from theodolite.measures.intrinsic_dimension import twonn
from theodolite.measures.norms import LEVELS
from theodolite.measures.resampling import ERRORS, SHARES
from theodolite.measures.unit_fits import bootstrap_errors, correct_slope
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.tables.document_groups import NO_COUNTS, ZERO
from theodolite.tables.layer_row import FITS, NO_UNITS, PARTS, make_layer_row
from theodolite.tables.tables import LAYERS
from theodolite.tables.unit_sets import (
    COUNTS,
    FEW_TEXT,
    FEW_UNITS,
    NEEDED,
    NO_TEXT,
    OF_ALL,
    SET_COLUMNS,
)

FLOAT64 = 1e-10
"""Relative: q, m and v, from float64 sums; V of a unit is right to 1e-9 of itself at worst, here to 1e-12."""
COSINE = 1e-6
"""Absolute: x/|x| is float32."""
SPECTRAL = 1e-5
"""Relative: the scatter is a float32 product within a batch."""
ONE_BIN = 0.011
"""Relative: the width of a bin of norms."""
EXTREME = 1e-6
"""Relative: a float32 norm."""
ERROR_BAR = 1e-3
"""Relative: differences between float32 sums of groups; nobody reads more than three digits of an error bar."""
RESAMPLED = 1e-6
"""Relative: the same resamples of V(X_t) right to 1e-10, of which two may be nearly one unit."""

SPECTRUM = ("anisotropy_svd", "participation_ratio", "effective_rank", "iso_score")
JACKKNIFED = ("q_se", "m_se", "v_se", "m_of_q_se", "mean_cosine_se")
SPECIAL = (BOS, 5, SEEN_ONCE)
HEAD = {"layer", "layer_name", "library_index", "population"}

Rows = NDArray[np.bool_]


def measured(fold: LayerFold, population: str = "all", **options: Any) -> dict[str, Any]:
    return make_layer_row(fold, POPULATIONS[population], **options)[0]


def reasons(row: dict[str, Any]) -> dict[str, str]:
    return json.loads(row["undefined"]) if row["undefined"] else {}


@pytest.fixture(
    scope="module",
    params=[(torch.float32, OFFSET), (torch.float32, 0.0), (torch.bfloat16, OFFSET)],
    ids=["float32", "no offset", "bfloat16"],
)
def case(request: pytest.FixtureRequest) -> Case:
    """The hard case, with some zero vectors and some that are not finite, first ones and others."""
    dtype, offset = request.param
    case = hard(dtype, rows=1000, offset=offset)
    states = case.states.clone()
    states[[3, 400, 801]] = 0
    states[[41, 80, 920], 5] = torch.nan
    states[11, 0] = torch.inf
    return replace(case, states=states)


def test_the_row_is_what_keeping_every_vector_gives(case: Case) -> None:
    fold = case.fold(replace(case.frame, frequent=tuple(np.unique(case.unit).tolist())))
    for population in POPULATIONS:
        row, rows = measured(fold, population, special=SPECIAL), case.belongs(population)
        finite = rows & np.isfinite(case.x).all(axis=1)
        allowed = (
            "--contextuality",
            "--layer-scores",
            "a batch has at least 4,096",
            "reported exactly in the column",
            "noise of M",
        )
        assert not [why for why in reasons(row).values() if not any(part in why for part in allowed)], population
        check_counts(row, case, rows, finite)
        check_decomposition(row, case.x[finite], case.unit[finite], case.places.group.numpy()[finite])
        check_fits(row, case.x[finite], case.unit[finite])
        check_shape(row, case, finite)
        check_norms(row, case.x[finite])
        check_error_bars(row, case, finite)


def check_counts(row: dict[str, Any], case: Case, rows: Rows, finite: Rows) -> None:
    norms = oracles.norms(case.x[finite])
    assert row["n"] == finite.sum()
    assert row["types"] == len(set(case.unit[finite].tolist()))
    assert row["dim"] == case.frame.dim
    assert row["nonfinite"] == (rows & ~finite).sum()
    assert row["zero"] == (norms == 0).sum()
    assert row["massive"] == (norms > case.frame.massive_above).sum()


def check_decomposition(row: dict[str, Any], x: oracles.Array, unit: oracles.Codes, group: oracles.Codes) -> None:
    counts = dict(zip(*np.unique(unit, return_counts=True), strict=True))
    frequent = np.array([10 <= counts[code] <= 100_000 for code in unit])
    text = ~np.isin(unit, SPECIAL)
    sets = {"": np.full(len(x), True), "filtered_": frequent, "text_": frequent & text, "unfiltered_text_": text}
    for prefix, rows in sets.items():
        parts = oracles.decomposition(x[rows], unit[rows])
        for part in PARTS:
            assert row[f"{prefix}{part}"] == pytest.approx(getattr(parts, part), rel=FLOAT64), prefix + part
        if prefix:
            assert row[COUNTS[prefix]] == len(set(unit[rows].tolist()))
        truth = errors_without_groups(x[rows], unit[rows], group[rows])
        for name in ERRORS:
            assert row[prefix + name] == pytest.approx(truth[name], rel=ERROR_BAR), prefix + name


def numbers(x: oracles.Array, unit: oracles.Codes) -> list[float]:
    """Q, M, V, V_W, V_B and their ratios of these rows, about a point near them, so that nothing cancels."""
    near = np.median(x, axis=0)
    y = oracles.wide(x) - near
    middle = y.mean(axis=0)
    codes, row = np.unique(unit, return_inverse=True)
    means = np.zeros((len(codes), y.shape[1]), dtype=y.dtype)
    np.add.at(means, row, y)
    means /= np.bincount(row)[:, None]
    m, within = np.square(middle + near).sum(), np.square(y - means[row]).sum() / len(y)
    between = np.square(means[row] - middle).sum() / len(y)
    found = dict(zip(PARTS, (m + within + between, m, within + between, within, between), strict=True))
    return [*found.values(), *(found[above] / found[below] for above, below in SHARES.values())]


def errors_without_groups(x: oracles.Array, unit: oracles.Codes, group: oracles.Codes) -> dict[str, float]:
    """Jackknife errors, each number computed again from the vectors of the other groups."""
    rows = np.array([numbers(x[group != left_out], unit[group != left_out]) for left_out in np.unique(group)])
    spread = np.square(rows - rows.mean(axis=0)).sum(axis=0) * (len(rows) - 1) / len(rows)
    return dict(zip(ERRORS, np.sqrt(spread).astype(float).tolist(), strict=True))


def check_fits(row: dict[str, Any], x: oracles.Array, unit: oracles.Codes) -> None:
    parts = [
        parts for code, parts in oracles.qmv_by_unit(x, unit).items() if 10 <= (unit == code).sum() <= 100_000
    ]
    q, m, v = (np.array([getattr(part, name) for part in parts]) for name in "qmv")
    slope, r2 = oracles.line(m, v)
    assert row["q_cv"] == pytest.approx(oracles.coefficient_of_variation(q), rel=FLOAT64)
    # V on M where M is 9,000,000 and V is 90: what V loses is multiplied by what M does not vary.
    assert row["tradeoff_slope"] == pytest.approx(slope, rel=RESAMPLED)
    assert row["tradeoff_r2"] == pytest.approx(r2, rel=RESAMPLED)
    order = np.lexsort((v, m))  # units are drawn by their place among the others, not by their code
    for name, error in bootstrap_errors(m[order], v[order]).items():
        assert row[name] == pytest.approx(error, rel=RESAMPLED), name


def check_shape(row: dict[str, Any], case: Case, rows: Rows) -> None:
    assert row["mean_cosine"] == pytest.approx(oracles.mean_cosine(case.x[rows]), abs=COSINE)
    truth = oracles.spectral(case.x[rows])
    assert {name: row[name] for name in SPECTRUM} == pytest.approx(truth, rel=SPECTRAL)
    at = torch.from_numpy(rows.nonzero()[0])
    chosen = at[case.places.key[at].argsort()][: case.frame.sample_size]
    estimate = twonn(case.states[chosen].float(), contexts=case.places.context[chosen])
    assert row["twonn"] == pytest.approx(estimate.keep90)
    assert row["twonn_se"] == pytest.approx(estimate.se)
    assert row["twonn_n"] == len({tuple(vector) for vector in case.x[chosen.numpy()].tolist()})
    assert row["sample_duplicates"] == len(chosen) - row["twonn_n"]


def check_norms(row: dict[str, Any], x: oracles.Array) -> None:
    norms = oracles.norms(x)
    assert row["norm_min"] == pytest.approx(norms.min(), rel=EXTREME)
    assert row["norm_max"] == pytest.approx(norms.max(), rel=EXTREME)
    for name, level in LEVELS.items():
        assert row[name] == pytest.approx(oracles.quantile(norms, level), rel=ONE_BIN), name


def check_error_bars(row: dict[str, Any], case: Case, rows: Rows) -> None:
    group = case.places.group.numpy()
    parts = [case.x[rows & (group == number)] for number in range(GROUPS) if (rows & (group == number)).any()]
    for part in ("q", "m", "v"):
        truth = oracles.jackknife(parts, lambda x, part=part: getattr(oracles.qmv(x), part))
        assert row[f"{part}_se"] == pytest.approx(truth, rel=ERROR_BAR), part
    truth = oracles.jackknife(parts, lambda x: oracles.qmv(x).m / oracles.qmv(x).q)
    assert row["m_of_q_se"] == pytest.approx(truth, rel=ERROR_BAR)
    # Where all vectors point one way the error bar itself is 1e-7, the resolution of float32 directions.
    truth = oracles.jackknife(parts, oracles.mean_cosine)
    assert row["mean_cosine_se"] == pytest.approx(truth, rel=ERROR_BAR, abs=COSINE / 10)


def test_populations_without_outliers_are_not_affected_by_them(case: Case) -> None:
    """What the populations are for: a fortieth of the positions holds nearly all of Q until it is excluded."""
    fold = case.fold()
    everything, kept = measured(fold), measured(fold, "without-massive")
    assert everything["norm_max"] > case.frame.massive_above >= kept["norm_max"]
    assert everything["q"] > 100 * kept["q"]
    assert everything["massive"] > 0
    assert kept["massive"] == 0


def plain(rows: int = 300, units: int = 12, dim: int = 8) -> Case:
    """Return units in turn, in documents of one row."""
    random = torch.Generator().manual_seed(3)
    case = of_states(torch.randn(rows, dim, generator=random) + 1, torch.arange(rows) % units)
    return replace(case, places=replace(case.places, group=torch.arange(rows) % GROUPS))


def assert_reason(row: dict[str, Any], reason: str, *columns: str) -> None:
    assert {column: row[column] for column in columns} == dict.fromkeys(columns)
    assert {column: reasons(row).get(column) for column in columns} == dict.fromkeys(columns, reason)


def test_a_row_has_every_column_and_a_reason_for_each_that_is_null() -> None:
    case = plain()
    few = replace(case, states=case.states[:1], places=case.places.take(torch.arange(1)))
    for fold in (case.fold(), few.fold(), LayerFold(case.frame)):
        row = measured(fold)
        assert set(row) == set(LAYERS) - HEAD
        assert {column for column, value in row.items() if value is None} - {"undefined"} == set(reasons(row))


def test_units_that_never_vary_have_no_line() -> None:
    """Layer 0 of a model without position vectors: every occurrence of a token is the same vector."""
    case = plain()
    fold = replace(case, states=case.states[case.places.unit]).fold()
    row = measured(fold)
    line = ("tradeoff_slope", "tradeoff_r2", "tradeoff_slope_se", "tradeoff_r2_se")
    assert_reason(row, "V is 0 for every unit", *line)
    assert row["v_within"] == 0
    assert row["v"] == row["v_between"] > 0
    assert row["q_cv"] > 0
    assert row["q_cv_se"] > 0


def test_fewer_than_three_frequent_units_have_no_fits() -> None:
    case = plain(rows=49, units=20)
    unit = case.places.unit.clone()
    unit[:24] = torch.arange(24) % 2  # two units of twelve, and others too rare
    row = measured(replace(case, places=replace(case.places, unit=unit)).fold())
    assert_reason(row, FEW_UNITS, *FITS, *(f"filtered_{name}" for name in (*PARTS, *ERRORS)))
    assert_reason(row, FEW_TEXT, *(f"text_{name}" for name in (*PARTS, *ERRORS)))
    assert (row["units_used"], row["text_units_used"], row["unfiltered_text_units_used"]) == (2, 2, row["types"])
    assert row["v_within"] > 0
    assert row["unfiltered_text_q"] == row["q"]
    assert row["unfiltered_text_m_of_q_se"] > 0


def test_special_units_are_excluded_from_the_sums_over_text() -> None:
    """Three of twelve units are special: their codes are given, and the sums are over the other nine."""
    case = plain()
    row = measured(case.fold(), special=(0, 4, 11, 99))
    left = np.isin(case.unit, (0, 4, 11), invert=True)
    truth = oracles.decomposition(case.x[left], case.unit[left])
    for part in PARTS:
        assert row[f"text_{part}"] == pytest.approx(getattr(truth, part), rel=FLOAT64)
        assert row[f"unfiltered_text_{part}"] == row[f"text_{part}"]
        assert row[f"filtered_{part}"] == row[part] != row[f"text_{part}"]
    assert [row[column] for column in COUNTS.values()] == [12, 9, 9]


def test_units_that_are_all_special_leave_no_text() -> None:
    row = measured(plain().fold(), special=range(12))
    assert_reason(row, NO_TEXT, *(f"unfiltered_text_{name}" for name in (*PARTS, *ERRORS)))
    assert_reason(row, FEW_TEXT, *(f"text_{name}" for name in (*PARTS, *ERRORS)))
    assert row["filtered_m_of_q_se"] > 0


def test_one_unit_of_text_has_sums_and_errors() -> None:
    row = measured(plain().fold(), special=range(11))
    assert row["unfiltered_text_q"] > 0
    assert row["unfiltered_text_v_between"] == 0
    assert row["unfiltered_text_v_within_se"] > 0


def test_errors_do_not_depend_on_how_units_are_numbered() -> None:
    case = plain()
    mixed = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    other = replace(case, places=replace(case.places, unit=mixed[case.places.unit])).fold()
    one, two = measured(case.fold(), special=(3,)), measured(other, special=(int(mixed[3]),))
    assert {name: one[name] for name in SET_COLUMNS} == pytest.approx({name: two[name] for name in SET_COLUMNS})


def test_three_frequent_units_are_enough() -> None:
    row = measured(plain(rows=30, units=3).fold())
    assert row["units_used"] == 3
    assert row["tradeoff_r2"] is not None
    assert row["filtered_q"] == pytest.approx(row["q"], rel=FLOAT64)


def test_one_vector_has_a_norm_and_few_other_numbers() -> None:
    case = plain(rows=1)
    row = measured(case.fold())
    assert (row["n"], row["types"], row["v"]) == (1, 1, 0)
    assert row["q"] == pytest.approx(float(case.states.double().square().sum()), rel=FLOAT64)
    assert_reason(row, "fewer than two vectors", *SPECTRUM)
    assert_reason(row, "fewer than two vectors have a direction", "mean_cosine")
    assert_reason(row, FEW_GROUPS, *JACKKNIFED)
    assert_reason(row, FEW_UNITS, *FITS)
    assert_reason(row, FEW_GROUPS, *OF_ALL)
    assert row["norm_min"] == row["norm_p50"] == row["norm_max"]


def test_an_empty_population_is_null_with_a_reason() -> None:
    case = plain()
    for cells in ((0, 1, 2, 3), (0,)):
        row, sums, *_ = make_layer_row(LayerFold(case.frame), cells)
        assert (row["n"], row["types"], row["units_used"], row["zero"], row["massive"]) == (0, 0, 0, 0, 0)
        assert_reason(row, "no position belongs to this population", *PARTS, *SET_COLUMNS, *FITS)
        assert [row[column] for column in COUNTS.values()] == [0, 0, 0]
        assert_reason(row, "no vectors", "norm_min", "norm_max", *LEVELS)
        assert_reason(row, "the sample is empty", "twonn", "twonn_se")
        assert len(sums.codes) == 0


def test_only_vectors_that_are_not_finite_are_an_empty_population_that_is_counted() -> None:
    case = plain(rows=40)
    row = measured(replace(case, states=torch.full_like(case.states, torch.nan)).fold())
    assert (row["n"], row["nonfinite"]) == (0, 40)


def test_only_zero_vectors_have_neither_direction_nor_spread() -> None:
    case = plain(rows=120, units=4)
    row = measured(
        replace(
            case, states=torch.zeros_like(case.states), frame=replace(case.frame, centre=torch.zeros(8))
        ).fold()
    )
    assert (row["q"], row["v"], row["zero"], row["norm_max"]) == (0, 0, 120, 0)
    assert_reason(row, "fewer than two vectors have a direction", "mean_cosine")
    assert_reason(row, "all vectors are equal", *SPECTRUM)
    assert_reason(row, "the mean of Q is 0", "q_cv")
    assert_reason(row, ZERO, *(f"{prefix}{share}_se" for prefix in ("", *NEEDED) for share in SHARES))
    assert row["filtered_v_between_se"] == 0


def test_vectors_of_no_units_have_no_parts_by_unit() -> None:
    row = measured(plain().fold(), with_units=False)
    assert_reason(row, NO_UNITS, "v_within", "v_between", *SET_COLUMNS, *FITS, *COUNTS.values())
    assert row["m_of_q_se"] > 0
    assert row["v"] > 0


@pytest.mark.parametrize("groups", [1, 9])
def test_documents_of_few_groups_have_no_error_bars(groups: int) -> None:
    case = plain()
    row = measured(replace(case, places=replace(case.places, group=torch.arange(300) % groups)).fold())
    assert_reason(row, FEW_GROUPS, *JACKKNIFED, *OF_ALL)
    assert row["mean_cosine"] is not None


def test_sums_of_an_older_version_have_the_errors_that_need_no_units() -> None:
    case, fold = plain(), plain().fold()
    old = {name: part for name, part in fold.copy().state().items() if not name.startswith(("unit_", "frequent_"))}
    opened = LayerFold(case.frame)
    opened.load(old)
    row = measured(opened)
    assert_reason(row, NO_COUNTS, *OF_ALL, *(f"filtered_{name}" for name in ERRORS))
    assert {name: row[name] for name in JACKKNIFED} == {name: measured(fold)[name] for name in JACKKNIFED}
    opened.merge(fold)
    assert_reason(measured(opened), NO_COUNTS, *OF_ALL)


def test_a_missing_sample_is_reported() -> None:
    case = plain()
    row = measured(case.fold(replace(case.frame, sample_size=0)))
    assert_reason(row, "the sample is empty", "twonn", "twonn_se")
    assert (row["twonn_n"], row["sample_duplicates"]) == (0, 0)


@pytest.mark.parametrize("offset", [0.0, 3000.0])
def test_the_slope_is_corrected_with_the_vectors_of_the_sample(offset: float) -> None:
    """Here every vector is in the sample; units with fewer than ten vectors do not count."""
    rng = np.random.default_rng(0)
    n = np.concatenate([rng.integers(10, 31, 60), [1, 4, 9]])
    unit = np.repeat(np.arange(63), n)
    centres = rng.normal(0, 1, (63, 5)) * rng.uniform(1, 3, (63, 1))
    x = (centres[unit] + rng.normal(0, 0.7, (len(unit), 5))).astype(np.float32)
    x[:, 2] += offset
    order = rng.permutation(len(unit))
    case = of_states(torch.from_numpy(x[order]), torch.from_numpy(unit[order]), sample_size=5000)
    row = measured(case.fold(), "all")
    wide = x.astype(np.float64)
    means = np.array([wide[unit == code].mean(0) for code in range(63)])
    m = np.square(means).sum(1)
    v = np.array([np.square(wide[unit == code] - means[code]).sum(1).mean() for code in range(63)])
    used = unit < 60
    truth = correct_slope(n[:60], m[:60], v[:60], unit=unit[used], means=means[unit[used]], vectors=wide[used])
    assert row["tradeoff_slope_corrected"] == pytest.approx(truth.value, rel=1e-6)
    assert row["tradeoff_slope_corrected_se"] == pytest.approx(truth.se, rel=1e-5)


def test_a_slope_cannot_be_corrected_without_a_sample() -> None:
    case = of_states(torch.randn(400, 3), torch.arange(400) % 20, sample_size=0)
    row = measured(case.fold(), "all")
    assert row["tradeoff_slope"] is not None
    assert row["tradeoff_slope_corrected"] is None
    assert reasons(row)["tradeoff_slope_corrected"] == "the sample is empty"
