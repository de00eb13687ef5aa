"""The sample: those of smallest key, whatever the order, and every position as likely as any other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from tests.hard_cases import Case, folded, hard

from theodolite.hashing import mix
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.sample import FIELDS, Reservoir, Sample

CHANCE = 1e-3
"""The keys are fixed, so the test passes or fails for everyone; a fair choice of them fails once in 500 times."""


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16, torch.float64], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return hard(request.param)


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("size", [13, 3000])
def test_rows_with_the_smallest_keys_are_kept(case: Case, population: str, size: int) -> None:
    sample = folded(Sample, case, size=size).population(POPULATIONS[population])
    rows = torch.from_numpy(case.belongs(population).nonzero()[0])
    chosen = rows[case.places.key[rows].argsort()][: case.frame.sample_size]
    assert torch.equal(sample["key"], case.places.key[chosen])
    assert torch.equal(sample["unit"], case.places.unit[chosen])
    assert torch.equal(sample["context"], case.places.context[chosen])
    assert torch.equal(sample["vector"].double(), case.states[chosen].double())


def test_a_cell_smaller_than_the_sample_is_kept_completely(case: Case) -> None:
    sample, first = folded(Sample, case).population([1, 3]), int(case.places.first.sum())
    assert first < case.frame.sample_size
    assert len(sample["key"]) == first


def test_every_position_is_as_likely_as_any_other() -> None:
    positions, size, surveys = 500, 50, 400
    drawn = np.zeros(positions)
    for survey in range(surveys):
        key = torch.from_numpy((mix(survey, np.arange(positions), 0, 3) >> np.uint64(1)).astype(np.int64))
        reservoir = Reservoir(size)
        for part in torch.arange(positions).split(64):
            reservoir.offer(key=key[part], unit=part)
        drawn[reservoir.rows["unit"].numpy()] += 1
    share = size / positions
    statistic = np.square(drawn - surveys * share).sum() / (surveys * share * (1 - share))
    # The draws of one survey add up to its size, which takes one degree of freedom in all.
    assert CHANCE < chi2.sf(statistic, positions - 1) < 1 - CHANCE


def test_the_first_rows_seen_would_fail_the_same_test() -> None:
    positions, size, surveys = 500, 50, 400
    drawn = np.where(np.arange(positions) < size, surveys, 0)
    share = size / positions
    assert (
        chi2.sf(np.square(drawn - surveys * share).sum() / (surveys * share * (1 - share)), positions - 1) < CHANCE
    )


def test_a_sample_of_size_zero_is_empty() -> None:
    reservoir = Reservoir(0)
    reservoir.offer(key=torch.arange(3), unit=torch.arange(3))
    assert len(reservoir) == 0
    assert reservoir.sorted() == {}


def test_recode_renames_units(case: Case) -> None:
    sample = folded(Sample, case)
    before = sample.population(POPULATIONS["all"])
    codes = torch.randperm(100, generator=torch.Generator().manual_seed(1))
    sample.recode(codes)
    after = sample.population(POPULATIONS["all"])
    assert torch.equal(after["unit"], codes[before["unit"]])
    assert set(after) == set(FIELDS)


def test_no_cells_make_an_empty_population() -> None:
    assert Sample(hard(rows=80).frame).population([0]) == {}
