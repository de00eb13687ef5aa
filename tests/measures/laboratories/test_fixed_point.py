"""Fixed points against functions whose zeros are known."""

from __future__ import annotations

import math

import pytest

from theodolite.measures.laboratories.fixed_point import (
    MAX_STEPS,
    TOLERANCE,
    find_brackets,
    fixed_point,
    post_ln_fixed_point,
)


@pytest.mark.parametrize("power", [0.5, 2, 4, 7])
def test_a_curved_gap_is_followed_to_its_zero(power: float) -> None:
    calls = []

    def gap(norm: float) -> float:
        calls.append(norm)
        return 3.0**power - norm**power

    (bracket,) = find_brackets([0, 1, 10], [gap(n) for n in (0, 1, 10)])
    found = fixed_point(gap, bracket, lambda norm: norm**power)
    assert found == pytest.approx(3, rel=TOLERANCE)
    assert len(calls) <= MAX_STEPS + 3
    straight = 1 + 9 * gap(1) / (gap(1) - gap(10))  # the tempting way: a line between two norms of the grid
    assert power == 0.5 or abs(straight - 3) > 0.1


def test_falling_and_rising_crossings_are_distinguished_and_a_zero_counts_once() -> None:
    found = find_brackets([0, 1, 2, 3, 4], [1.0, 0.0, -1.0, 2.0, 3.0])
    assert [(each.low, each.high, each.attracting) for each in found] == [(0, 1, True), (2, 3, False)]
    assert find_brackets([0, 1], [1.0, 2.0]) == []
    assert find_brackets([5], [1.0]) == []


def test_inputs_longer_than_the_output_have_no_closed_form() -> None:
    assert post_ln_fixed_point(768, 768 * 0.02**2) == pytest.approx(math.sqrt(768 * (1 - 0.0004)))
    assert math.isnan(post_ln_fixed_point(4.0, 5.0))
