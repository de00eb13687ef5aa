"""Rows from states: maps flat or one vector per place, sequences, single vectors, and their counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from theodolite.errors import InputError
from theodolite.models.media_anatomy import arrange_rows

MAP = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)  # items, channels, height, width


def test_a_flat_map_is_one_vector_per_item() -> None:
    laid = arrange_rows(MAP, flat=True)
    assert torch.equal(laid.rows, torch.stack([item.flatten() for item in MAP]))
    assert laid.item.tolist() == [0, 1]
    assert laid.position.tolist() == [0, 0]
    assert not laid.ordered


def test_a_map_by_place_is_one_vector_of_channels_per_place() -> None:
    laid = arrange_rows(MAP, flat=False)
    assert laid.rows.shape == (2 * 4 * 5, 3)
    for row, item, position in zip(laid.rows, laid.item, laid.position, strict=True):
        down, across = divmod(int(position), 5)
        assert torch.equal(row, MAP[int(item), :, down, across])
    assert not laid.ordered  # place 0 is a corner
    # The tempting wrong way, a plain reshape, mixes channels of several places.
    assert not torch.equal(laid.rows, MAP.reshape(-1, 3))


@pytest.mark.parametrize("flat", [False, True])
def test_a_sequence_keeps_its_order(flat: bool) -> None:
    states = torch.randn(2, 4, 3)
    laid = arrange_rows(states, flat=flat)
    assert torch.equal(laid.rows, torch.cat([states[0], states[1]]))
    assert laid.item.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert laid.position.tolist() == [0, 1, 2, 3] * 2
    assert laid.ordered


@pytest.mark.parametrize("flat", [False, True])
def test_one_vector_per_item(flat: bool) -> None:
    states = torch.randn(3, 7)
    laid = arrange_rows(states, flat=flat)
    assert torch.equal(laid.rows, states)
    assert laid.item.tolist() == [0, 1, 2]


@pytest.mark.parametrize("counts", [(0, 4), (3, 1), (4, 4), (9, 2)])
def test_only_counted_positions_are_kept(counts: tuple[int, int]) -> None:
    states = torch.randn(2, 4, 3)
    laid = arrange_rows(states, flat=False, counts=counts)
    expected = np.concatenate([item[:count] for item, count in zip(states.numpy(), counts, strict=True)])
    assert np.array_equal(laid.rows.numpy(), expected)
    assert laid.position.tolist() == [place for count in counts for place in range(min(count, 4))]


def test_other_shapes_are_rejected() -> None:
    with pytest.raises(InputError, match=r"States of shape \(2, 3, 4, 5, 1\) cannot be read as one vector"):
        arrange_rows(MAP[..., None], flat=False)
