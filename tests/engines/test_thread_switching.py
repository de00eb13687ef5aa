"""Thread switching while a GPU is in use."""

from __future__ import annotations

import sys

import pytest
import torch

from theodolite.engines.threads import SWITCH_SECONDS, frequent_thread_switches, one_torch_thread


def test_the_switch_interval_is_short_inside_and_restored_after() -> None:
    before = sys.getswitchinterval()
    with frequent_thread_switches():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert sys.getswitchinterval() == before


def test_the_switch_interval_is_restored_after_an_error() -> None:
    before = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError), frequent_thread_switches():
        _ = 1 / 0
    assert sys.getswitchinterval() == before


def test_a_shorter_switch_interval_is_kept() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with frequent_thread_switches():
            assert sys.getswitchinterval() == pytest.approx(1e-5)
    finally:
        sys.setswitchinterval(before)


def test_one_thread_inside_and_the_previous_number_after() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_torch_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
