"""Contextuality against a recomputation that keeps every vector, on difficult vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.hard_cases import WINDOW, Case, hard, of_states

from theodolite.hashing import mix
from theodolite.measures.contextuality import MIN_OCCURRENCES, chance_explainable_variance, explainable_variance
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.occurrences import SALT
from theodolite.tables import contextuality
from theodolite.tables.layer_row import make_layer_row

DIRECTION = 1e-6
"""Absolute: x/|x| is float32, 6e-8 a coordinate and random between them."""
SPECTRUM = 1e-9
"""Relative: eigenvalues in float64 of float32 vectors."""
SPECIAL = (0, 3)
Array = NDArray[np.float64]


def kept(case: Case, occurrences: tuple[int, int] = (512, 32)) -> LayerFold:
    """Folded in batches that end where a window does, as a source's do."""
    frame = replace(case.frame, contextuality=True, occurrences=occurrences)
    return case.fold(frame, size=2 * WINDOW)


def directions(x: Array) -> Array:
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x[norms[:, 0] > 0] / norms[norms[:, 0] > 0]


def pairwise(x: Array) -> float:
    """The mean cosine over pairs, one pair after the other."""
    u = directions(x)
    values = [u[i] @ u[j] for i in range(len(u)) for j in range(len(u)) if i != j]
    return float(np.mean(values)) if values else float("nan")


def within_window(x: Array) -> float:
    mean, u = x.mean(axis=0), directions(x)
    return float(np.mean(u @ mean / np.linalg.norm(mean)))


@pytest.fixture(scope="module", params=[0.0, 3000.0], ids=["spread", "offset"])
def case(request: pytest.FixtureRequest) -> Case:
    return hard(torch.float32, rows=1000, offset=request.param)


@pytest.mark.parametrize("population", list(POPULATIONS))
def test_self_similarity_is_the_mean_cosine_between_occurrences(case: Case, population: str) -> None:
    fold, x, unit = kept(case), case.x[case.belongs(population)], case.unit[case.belongs(population)]
    cells = tuple(cell for cell in POPULATIONS[population] if fold.holds(cell))
    row, sums, _, similarity, _ = make_layer_row(fold, cells, special=SPECIAL)
    oracle = np.array([pairwise(x[unit == code]) for code in sums.codes.numpy()])
    np.testing.assert_allclose(similarity, oracle, atol=DIRECTION)
    often = [code not in SPECIAL and (unit == code).sum() >= MIN_OCCURRENCES for code in sums.codes.numpy()]
    assert row["self_similarity"] == pytest.approx(np.mean(oracle[often]), abs=DIRECTION)
    assert row["self_similarity_units"] == sum(often)
    assert row["self_similarity_adjusted"] == pytest.approx(row["self_similarity"] - row["mean_cosine"])
    error = np.std(oracle[often], ddof=1) / np.sqrt(sum(often))
    assert row["self_similarity_se"] == pytest.approx(error, abs=DIRECTION)


@pytest.mark.parametrize("population", list(POPULATIONS))
def test_intra_sentence_similarity_is_the_mean_over_windows(case: Case, population: str) -> None:
    fold, belongs = kept(case), case.belongs(population)
    cells = tuple(cell for cell in POPULATIONS[population] if fold.holds(cell))
    row = make_layer_row(fold, cells)[0]
    window = case.places.window.numpy()
    members = [case.x[belongs & (window == number)] for number in np.unique(window)]
    oracle = [within_window(x) for x in members if len(directions(x)) > 1]
    assert row["intra_similarity"] == pytest.approx(np.mean(oracle), abs=DIRECTION)
    assert row["intra_similarity_windows"] == len(oracle)
    # The tempting short cut, the mean over all positions of cos(x, its window's mean), weighs long windows more.
    flat = np.concatenate([directions(x) @ x.mean(0) / np.linalg.norm(x.mean(0)) for x in members if len(x) > 1])
    if population == "all" and abs(case.x[1, 24]) < 100:
        assert abs(np.mean(flat) - np.mean(oracle)) > 10 * DIRECTION


def test_explainable_variance_is_of_the_occurrences_kept(case: Case) -> None:
    units, each = 12, 9
    row = make_layer_row(kept(case, (units, each)), POPULATIONS["all"], special=SPECIAL)[0]
    hashes = mix(SALT, np.unique(case.unit))
    chosen = np.unique(case.unit)[np.argsort(hashes)][:units]
    values = []
    for code in chosen:
        mine = np.flatnonzero(case.unit == code)
        mine = mine[np.argsort(case.places.key.numpy()[mine])][:each]
        if len(mine) >= MIN_OCCURRENCES and code not in SPECIAL:
            values.append(naive_share(case.x[mine]))
    assert row["mev"] == pytest.approx(np.mean(values), rel=SPECTRUM)
    assert row["mev_units"] == len(values)
    assert row["mev_adjusted"] == pytest.approx(row["mev"] - row["anisotropy_svd"])


def naive_share(x: Array) -> float:
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2
    return float(values[0] / values.sum())


@pytest.mark.slow
def test_few_vectors_have_a_high_explained_variance_by_chance() -> None:
    random = np.random.default_rng(0)
    sample = random.standard_normal((4096, 64))
    chance = chance_explainable_variance(np.array([5, 5, 20]), sample)
    assert chance > 5 / 64  # isotropic: everything together has 1/64 along any direction
    assert explainable_variance(sample) < 2 / 64


def test_a_static_table_is_wholly_self_similar() -> None:
    unit = torch.arange(60) % 6
    states = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))[unit]
    row = make_layer_row(kept(of_states(states, unit)), (0,))[0]
    assert row["self_similarity"] == pytest.approx(1.0, abs=DIRECTION)
    assert row["mev"] is None  # nothing varies within a unit


def test_without_the_option_it_is_null_with_a_reason(case: Case) -> None:
    fold = case.fold()
    row, _, _, similarity, _ = make_layer_row(fold, POPULATIONS["all"])
    assert all(row[column] is None for column in contextuality.REASONS)
    assert contextuality.NOT_KEPT in row["undefined"]
    assert np.isnan(similarity).all()


def test_zero_vectors_and_lone_positions_are_excluded() -> None:
    states = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [5.0, 0.0]])
    case = of_states(states, torch.tensor([0, 0, 0, 0, 1]))
    places = replace(case.places, window=torch.tensor([0, 0, 0, 0, 1]))
    fold = LayerFold(replace(case.frame, contextuality=True))
    for batch in replace(case, places=places).batches(5):
        fold.update(batch)
    row, _, _, similarity, _ = make_layer_row(fold, (0,))
    assert similarity[0] == pytest.approx(1 / 3)  # of (1,0), (1,0), (0,1)
    assert np.isnan(similarity[1])
    assert row["intra_similarity_windows"] == 1
    assert row["intra_similarity"] == pytest.approx((2 * 2**-0.5 + 2**-0.5) / 3, abs=DIRECTION)
