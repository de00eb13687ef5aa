"""Attention calls: the queries, keys and values with which a model calls its attention function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.errors import InputError

Attend = Callable[..., tuple[Tensor, Any]]
EAGER = "eager"  # not in the registry of transformers: each model has its own


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """One call of an attention function: what enters the scores, after rotation, and what comes out."""

    module: nn.Module
    query: Tensor  # (items, heads, positions, width)
    key: Tensor  # (items, key heads, positions, width)
    value: Tensor  # (items, key heads, positions, width)
    mask: Any  # as the implementation takes it: None, bool or added to the scores
    options: Mapping[str, Any]
    output: Tensor  # (items, positions, heads, width)

    @property
    def scale(self) -> float:
        """What the products of queries and keys are multiplied with."""
        scale = self.options.get("scaling")
        return float(self.query.shape[-1] ** -0.5 if scale is None else scale)

    @property
    def causal(self) -> bool:
        """Whether a position sees only those before it, if there is no mask."""
        given = self.options.get("is_causal")
        return bool(getattr(self.module, "is_causal", True) if given is None else given)

    def scores(self, item: int, heads: slice, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
        """Return the logits of some queries of one item, and which of them count. (heads, rows, columns) both

        The logits are float32, with the scale and a bias of relative positions; masked ones have any value.
        """
        shared = self.query.shape[1] // self.key.shape[1]
        of_key = torch.arange(heads.start, heads.stop, device=self.key.device) // shared
        query = self.query[item, heads, rows].float()
        logits = query @ self.key[item, of_key, columns].float().transpose(-1, -2) * self.scale
        if (softcap := self.options.get("softcap")) is not None:
            logits = (logits / softcap).tanh() * softcap
        if (bias := self.options.get("position_bias")) is not None:
            logits = logits + bias[item if len(bias) > 1 else 0, heads, rows, columns].float()
        allowed = self._seen(rows, columns)
        if isinstance(self.mask, Tensor) and self.mask.dim() == 4:
            mask = self.mask[item if len(self.mask) > 1 else 0]
            one = slice(0, 1)  # an axis of size 1 is the same for all heads, or for all rows
            mask = mask[heads if len(mask) > 1 else one, rows if mask.shape[1] > 1 else one, columns]
            if mask.dtype == torch.bool:
                return logits, mask.expand_as(logits)
            allowed = mask > torch.finfo(mask.dtype).min / 2
            logits = logits + torch.where(allowed, mask, 0.0).float()
        return logits, allowed.expand_as(logits)

    def _seen(self, rows: slice, columns: slice) -> Tensor:
        """Return which columns a row sees without a mask. (rows, columns)"""
        row = torch.arange(rows.start, rows.stop, device=self.query.device)[:, None]
        column = torch.arange(columns.start, columns.stop, device=self.query.device)[None]
        seen = row >= column if self.causal else torch.ones_like(row >= column)
        limit = self.options.get("sliding_window")
        return seen & (row - column < limit) if limit is not None else seen


@contextmanager
def intercept_attention(on_call: Callable[[AttentionCall], None]) -> Iterator[None]:
    """Call `on_call` after every call of an attention function in this context; nothing else changes."""
    from transformers import AttentionInterface

    functions = AttentionInterface._global_mapping
    before = dict(functions)
    for name in (*before, EAGER):
        AttentionInterface.register(name, _reporting(before.get(name), on_call))
    try:
        yield
    finally:
        functions.clear()
        functions.update(before)


def _reporting(function: Attend | None, on_call: Callable[[AttentionCall], None]) -> Attend:
    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any = None, *args: Any, **options: Any
    ) -> tuple[Tensor, Any]:
        own = function or _find_eager(module)
        made: tuple[Tensor, Any] = own(module, query, key, value, mask, *args, **options)
        on_call(AttentionCall(module, query, key, value, mask, options, made[0]))
        return made

    return attend


def _find_eager(module: nn.Module) -> Attend:
    """Return the eager attention of a model, which is in the module of its class, or of one that it inherits."""
    for kind in type(module).__mro__:
        found: Attend | None = vars(sys.modules[kind.__module__]).get("eager_attention_forward")
        if found is not None:
            return found
    raise InputError(f"attention: {type(module).__name__} has no eager attention function in its module.")
