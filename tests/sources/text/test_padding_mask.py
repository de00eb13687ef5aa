"""A mask with known sums gives every model the same bits as a plain one, without waiting for the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from theodolite.models.checkpoint import load_model, resolve
from theodolite.sources.text.packed_attention import PaddingMask


class Asked(torch.Tensor):
    """Counts the calls for which the CPU would have to wait for a GPU."""

    count = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__bool__:
            cls.count += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("padded", [0, 3])
@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
def test_models_give_the_same(small_model: Any, family: str, padded: int) -> None:
    model = load_model(resolve(str(small_model(family))), dtype="float32", device="cpu")
    ids = torch.randint(5, 60, (4, 10), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1:3, 10 - padded :] = 0
    with torch.no_grad():
        plain = model(input_ids=ids, attention_mask=mask)[0]
        ours = model(input_ids=ids, attention_mask=PaddingMask.of(mask, mask))[0]
    assert torch.equal(ours, plain)
    assert type(ours) is torch.Tensor


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_models_check_whether_a_plain_mask_is_all_ones(small_model: Any, family: str) -> None:
    """Otherwise there would be nothing to save."""
    model = load_model(resolve(str(small_model(family))), dtype="float32", device="cpu")
    ids = torch.randint(5, 60, (2, 6), generator=torch.Generator().manual_seed(0))
    Asked.count = 0
    with torch.no_grad():
        model(input_ids=ids, attention_mask=torch.ones_like(ids).as_subclass(Asked))
    assert Asked.count > 0


def test_a_cached_answer_is_kept_if_only_dtype_or_device_changes() -> None:
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    known = PaddingMask.of(mask, mask).to(torch.bool)
    assert isinstance(known, PaddingMask)
    assert not known.all()
    assert int(known.sum()) == 5
    assert torch.equal(known[:, 1], torch.tensor([True, True]))  # all else is asked of the tensor
    assert torch.equal(known.sum(dim=1), torch.tensor([2, 3]))
