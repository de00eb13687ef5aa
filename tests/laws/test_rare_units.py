"""What must hold if some units have no vector: the choice of units, and the sums with and without vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.harness import FLOAT64, assert_identical, discovered, fold
from tests.laws.strategies import UNITS, Sample, kept_units, samples
from tests.laws.test_laws import LAW

from theodolite.count_strata import find_strata
from theodolite.statistics.cells import CELLS
from theodolite.statistics.moments import Moments
from theodolite.statistics.rare_units import KeptUnits, RareUnits, choose_units
from theodolite.statistics.statistic import Statistic

OTHERS = [kind for kind in discovered() if kind is not RareUnits]
COUNTS = st.integers(1, 300).map(lambda units: np.random.default_rng(units).choice([1, 2, 20, 30, 50], units))
"""Few values, so that strata have more units than are sampled of each."""


@st.composite
def choices(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    n = draw(COUNTS)
    names = np.random.default_rng(draw(st.integers(0, 99))).permutation(10 * len(n))[: len(n)]
    options = {
        "min_count": draw(st.integers(1, 70)),
        "first": names[: draw(st.integers(0, len(n)))].tolist(),
        "sampled": draw(st.integers(1, 60)),
        "seed": draw(st.integers(0, 9)),
    }
    return names, n, options


@given(choice=choices(), seed=st.integers(0, 99))
@LAW
def test_the_choice_does_not_depend_on_the_order_of_units(
    choice: tuple[np.ndarray, np.ndarray, dict[str, Any]], seed: int
) -> None:
    names, n, options = choice
    order = np.random.default_rng(seed).permutation(len(n))
    one, other = choose_units(names, n, **options), choose_units(names[order], n[order], **options)
    for field in ("names", "n", "weights"):
        assert torch.equal(getattr(one, field), getattr(other, field))


@given(choice=choices())
@LAW
def test_weights_count_every_unit_once(choice: tuple[np.ndarray, np.ndarray, dict[str, Any]]) -> None:
    names, n, options = choice
    kept = choose_units(names, n, **options)
    weights, counts = kept.weights.numpy(), kept.n.numpy()
    frequent, first = counts >= options["min_count"], np.isin(kept.names.numpy(), options["first"])
    assert (weights[frequent] == 1).all()
    for group in (~frequent & first, ~frequent & ~first):
        assert group.sum() > options["sampled"] or (weights[group] == 1).all()
        for stratum in np.unique(find_strata(counts)[group]):
            of = group & (find_strata(counts) == stratum)
            assert weights[of].sum() == pytest.approx(of.sum(), rel=1e-12)
    certain = kept.certain.numpy()
    assert certain[frequent].all()
    assert (weights[certain] == 1).all()


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.name)
@given(sample=samples())
@LAW
def test_with_a_vector_for_every_unit_no_bit_changes(kind: type[Statistic], sample: Sample) -> None:
    every = KeptUnits(1, torch.arange(UNITS), torch.ones(UNITS, dtype=torch.int64), torch.ones(UNITS).double())
    frames = [replace(sample.frame, kept=kept) for kept in (None, every)]
    plain, kept = (fold(kind, frame, sample.batch).state() for frame in frames)
    assert_identical(kept, plain)
    assert not fold(RareUnits, frames[1], sample.batch).state()["squares"].any()


@given(sample=samples(), kept=kept_units().filter(lambda kept: kept is not None))
@LAW
def test_units_with_and_without_a_vector_are_all_units(sample: Sample, kept: KeptUnits) -> None:
    frame = replace(sample.frame, kept=kept)
    plain = fold(Moments, replace(frame, kept=None), sample.batch)
    with_vector, without = fold(Moments, frame, sample.batch), fold(RareUnits, frame, sample.batch)
    assert isinstance(plain, Moments)
    assert isinstance(with_vector, Moments)
    assert isinstance(without, RareUnits)
    for cell in range(len(CELLS)):
        every, some, rare = (of.population([cell]) for of in (plain, with_vector, without))
        own = kept.has_vector(every.codes)
        for name in ("codes", "n", "sum", "squares"):
            assert torch.equal(getattr(some, name), getattr(every, name)[own]), name
        assert torch.equal(rare.codes, every.codes[~own])
        assert torch.equal(rare.n, every.n[~own])
        allowed = FLOAT64 * max(len(sample.batch.places), 1) * sample.reach
        assert (rare.sum - every.sum[~own].sum(dim=0)).abs().max() <= allowed
