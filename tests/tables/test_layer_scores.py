"""LiDAR, prompt entropy and curvature of a layer against a recomputation that keeps every vector."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from tests.hard_cases import WINDOW, Case, hard, of_states
from tests.small_models import make, sentences

import theodolite
from theodolite.measures.columns import NO_UNITS, NOT_SCORED
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.rare_units import KeptUnits
from theodolite.surveys import text_survey
from theodolite.tables.layer_row import make_layer_row
from theodolite.tables.layer_scores import COLUMNS, WITHOUT_VECTOR

Array = NDArray[np.float64]
EXACT = 1e-9
"""Relative: both are float64 sums of the same float32 vectors."""
ARC_COSINE = 1e-7
"""Relative: the oracle's arc cosine loses half of the digits at a half turn, which duplicates make."""
SCATTER = 1e-3
"""Relative: the covariance has products in float32, and LiDAR divides by its small eigenvalues."""
SPECIAL = (0, 3)


def scored(case: Case, size: int = 2 * WINDOW) -> LayerFold:
    return case.fold(replace(case.frame, layer_scores=True), size=size)


@pytest.fixture(scope="module")
def case() -> Case:
    """Windows whose rows come in any order, as those of a source do, with sinks anywhere in the text."""
    made = hard(torch.float32, rows=1000, offset=0.0)
    position = torch.from_numpy(np.random.default_rng(0).permutation(1000))
    return replace(made, places=replace(made.places, position=position))


def windows_of(case: Case, population: str) -> list[tuple[int, Array, NDArray[np.bool_]]]:
    """Group, vectors in order, and which of them belong to the population."""
    window, position = case.places.window.numpy(), np.asarray(case.places.position)
    belongs = case.belongs(population)
    found = []
    for number in np.unique(window):
        rows = np.flatnonzero(window == number)
        rows = rows[np.argsort(position[rows])]
        found.append((int(case.places.group[rows[0]]), case.x[rows], belongs[rows]))
    return found


def naive_entropy(x: Array, kept: NDArray[np.bool_]) -> float:
    gram = x[kept] @ x[kept].T
    p = np.linalg.eigvalsh(gram / np.trace(gram))
    p = p[p > 1e-15]
    return float(-(p * np.log(p)).sum() / np.log(min(kept.sum(), x.shape[1])))


