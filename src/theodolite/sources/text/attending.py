"""Attention on a GPU: within windows that lie end to end, and in the kernel that is quick for padded ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

NAME = "theodolite_end_to_end"
SHORT = 64
"""Windows of up to so many tokens, on an average, are quicker in the kernel that saves memory than in flash."""
QUICK = ("EFFICIENT_ATTENTION", "FLASH_ATTENTION", "CUDNN_ATTENTION", "MATH")  # for short ones, in this order


@dataclass(frozen=True)
class Spans:
    """Where windows begin among tokens laid end to end."""

    starts: Tensor  # (windows + 1,) int32, on the model's device
    longest: int


_UNDER_WAY: list[Spans] = []  # of the forward pass that runs


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """Attend within each window. query, key, value: (1, heads, tokens, dim) -> (1, tokens, heads, dim)"""
    spans, reach = _UNDER_WAY[-1], more.get("sliding_window")
    told = [name for name in ("softcap", "s_aux", "position_bias", "head_mask") if more.get(name) is not None]
    if mask is not None or told or (reach is not None and reach < spans.longest):
        raise NotImplementedError("only plain attention is laid end to end")
    causal = more.get("is_causal")
    causal = bool(getattr(module, "is_causal", True) if causal is None else causal)
    q, k, v = (part.transpose(1, 2) for part in (query, key, value))
    attend = _in_kernels if q.is_cuda else _one_by_one
    return attend(q, k, v, spans, causal, more.get("scaling")), None


def _in_kernels(q: Tensor, k: Tensor, v: Tensor, spans: Spans, causal: bool, scale: float | None) -> Tensor:
    reach = (spans.starts, spans.starts, spans.longest, spans.longest)
    can = q.dtype in (torch.bfloat16, torch.float16) and q.shape[3] % 8 == 0 and q.shape[3] <= 256
    short = q.shape[1] <= SHORT * (len(spans.starts) - 1)
    if can and (not short or q.shape[2] != k.shape[2]):
        three = (part[0] for part in (q, k, v))
        found = torch.ops.aten._flash_attention_forward(*three, *reach, 0.0, causal, False, scale=scale)[0]
        return found[None]  # type: ignore[no-any-return]
    if q.shape[2] != k.shape[2]:  # heads that share keys and values
        k, v = (part.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for part in (k, v))
    made = torch.ops.aten._efficient_attention_forward(q, k, v, None, *reach, 0.0, int(causal), scale=scale)
    return made[0]  # type: ignore[no-any-return]


def _one_by_one(q: Tensor, k: Tensor, v: Tensor, spans: Spans, causal: bool, scale: float | None) -> Tensor:
    parts = []
    for begin, end in pairwise(spans.starts.tolist()):
        a, b, c = (part[:, begin:end].transpose(1, 2) for part in (q, k, v))
        one = scaled_dot_product_attention(
            a, b, c, is_causal=causal, scale=scale, enable_gqa=q.shape[2] != k.shape[2]
        )
        parts.append(one.transpose(1, 2))
    return torch.cat(parts, dim=1)


@contextmanager
def attending_within(model: Any, spans: Spans) -> Iterator[None]:
    """Have the model attend within these windows meanwhile."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attention)
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    _UNDER_WAY.append(spans)
    try:
        yield
    finally:
        _UNDER_WAY.pop()
        model.set_attn_implementation(before)


def quick_attention(device: torch.device, longest: int) -> AbstractContextManager[None]:
    """Have padded windows, of so many tokens at most, attended to in the kernel that is quickest for them.

    PyTorch takes cuDNN's first on newer GPUs, which makes a plan for every new shape of a batch and is at its best
    with long windows: short ones it does at a quarter of this speed.
    """
    if device.type != "cuda" or longest > SHORT:
        return nullcontext()
    return sdpa_kernel([getattr(SDPBackend, name) for name in QUICK], set_priority=True)
