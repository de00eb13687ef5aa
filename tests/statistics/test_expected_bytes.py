"""Every statistic states its own size, from which a survey estimates its memory: compare it with the state."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.hard_cases import places
from tests.laws.harness import discovered, fold

from theodolite.batch import GROUPS, Batch
from theodolite.statistics.fold import BY_FIELD, CONTEXTUAL, STATISTICS, expected_bytes
from theodolite.statistics.frame import Frame
from theodolite.statistics.statistic import Statistic

DIM, UNITS, EACH = 256, 40, GROUPS
CLOSE = 0.05
"""The share by which sizes may differ: some statistics leave small parts out."""
FRAME = Frame(
    torch.zeros(DIM),
    sample_size=100,
    contextuality=True,
    occurrences=(8, 4),
    frequent=tuple(range(UNITS)),
    by_groups=4,
    by_matrices=2,
    by_rows=1000,
)


def full_batch(cells: int) -> Batch:
    """Return a batch in which every unit occurs once in each group, in each of one or two cells."""
    rows = cells * UNITS * EACH
    states = torch.randn(rows, DIM, generator=torch.Generator().manual_seed(0))
    where = places(torch.arange(rows) % UNITS, torch.arange(rows) >= UNITS * EACH)
    group = torch.arange(rows) // UNITS % GROUPS
    return Batch(0, states, replace(where, group=group, by=group % FRAME.by_groups))


@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("kind", discovered(), ids=lambda kind: kind.name)
def test_the_expected_size_is_that_of_the_state(kind: type[Statistic], cells: int) -> None:
    state = fold(kind, FRAME, full_batch(cells)).state()
    size = sum(tensor.nbytes for tensor in state.values())
    assert kind.expected_bytes(FRAME, cells * UNITS, cells) == pytest.approx(size, rel=CLOSE)


def test_the_size_of_a_layer_is_the_sum_of_its_statistics() -> None:
    counted = [kind for kind in (*STATISTICS, *CONTEXTUAL, *BY_FIELD) if kind.in_estimate]
    assert expected_bytes(FRAME, UNITS, 2) == sum(kind.expected_bytes(FRAME, UNITS, 2) for kind in counted)


def test_a_statistic_is_in_the_estimate_by_default() -> None:
    """Only these are too small, or bounded whatever is surveyed."""
    omitted = {kind.name for kind in discovered() if not kind.in_estimate}
    assert omitted == {"directions", "groups", "norms", "occurrences", "sentences", "sequences"}
