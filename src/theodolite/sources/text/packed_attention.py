"""Packed windows: one sequence without padding, in which attention stays within each window.

Short texts are padded by a tenth and more of a batch. Packing works for models whose attention goes through the
attention functions of transformers and that accept position ids: that is tested, and other models are padded. This
module also has what makes padded batches fast on a GPU: the choice of the kernel and a mask with a known sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from theodolite.models.quirks import attends_locally, ignores_position_ids, independent_length
from theodolite.models.text_anatomy import Anatomy, make_probe

ATTENTION_NAME = "theodolite_end_to_end"
SHORT_WINDOW = 64
"""Windows of up to this many tokens on average are faster in the memory-efficient kernel than in flash."""
FAST_KERNELS = (
    "EFFICIENT_ATTENTION",
    "FLASH_ATTENTION",
    "CUDNN_ATTENTION",
    "MATH",
)  # for short windows, in this order


@dataclass(frozen=True)
class WindowSpans:
    """The starts of windows in a packed sequence, and the length of the longest."""

    starts: Tensor  # (windows + 1,) int32, on the model's device
    longest: int


_CURRENT_SPANS: list[WindowSpans] = []  # of the current forward pass


def attend_within_windows(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """Attend within each window. query, key, value: (1, heads, tokens, dim) -> (1, tokens, heads, dim)"""
    spans, limit = _CURRENT_SPANS[-1], more.get("sliding_window")
    unsupported = [
        name for name in ("softcap", "s_aux", "position_bias", "head_mask") if more.get(name) is not None
    ]
    if mask is not None or unsupported or (limit is not None and limit < spans.longest):
        raise NotImplementedError("only plain attention supports packed windows")
    causal = more.get("is_causal")
    causal = bool(getattr(module, "is_causal", True) if causal is None else causal)
    q, k, v = (part.transpose(1, 2) for part in (query, key, value))
    attend = _attend_in_kernel if q.is_cuda else _attend_one_by_one
    return attend(q, k, v, spans, causal, more.get("scaling")), None


def _attend_in_kernel(
    q: Tensor, k: Tensor, v: Tensor, spans: WindowSpans, causal: bool, scale: float | None
) -> Tensor:
    starts = spans.starts.to(q.device)  # blocks may be on other devices than the input
    sequences = (starts, starts, spans.longest, spans.longest)
    flash = q.dtype in (torch.bfloat16, torch.float16) and q.shape[3] % 8 == 0 and q.shape[3] <= 256
    short = q.shape[1] <= SHORT_WINDOW * (len(spans.starts) - 1)
    if flash and (not short or q.shape[2] != k.shape[2]):
        three = (part[0] for part in (q, k, v))
        found = torch.ops.aten._flash_attention_forward(*three, *sequences, 0.0, causal, False, scale=scale)[0]
        return found[None]  # type: ignore[no-any-return]
    if q.shape[2] != k.shape[2]:  # grouped-query attention
        k, v = (part.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for part in (k, v))
    made = torch.ops.aten._efficient_attention_forward(q, k, v, None, *sequences, 0.0, int(causal), scale=scale)
    return made[0]  # type: ignore[no-any-return]


def _attend_one_by_one(
    q: Tensor, k: Tensor, v: Tensor, spans: WindowSpans, causal: bool, scale: float | None
) -> Tensor:
    parts = []
    for begin, end in pairwise(spans.starts.tolist()):
        a, b, c = (part[:, begin:end].transpose(1, 2) for part in (q, k, v))
        one = scaled_dot_product_attention(
            a, b, c, is_causal=causal, scale=scale, enable_gqa=q.shape[2] != k.shape[2]
        )
        parts.append(one.transpose(1, 2))
    return torch.cat(parts, dim=1)


@contextmanager
def use_packed_attention(model: Any, spans: WindowSpans) -> Iterator[None]:
    """Let the model attend within these windows in this context."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, attend_within_windows)
    before = model.config._attn_implementation
    model.set_attn_implementation(ATTENTION_NAME)
    _CURRENT_SPANS.append(spans)
    try:
        yield
    finally:
        _CURRENT_SPANS.pop()
        model.set_attn_implementation(before)