def naive_curvature(x: Array, kept: NDArray[np.bool_]) -> float:
    angles = []
    for k in range(len(x) - 2):
        if kept[k : k + 3].all():
            a, b = x[k + 1] - x[k], x[k + 2] - x[k + 1]
            if a.any() and b.any():
                cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)  # of a half turn: -1.0000000000000002
                angles.append(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
    return float(np.mean(angles))


def bridging_curvature(x: Array, kept: NDArray[np.bool_]) -> float:
    """The tempting short cut: leave positions out, and step over the gaps."""
    return naive_curvature(x[kept], np.ones(kept.sum(), dtype=bool))


@pytest.mark.parametrize("population", list(POPULATIONS))
@pytest.mark.parametrize(("column", "naive"), [("prompt_entropy", naive_entropy), ("curvature", naive_curvature)])
def test_it_is_the_mean_over_windows(
    case: Case, column: str, naive: Callable[[Array, NDArray[np.bool_]], float], population: str
) -> None:
    fold = scored(case)
    cells = tuple(cell for cell in POPULATIONS[population] if fold.holds(cell))
    row = make_layer_row(fold, cells)[0]
    found = [(group, naive(x, kept)) for group, x, kept in windows_of(case, population)]
    precision = EXACT if column == "prompt_entropy" else ARC_COSINE
    assert row[column] == pytest.approx(np.mean([value for _, value in found]), rel=precision)
    assert row[f"{column}_windows"] == len(found)
    groups = sorted({group for group, _ in found})
    without = np.array([np.mean([value for g, value in found if g != group]) for group in groups])
    count = len(groups)
    if count < 10:
        assert row[f"{column}_se"] is None
    else:
        error = np.sqrt((count - 1) / count * np.square(without - without.mean()).sum())
        assert row[f"{column}_se"] == pytest.approx(error, rel=10 * precision)


def test_positions_that_are_left_out_are_not_bridged() -> None:
    """A massive position in the middle: the steps over it would be counted as steps of the text."""
    x = torch.randn(30, 8, generator=torch.Generator().manual_seed(1))
    x[15] *= 1000
    case = of_states(x, massive_above=100.0)
    row = make_layer_row(scored(case), POPULATIONS["without-massive"])[0]
    [(_, vectors, kept)] = windows_of(case, "without-massive")
    assert kept.sum() == 29
    assert row["curvature"] == pytest.approx(naive_curvature(vectors, kept), rel=EXACT)
    assert abs(row["curvature"] - bridging_curvature(vectors, kept)) > 1e-3
    massive = make_layer_row(scored(case), POPULATIONS["all"])[0]
    assert massive["prompt_entropy"] < 0.01 < 0.8 < row["prompt_entropy"]  # one vector outweighs all others


def test_the_order_of_the_rows_is_that_of_the_text(case: Case) -> None:
    """The steps between rows as they come are not those of the text."""
    unordered = replace(case, places=replace(case.places, position=torch.arange(len(case.places))))
    right, wrong = (make_layer_row(scored(each), POPULATIONS["all"])[0]["curvature"] for each in (case, unordered))
    assert abs(right - wrong) > 0.1


def test_rows_without_an_order_have_none_of_both(case: Case) -> None:
    unordered = replace(case, places=replace(case.places, position=None))
    row = make_layer_row(scored(unordered), POPULATIONS["all"])[0]
    assert row["curvature"] is row["prompt_entropy"] is None
    assert row["lidar"] is not None
    assert "no order" in json.loads(row["undefined"])["prompt_entropy"]


def naive_lidar(case: Case, population: str) -> float:
    x, unit = case.x[case.belongs(population)], case.unit[case.belongs(population)]
    codes, n = np.unique(unit, return_counts=True)
    means = {code: x[unit == code].mean(axis=0) for code in codes}
    deviation = x - np.stack([means[code] for code in unit])
    within = deviation.T @ deviation / len(x)
    within += 1e-4 * np.trace(within) / len(within) * np.eye(len(within))
    frequent = [code for code, count in zip(codes, n, strict=True) if count >= 10 and code not in SPECIAL]
    used = np.stack([means[code] for code in frequent])
    between = np.cov(used.T, bias=True)
    root = np.linalg.inv(sqrtm(within).real)
    p = np.linalg.eigvalsh(root @ between @ root)
    p = p[p > 1e-14] / p[p > 1e-14].sum()
    return float(np.exp(-(p * np.log(p)).sum()))


@pytest.mark.parametrize("population", ["all", "without-sinks"])
def test_lidar_compares_the_spread_between_units_with_that_within(case: Case, population: str) -> None:
    fold = scored(case)
    cells = tuple(cell for cell in POPULATIONS[population] if fold.holds(cell))
    row = make_layer_row(fold, cells, special=SPECIAL)[0]
    assert row["lidar"] == pytest.approx(naive_lidar(case, population), rel=SCATTER)


def test_lidar_sees_a_direction_that_the_variance_hides() -> None:
    """Units differ along eight coordinates, one of which has 900 times the variance.

    The effective rank of the means is about 1, and LiDAR, which measures them by that spread, about 8.
    """
    random = torch.Generator().manual_seed(0)
    unit = torch.arange(4000) % 100
    scale = torch.ones(16)
    scale[0] = 30.0
    means = torch.randn(100, 16, generator=random) * (torch.arange(16) < 8) * scale
    case = of_states((means[unit] + torch.randn(4000, 16, generator=random) * scale).double(), unit)
    row = make_layer_row(scored(case, 4000), (0,))[0]
    assert row["effective_rank"] < 1.3
    assert 7 < row["lidar"] < 9


def test_undefined_is_null_with_a_reason(case: Case) -> None:
    def reasons(fold: LayerFold, **options: bool) -> dict[str, str]:
        row = make_layer_row(fold, (0,), **options)[0]
        return {name: why for name, why in json.loads(row["undefined"]).items() if name in COLUMNS}

    assert reasons(case.fold()) == dict.fromkeys(COLUMNS, NOT_SCORED)
    assert reasons(scored(case), with_units=False)["lidar"] == NO_UNITS
    some = KeptUnits(2, torch.arange(50), torch.ones(50, dtype=torch.int64), torch.zeros(50).double())
    frame = replace(case.frame, layer_scores=True, kept=some)
    assert reasons(case.fold(frame, size=2 * WINDOW))["lidar"] == WITHOUT_VECTOR
    equal = of_states(torch.randn(6, 8)[torch.arange(120) % 6], torch.arange(120) % 6)
    assert "do not differ" in reasons(scored(equal, 120))["lidar"]
    alone = of_states(torch.randn(1, 8))
    assert {"prompt_entropy", "curvature"} <= reasons(scored(alone)).keys()


def test_parts_of_a_survey_merge_to_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 500)
    model, texts = make("bert", tmp_path / "bert"), sentences(50, seed=4)

    def survey(**more: object) -> theodolite.Survey:
        return theodolite.survey(str(model), texts, layer_scores=True, sample_size=50, device="cpu", **more)

    whole = survey(out=tmp_path / "whole")
    merged = theodolite.merge([survey(part=f"{number}/2") for number in range(2)])
    for column in COLUMNS:
        expected = whole.layers[column].to_numpy(float)
        assert np.isfinite(expected).any(), column
        found = merged.layers[column].to_numpy(float)
        assert found == pytest.approx(expected, rel=1e-3 if column == "lidar" else 1e-6, nan_ok=True)
        assert theodolite.open(tmp_path / "whole").layers[column].equals(whole.layers[column])
