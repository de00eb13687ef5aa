"""Queries and keys of a block: where its projections are, how they fall into heads, how they are turned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.sources.taps import entered

PAIRS = (("query", "key"), ("q_proj", "k_proj"), ("q_lin", "k_lin"), ("q", "k"))  # BERT; Llama; DistilBERT; T5
FUSED = "c_attn"  # GPT-2: queries, keys and values side by side
BY_HEAD = "query_key_value"  # GPT-NeoX, Bloom: the same, but head by head


class Seen(NamedTuple):
    """What one pass through a block shows: what the projections read, queries and keys.

    reads: (sequences, positions, dim); queries: (sequences, heads, positions, width); keys with fewer heads where
    several queries share one.
    """

    reads: Tensor
    queries: Tensor
    keys: Tensor


@dataclass(frozen=True, eq=False)
class Projections:
    """The modules that make queries and keys, and how many heads they make."""

    attention: nn.Module
    modules: tuple[nn.Module, ...]  # of queries and of keys, or one for both
    heads: int
    key_heads: int
    scale: float

    @classmethod
    def of(cls, block: nn.Module, config: Any, what: str) -> Projections:
        """Find them in a block; cross-attention is not looked at."""
        for name, part in block.named_modules():
            if "cross" in name.lower():
                continue
            found = _modules(part)
            if found:
                return cls._counted(part, found, config)
        names = ", ".join("/".join(pair) for pair in PAIRS)
        raise InputError(
            f"{what}: no queries and keys were found in its block; looked for {names}, {FUSED} and {BY_HEAD}."
        )

    @classmethod
    def _counted(cls, attention: nn.Module, modules: tuple[nn.Module, ...], config: Any) -> Projections:
        heads = int(config.num_attention_heads)
        key_heads = int(getattr(config, "num_key_value_heads", None) or heads)
        width = _wide(modules[0]) // (heads if len(modules) == 2 else 3 * heads)
        scale = getattr(attention, "scaling", None)
        return cls(attention, modules, heads, key_heads, width**-0.5 if scale is None else float(scale))

    @contextmanager
    def watched(self) -> Iterator[list[Tensor]]:
        """While open, what the projections read and give is put into the list, in the order in which they run."""
        held: list[Tensor] = []

        def keep(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
            held.extend([entered(args, kwargs), output])

        hooks = [module.register_forward_hook(keep, with_kwargs=True) for module in self.modules]
        try:
            yield held
        finally:
            for hook in hooks:
                hook.remove()

    def seen(self, held: list[Tensor]) -> Seen:
        """Cut what was held into heads."""
        return Seen(held[0], *self._heads(held[1::2]))

    def expected(self, mean: Tensor) -> tuple[Tensor, Tensor]:
        """Return W mean + b of queries and keys in float64. (dim,) -> (heads, width), (key heads, width)"""
        given = [module(mean.double()[None, None]) for module in self._wide]
        queries, keys = self._heads(given)
        return queries[0, :, 0], keys[0, :, 0]

    @cached_property
    def _wide(self) -> list[nn.Module]:
        """The projections in float64."""
        return [deepcopy(module).double() for module in self.modules]

    def _heads(self, given: list[Tensor]) -> tuple[Tensor, Tensor]:
        if len(given) == 1 and getattr(self.attention, BY_HEAD, None) is self.modules[0]:
            queries, keys = _split(given[0], self.heads).chunk(3, dim=-1)[:2]
            return queries, keys
        queries, keys = given[0].chunk(3, dim=-1)[:2] if len(given) == 1 else given
        return _split(queries, self.heads), _split(keys, self.key_heads)


def rotated(vectors: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
    """Turn queries or keys by their positions, first half against second. (..., positions, width)"""
    if turn is None:
        return vectors
    cos, sin = (part[:, None].to(vectors.dtype) for part in turn)  # (1, 1, positions, width)
    first, second = vectors.chunk(2, dim=-1)
    return vectors * cos + torch.cat([-second, first], dim=-1) * sin


def _modules(part: nn.Module) -> tuple[nn.Module, ...]:
    for pair in PAIRS:
        if all(isinstance(getattr(part, name, None), nn.Module) for name in pair):
            return tuple(getattr(part, name) for name in pair)
    fused = getattr(part, FUSED, None)
    if isinstance(fused, nn.Module):
        return (fused,)
    by_head: Any = getattr(part, BY_HEAD, None)  # where heads share keys, as in Falcon, it lies otherwise
    whole = isinstance(by_head, nn.Linear) and by_head.out_features == 3 * by_head.in_features
    return (by_head,) if whole else ()


def _wide(module: nn.Module) -> int:
    """Return how many numbers a projection gives; GPT-2's is no Linear and calls it nf."""
    wide: Any = getattr(module, "out_features", None) or getattr(module, "nf", None)
    return int(wide)


def _split(vectors: Tensor, heads: int) -> Tensor:
    """(sequences, positions, heads * width) -> (sequences, heads, positions, width)"""
    return vectors.reshape(*vectors.shape[:-1], heads, -1).transpose(1, 2)