def prefer_fast_kernel(device: torch.device, longest: int) -> AbstractContextManager[None]:
    """Use the fastest attention kernel for padded windows of up to `longest` tokens in this context.

    On newer GPUs PyTorch prefers cuDNN, which makes a plan for every new batch shape and is best for long windows:
    for short ones it reaches a quarter of this speed.
    """
    if device.type != "cuda" or longest > SHORT_WINDOW:
        return nullcontext()
    return sdpa_kernel([getattr(SDPBackend, name) for name in FAST_KERNELS], set_priority=True)


def can_pack(anatomy: Anatomy, begin: int, longest: int) -> bool:
    """Return whether packed windows give the same states as padded ones, up to rounding.

    `begin` is the position id of the first token of a window; no window has more than `longest` tokens.
    """
    config: Any = anatomy.model.config
    short = longest <= independent_length(config) and not attends_locally(config, longest)
    if getattr(config, "_attn_implementation", None) != "sdpa" or not short or ignores_position_ids(config):
        return False
    try:
        return _compare_packed(anatomy, begin)
    except Exception:  # whatever a model raises for these inputs, it can still be padded
        return False


def _compare_packed(anatomy: Anatomy, begin: int) -> bool:
    """Run three windows of different lengths, padded and packed."""
    probe = make_probe(anatomy.model)["input_ids"][0]
    lengths, device = (len(probe), 3, len(probe) - 1), probe.device
    ids, mask = (probe.new_zeros(3, len(probe)) for _ in range(2))
    for row, length in enumerate(lengths):
        ids[row, :length], mask[row, :length] = probe[:length].roll(row), 1
    held = mask.bool()
    padded: dict[int, Tensor] = {}
    packed: dict[int, Tensor] = {}
    layers = range(len(anatomy.layers))
    with anatomy.hook_layers(
        lambda index, states: padded.update({index: states[held.to(states.device)].float()}), layers
    ) as forward:
        forward(input_ids=ids, attention_mask=mask)
    spans = WindowSpans(
        torch.tensor([0, *np.cumsum(lengths).tolist()], dtype=torch.int32, device=device), max(lengths)
    )
    position = torch.arange(len(probe), device=device).expand_as(held)[held] + begin
    with (
        use_packed_attention(anatomy.model, spans),
        anatomy.hook_layers(lambda index, states: packed.update({index: states[0].float()}), layers) as forward,
    ):
        forward(input_ids=ids[held][None], position_ids=position[None])
    bound = torch.finfo(_dtype_of(anatomy)).eps ** 0.5
    return all(bool((_relative_distance(packed[index], padded[index]) < bound).all()) for index in layers)


def _dtype_of(anatomy: Anatomy) -> torch.dtype:
    """Return the precision of the states: quantized weights have another one."""
    model: Any = anatomy.model
    return cast(torch.dtype, model.dtype)


def _relative_distance(these: Tensor, those: Tensor) -> Tensor:
    """Return the distances of rows relative to their lengths. (rows, dim) each -> (rows,)"""
    length = torch.linalg.vector_norm(those, dim=1).clamp_min(1e-30)
    return torch.linalg.vector_norm(these - those, dim=1) / length  # type: ignore[no-any-return]


class PaddingMask(Tensor):
    """A mask of ones and zeros whose sum is known on the CPU; otherwise an ordinary tensor.

    Before every forward pass transformers checks whether there is any padding, to choose a faster kernel. For a
    tensor on a GPU that check waits for the previous batch, and then the GPU waits for the next one.

    >>> ones = torch.tensor([[1, 1], [1, 0]])
    >>> mask = PaddingMask.of(ones, ones)
    >>> bool(mask.to(torch.bool).all()), int(mask.sum()), type(mask + 1).__name__
    (False, 3, 'Tensor')
    """

    ones: int

    @classmethod
    def of(cls, on_device: Tensor, on_cpu: Tensor) -> PaddingMask:
        """Return the mask on the device, with the sum of its copy on the CPU."""
        return _to_mask(on_device, int(on_cpu.count_nonzero()))

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Answer from the known sum; keep it if only the type or the device changes."""
        if isinstance(args[0], PaddingMask) and len(args) == 1 and not kwargs:
            if func is Tensor.all:
                return torch.tensor(args[0].ones == args[0].numel())
            if func is Tensor.sum:
                return torch.tensor(args[0].ones)
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
        if func in (Tensor.to, Tensor.bool, Tensor.long) and isinstance(args[0], PaddingMask):
            return _to_mask(found, args[0].ones)
        return found


def _to_mask(tensor: Tensor, ones: int) -> PaddingMask:
    mask = tensor.as_subclass(PaddingMask)
    mask.ones = ones
    return mask
