"""The hash of a tensor's bytes: it depends on every bit, and on nothing else."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from theodolite.models.tensor_hash import WORDS, hash_tensor


def test_every_flipped_bit_changes_the_hash() -> None:
    tensor = torch.arange(24, dtype=torch.int16)
    plain, found = hash_tensor(tensor), set()
    for place in range(24):
        for bit in range(16):
            other = tensor.clone()
            other[place] ^= torch.tensor(1 << bit, dtype=torch.int32).to(torch.int16)
            found.add(hash_tensor(other))
    assert plain not in found
    assert len(found) == 24 * 16


def test_complements_and_swapped_words_have_other_hashes() -> None:
    words = torch.tensor([3, -(2**63), 2**62, 5])
    variants = (words, ~words, words.flip(0), words.roll(1), torch.cat([words, words[:1]]), words[:3])
    assert len({hash_tensor(each) for each in variants[:4]}) == 4
    # Trailing zeros are the same bytes: the caller hashes the shape as well.
    assert hash_tensor(torch.cat([words, torch.zeros(1, dtype=torch.int64)])) == hash_tensor(words)


@given(st.integers(0, 3 * WORDS), st.sampled_from([torch.uint8, torch.bfloat16, torch.float32, torch.float64]))
def test_views_and_slices_hash_as_their_copies(size: int, dtype: torch.dtype) -> None:
    data = torch.arange(2 * (size + 1), dtype=torch.float32).remainder(251).to(dtype)
    view = data[1 : 1 + 2 * size : 2]
    assert hash_tensor(view) == hash_tensor(view.clone())
    offset = data[1 : size + 1]
    assert hash_tensor(offset) == hash_tensor(offset.clone())


def test_a_large_tensor_has_sixteen_bytes_for_each_chunk() -> None:
    tensor = torch.zeros(WORDS * 2 + 1, dtype=torch.float64)
    assert len(hash_tensor(tensor)) == 3 * 16
    tensor[-1] = 1
    assert hash_tensor(tensor)[:32] == bytes(32)
    assert hash_tensor(tensor)[32:] != bytes(16)
