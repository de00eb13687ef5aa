"""The sums by document group: each that of its own rows, all together those of everything."""

from __future__ import annotations

import pytest
import torch
from tests.hard_cases import Case, folded, hard, of_states

from theodolite.batch import GROUPS
from theodolite.statistics.directions import Directions
from theodolite.statistics.frame import Frame
from theodolite.statistics.groups import LARGE, Groups
from theodolite.statistics.scatter import Scatter

FLOAT32 = 2e-6
"""Of the sum of sizes: float32 products within a batch of 257 rows, each sum off by some roundings of 6e-8."""


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16, torch.float64], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return hard(request.param)


def test_groups_add_up_to_the_total(case: Case) -> None:
    groups, scatter, directions = (folded(kind, case) for kind in (Groups, Scatter, Directions))
    assert torch.equal(groups.n.sum(dim=1), scatter.n)
    assert torch.equal(groups.directed.sum(dim=1), directions.n)
    reach = torch.linalg.vector_norm(case.states.double(), dim=1).sum().item()
    torch.testing.assert_close(groups.sum.sum(dim=1), scatter.sum, rtol=0, atol=FLOAT32 * reach)
    torch.testing.assert_close(
        groups.directions.sum(dim=1), directions.sum, rtol=0, atol=FLOAT32 * len(case.states)
    )


def test_each_group_holds_its_own_rows(case: Case) -> None:
    groups, cells = folded(Groups, case), torch.from_numpy(case.cells())
    x, centre = case.states.double(), case.frame.centre.double()
    for cell in (0, 3):
        for group in range(GROUPS):
            mine = x[(cells == cell) & (case.places.group == group)]
            y, length = mine - centre, torch.linalg.vector_norm(mine, dim=1)
            assert groups.n[cell, group] == len(mine)
            scale = torch.linalg.vector_norm(y, dim=1).sum().item()
            torch.testing.assert_close(groups.sum[cell, group], y.sum(dim=0), rtol=0, atol=FLOAT32 * scale)
            torch.testing.assert_close(groups.squares[cell, group], y.square().sum(), rtol=FLOAT32, atol=0)
            torch.testing.assert_close(
                groups.directions[cell, group], (mine / length[:, None]).sum(0), rtol=0, atol=FLOAT32 * len(mine)
            )


def test_a_short_vector_far_from_the_centre_keeps_its_direction() -> None:
    """(x - c)/|x| + c/|x| is x/|x| on paper, and c's rounding over |x| in float32."""
    short = torch.tensor([1e-6, 1e-6, 0.0])
    states = torch.tensor([3000.0, 0.0, 0.0]).repeat(20, 1)
    states[5] = short
    case = of_states(states)
    truth = [19 + 0.5**0.5, 0.5**0.5, 0]
    assert folded(Groups, case).directions[0].sum(dim=0).tolist() == pytest.approx(truth, abs=20 * FLOAT32)
    centre, length = case.frame.centre, short.norm()
    tempting = (short - centre) / length + centre / length
    assert (tempting - short / length).abs().max() > 0.1


def test_zero_vectors_are_in_the_sums_and_have_no_direction() -> None:
    states = torch.ones(10, 2)
    states[:4] = 0
    groups = folded(Groups, of_states(states))
    assert int(groups.n.sum()) == 10
    assert int(groups.directed.sum()) == 6


def test_megabytes_of_zeros_are_not_shared() -> None:
    wide = Frame(torch.zeros(2048))
    one, other = Groups(wide), Groups(wide)
    assert one.sum.nbytes > LARGE
    one.sum += 1
    assert not other.sum.any()
    assert not one.directions.any()
    assert torch.equal(one.sum, torch.ones_like(one.sum))
