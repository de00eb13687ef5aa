"""Counts by unit and group of documents, and the sums of frequent units by group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from tests.hard_cases import Case, folded, hard, of_states

from theodolite.batch import GROUPS
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.unit_groups import FrequentUnits, UnitGroups, find_slots

FREQUENT = (3, 5, 7, 500)
EXACT = 1e-10
"""Relative: float64 sums about a near centre."""


def case_of(frequent: tuple[int, ...] = FREQUENT, offset: float = 3000.0) -> Case:
    case = hard(rows=1200, offset=offset)
    return replace(case, frame=replace(case.frame, frequent=frequent))


def test_counts_are_those_of_the_rows() -> None:
    case = case_of()
    for population, cells in POPULATIONS.items():
        found = folded(UnitGroups, case).population(cells)
        rows = case.belongs(population)
        unit, group = case.unit[rows], case.places.group.numpy()[rows]
        assert found.codes.tolist() == np.unique(unit).tolist()
        for code, counts in zip(found.codes.tolist(), found.n.tolist(), strict=True):
            assert counts == np.bincount(group[unit == code], minlength=GROUPS).tolist()


def test_sums_of_frequent_units_are_those_of_their_rows_in_each_group() -> None:
    case = case_of()
    centre = case.frame.centre.double().numpy()
    for population, cells in POPULATIONS.items():
        found = folded(FrequentUnits, case).population(cells)
        rows = case.belongs(population)
        assert found.codes.tolist() == [3, 5, 7]  # 500 does not occur
        for place, code in enumerate(found.codes.tolist()):
            for group in range(GROUPS):
                y = case.x[rows & (case.unit == code) & (case.places.group.numpy() == group)] - centre
                assert int(found.n[place, group]) == len(y)
                np.testing.assert_allclose(found.sum[place, group], y.sum(axis=0), rtol=EXACT, atol=1e-6)
                np.testing.assert_allclose(found.squares[place, group], np.square(y).sum(), rtol=EXACT)


def test_units_numbered_as_they_occur_are_found_by_their_hash() -> None:
    """Two parts number the same words differently; recoded, they are added as the same unit."""
    states = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    names, codes = torch.tensor([70, 80, 70, 90, 80, 70, 90, 70]), torch.tensor([0, 1, 0, 2, 1, 0, 2, 0])
    frame = {"centre": torch.zeros(4), "frequent": (70, 90)}
    case = of_states(states, codes, **frame)
    case = replace(case, places=replace(case.places, unit_hash=names))
    whole = folded(FrequentUnits, case).population(POPULATIONS["all"])
    parts = []
    for rows, numbers in ((torch.arange(3), [0, 1, 0]), (torch.arange(3, 8), [0, 1, 2, 0, 2])):
        part = of_states(states[rows], torch.tensor(numbers), **frame)
        parts.append(folded(FrequentUnits, replace(part, places=replace(part.places, unit_hash=names[rows]))))
    parts[1].recode(torch.tensor([2, 1, 0]))
    parts[0].merge(parts[1])
    merged = parts[0].population(POPULATIONS["all"])
    assert merged.codes.tolist() == whole.codes.tolist() == [0, 2]
    torch.testing.assert_close(merged.sum, whole.sum)


def test_parts_with_different_pilots_keep_the_units_that_are_frequent_in_both() -> None:
    one, other = folded(FrequentUnits, case_of((3, 5))), folded(FrequentUnits, case_of((9, 5)))
    alone = one.population(POPULATIONS["all"])
    one.merge(other)
    found = one.population(POPULATIONS["all"])
    assert found.codes.tolist() == [3, 5]
    assert torch.equal(found.n, torch.stack([alone.n[0], 2 * alone.n[1]]))


def test_hashes_of_a_pilot_by_word_are_not_found_among_codes() -> None:
    for frequent in ([2**62, -7, 3], [2**62], [-7]):
        slots = find_slots(frequent, torch.tensor([0, 3, 5]))
        assert slots.tolist() == [-1, frequent.index(3) if 3 in frequent else -1, -1]
