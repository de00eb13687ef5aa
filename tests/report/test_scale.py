import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.report.scale import fit, whole_ticks

FINITE = st.floats(-1e9, 1e9).map(lambda value: float(f"{value:.6g}"))


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_the_axis_holds_every_value_and_few_ticks(values: list[float]) -> None:
    axis = fit(values, (0.0,), 200.0, 0.0, log=False)
    slack = 1e-6 * (axis.high - axis.low)
    assert axis.low - slack <= min(values)
    assert max(values) <= axis.high + slack
    assert 2 <= len(axis.ticks()) <= 8


@given(st.lists(st.floats(1e-8, 1e8), min_size=1, max_size=20))
def test_a_log_axis_holds_every_value(values: list[float]) -> None:
    axis = fit(values, (), 200.0, 0.0, log=True)
    assert axis.low < min(values) <= max(values) < axis.high
    assert all(0 <= axis(value) <= 200 for value in values)
    assert all(axis.low <= mark <= axis.high for mark in axis.ticks())


@pytest.mark.parametrize("last", [0, 1, 7, 13, 33, 81, 200])
def test_layer_ticks_stay_few_and_whole(last: int) -> None:
    marks = whole_ticks([0.0, float(last)])
    assert len(marks) <= 9
    assert marks[0] == 0
    assert all(mark == math.floor(mark) <= last for mark in marks)
