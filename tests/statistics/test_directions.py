"""The mean cosine of all pairs, from one vector: against the matrix of all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests import oracles
from tests.hard_cases import Case, folded, hard, of_states

from theodolite.measures.cosine import mean_cosine
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.directions import Directions

COSINE = 1e-6
"""Absolute. x/|x| is float32, off by 1e-7 at random; the sum over a batch keeps that, and a mean cosine is the
squared length of the mean direction, so twice it, with room for the rounding of the sums."""


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16, torch.float64], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return hard(request.param)


def found(directions: Directions, population: str) -> float:
    cells = list(POPULATIONS[population])
    return mean_cosine(int(directions.n[cells].sum()), directions.sum[cells].sum(dim=0).numpy())


@pytest.mark.parametrize("population", POPULATIONS)
def test_mean_cosine_is_that_of_all_pairs(case: Case, population: str) -> None:
    truth = oracles.mean_cosine(case.x[case.belongs(population)])
    assert found(folded(Directions, case), population) == pytest.approx(truth, abs=COSINE)


def test_small_mean_cosines_are_right_too() -> None:
    case = hard(offset=0.0)
    truth = oracles.mean_cosine(case.x[case.belongs("without-massive")])
    assert abs(truth) < 0.1
    assert found(folded(Directions, case), "without-massive") == pytest.approx(truth, abs=COSINE)


def test_a_thousand_sampled_pairs_fail() -> None:
    case = hard(offset=0.0)
    x = case.x[case.belongs("without-massive")]
    directions, truth = x / oracles.norms(x)[:, None], oracles.mean_cosine(x)
    pairs = np.random.default_rng(0).integers(len(x), size=(20, 1000, 2))
    sampled = [(directions[a] * directions[b]).sum(axis=1).mean() for a, b in np.moveaxis(pairs, 2, 1)]
    assert np.sqrt(np.mean(np.square(np.array(sampled) - truth))) > 1000 * COSINE


def test_zero_vectors_are_excluded() -> None:
    states = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))
    states[::4] = 0
    directions = folded(Directions, of_states(states))
    assert int(directions.n.sum()) == 30
    assert found(directions, "all") == pytest.approx(oracles.mean_cosine(states.numpy()), abs=COSINE)


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e20, 1e30])
def test_very_short_and_very_long_vectors_have_directions(scale: float) -> None:
    states = torch.randn(40, 5, generator=torch.Generator().manual_seed(1)) + 1
    directions = folded(Directions, of_states(states * scale, centre=torch.zeros(5)))
    assert found(directions, "all") == pytest.approx(oracles.mean_cosine(states.numpy()), abs=COSINE)


def test_the_shares_of_the_coordinates_add_up(case: Case) -> None:
    """squares holds each coordinate's part of the n that is subtracted."""
    directions = folded(Directions, case)
    assert directions.squares.sum(dim=1).numpy() == pytest.approx(directions.n.numpy(), rel=COSINE)


def test_vectors_that_share_a_large_coordinate_keep_the_digits_of_their_angles() -> None:
    """Float32 rounds all these directions alike: 1 - cos had an error of 3%."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(3000, 64))).float()
    x[:, 5] += 3000
    case = of_states(x)
    truth = oracles.mean_cosine(x.double().numpy())
    assert 1 - found(folded(Directions, case), "all") == pytest.approx(1 - truth, rel=1e-6)
    rounded = (x * (1 / torch.linalg.vector_norm(x, dim=1))[:, None]).sum(0).double().numpy()
    assert abs(mean_cosine(3000, rounded) - truth) > 1e-3 * (1 - truth)
