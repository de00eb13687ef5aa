"""Windows laid end to end: a forward pass without padding, in which attention sees each window alone.

What it would bring is measured by `python -m benchmarks.survey_gpu --parts packed`. It holds for models whose
attention goes through transformers' table of attention functions and whose positions can be given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from theodolite.batch import Batch
from theodolite.pinned import sent
from theodolite.sources.text.source import TextBatch, TextSource

NAME = "theodolite_end_to_end"


@dataclass(frozen=True)
class Spans:
    """Where windows begin among tokens laid end to end."""

    starts: Tensor  # (windows + 1,) int32
    longest: int


_SPANS: list[Spans] = []  # of the forward pass under way


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, **more: Any
) -> tuple[Tensor, None]:
    """Attend within each window. query, key, value: (1, heads, tokens, dim) -> (1, tokens, heads, dim)"""
    if mask is not None or more.get("sliding_window") is not None or more.get("softcap") is not None:
        raise NotImplementedError("only plain attention is laid end to end")
    spans, causal = _SPANS[-1], bool(getattr(module, "is_causal", False))
    q, k, v = (part[0].transpose(0, 1).contiguous() for part in (query, key, value))
    if q.is_cuda:
        reach = (spans.starts, spans.starts, spans.longest, spans.longest)
        out = torch.ops.aten._flash_attention_forward(q, k, v, *reach, 0.0, causal, False, scale=scaling)[0]
        return out[None], None
    parts = []
    for begin, end in pairwise(spans.starts.tolist()):
        three = (part[begin:end].transpose(0, 1) for part in (q, k, v))
        one = torch.nn.functional.scaled_dot_product_attention(
            *three, is_causal=causal, scale=scaling, enable_gqa=q.shape[1] != k.shape[1]
        )
        parts.append(one.transpose(0, 1))
    return torch.cat(parts)[None], None


@contextmanager
def laid_end_to_end(model: Any) -> Iterator[None]:
    """Have the model attend within windows meanwhile."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attention)
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def plain_attention(model: Any) -> Iterator[None]:
    """Have it attend as it does by itself, within `laid_end_to_end` too."""
    now = model.config._attn_implementation
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(now)


class EndToEnd(TextSource):
    """A source whose batches are run without their padding."""

    @classmethod
    def of(cls, source: TextSource) -> EndToEnd:
        """Return such a source with the same model."""
        other = copy(source)
        other.__class__ = cls
        return other  # type: ignore[return-value]

    def run(self, prepared: TextBatch, sink: Any) -> None:
        """One forward pass over (1, tokens)."""
        held = prepared.mask.bool()
        lengths = held.sum(dim=1)
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        place = held.flatten().cumsum(0) - 1
        position = torch.arange(held.shape[1]).expand_as(held)[held]
        there = partial(sent, device=self.device)
        rows = there(place[prepared.rows])
        _SPANS.append(Spans(there(starts.int()), int(lengths.max())))
        wanted = [layer.index for layer in self.layers]

        def take(index: int, states: Tensor) -> None:
            sink(Batch(index, states.flatten(0, 1), prepared.places, rows))

        try:
            with self.anatomy.watched(take, wanted) as forward:
                forward(input_ids=there(prepared.ids[held][None]), position_ids=there(position[None]))
        finally:
            _SPANS.pop()
