"""The histogram of lengths: quantiles to one bin, extremes and counts exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests import oracles
from tests.hard_cases import Case, folded, hard, of_states

from theodolite.measures.norms import LEVELS, norm_quantiles
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.norms import BINS, BINS_PER_OCTAVE, Norms, bin_edges

ONE_BIN = 2 ** (1 / BINS_PER_OCTAVE) - 1 + 1e-6
"""Relative: 1.1%, the width of a bin, and the rounding of a float32 norm."""
EXTREME = 1e-6
"""Relative: a float32 norm of 48 coordinates."""


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return hard(request.param, offset=0.0)


def quantiles(norms: Norms, population: str) -> dict[str, float]:
    cells = list(POPULATIONS[population])
    counts, zero = norms.counts[cells].sum(dim=0).numpy(), int(norms.zero[cells].sum())
    return norm_quantiles(
        counts, bin_edges().numpy(), zero, float(norms.lowest[cells].min()), float(norms.highest[cells].max())
    )


@pytest.mark.parametrize("population", POPULATIONS)
def test_quantiles_are_right_to_one_bin(case: Case, population: str) -> None:
    lengths = oracles.norms(case.x[case.belongs(population)])
    truth = {name: oracles.quantile(lengths, level) for name, level in LEVELS.items()}
    assert quantiles(folded(Norms, case), population) == pytest.approx(truth, rel=ONE_BIN)


def test_bins_of_equal_width_fail(case: Case) -> None:
    """As many bins between 0 and the longest: a massive row makes each of them too wide for the others."""
    lengths = oracles.norms(case.x)
    counts, edges = np.histogram(lengths, bins=100, range=(0, lengths.max()))
    found = norm_quantiles(counts, np.maximum(edges, 1e-9), 0, lengths.min(), lengths.max())
    truth = oracles.quantile(lengths, 0.5)
    assert abs(found["norm_p50"] - truth) > 10 * ONE_BIN * truth


def test_extremes_are_exact(case: Case) -> None:
    norms, lengths = folded(Norms, case), oracles.norms(case.x)
    assert float(norms.lowest.min()) == pytest.approx(lengths.min(), rel=EXTREME)
    assert float(norms.highest.max()) == pytest.approx(lengths.max(), rel=EXTREME)


def test_every_row_is_counted_once() -> None:
    states = torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    states[:7] = 0
    states[7:12, 2] = torch.nan
    norms = folded(Norms, of_states(states))
    assert (int(norms.zero.sum()), int(norms.nonfinite.sum()), int(norms.counts.sum())) == (7, 5, 88)
    assert float(norms.lowest[0]) == 0


def test_lengths_beyond_the_bins_are_counted_at_the_ends() -> None:
    norms = folded(Norms, of_states(torch.tensor([[1e-30], [1.0], [1e30]]), centre=torch.zeros(1)))
    assert norms.counts[0, [0, BINS - 1]].tolist() == [1, 1]
    assert int(norms.zero.sum()) == 0
    assert float(norms.highest[0]) == pytest.approx(1e30)


def test_an_edge_is_in_the_bin_it_begins() -> None:
    powers = torch.tensor([[0.25], [1.0], [2.0], [1024.0]])
    norms = folded(Norms, of_states(powers, centre=torch.zeros(1)))
    assert bin_edges()[norms.counts[0].nonzero().squeeze(1)].tolist() == powers.squeeze(1).tolist()


def test_the_bin_of_a_row_does_not_depend_on_its_batch() -> None:
    """|(1, 1)| is at an edge between bins: its float32 length is below it, its float64 length is not."""
    one = torch.ones(1, 2)
    alone = folded(Norms, of_states(one))
    with_nan = folded(Norms, of_states(torch.cat([one, torch.full((1, 2), torch.nan)]), centre=torch.zeros(2)))
    assert torch.equal(alone.counts, with_nan.counts)
