"""One block taken out of its model: its queries and keys, its scores, and running it on given states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.models.hooks import first_input, first_tensor
from theodolite.models.norms import Norm, identify_norm
from theodolite.models.projections import LOOKED_FOR, Projection, find_projections
from theodolite.models.text_anatomy import find_blocks

TOLERANCE = 1e-4
"""Maximum difference from the block's own attention weights. Float32 gives 1e-6, another rule for scores 1e-1."""


class QueriesAndKeys(NamedTuple):
    """The input of the projections, and the queries and keys, of one pass through a block.

    reads: (sequences, positions, dim); queries: (sequences, heads, positions, width); keys have fewer heads if
    several queries share one.
    """

    reads: Tensor
    queries: Tensor
    keys: Tensor


@dataclass(frozen=True, eq=False)
class QueryKeyProjections:
    """The modules that compute queries and keys, and their numbers of heads."""

    attention: nn.Module
    parts: dict[str, Projection]  # "q", "k" and "v"
    heads: int
    key_heads: int
    scale: float

    @classmethod
    def of(cls, block: nn.Module, config: Any, what: str) -> QueryKeyProjections:
        """Find the projections of a block; cross-attention is ignored."""
        heads = int(config.num_attention_heads)
        key_heads = int(getattr(config, "num_key_value_heads", None) or heads)
        for name, part in block.named_modules():
            if "cross" in name.lower():
                continue
            parts = find_projections(part, heads, key_heads)
            if parts:
                scale = getattr(part, "scaling", None)
                width = parts["q"].width
                return cls(part, parts, heads, key_heads, width**-0.5 if scale is None else float(scale))
        raise InputError(f"{what}: no query and key projections were found in its block; looked for {LOOKED_FOR}.")

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """One module for queries and one for keys, or one for both."""
        return tuple(dict.fromkeys((self.parts["q"].module, self.parts["k"].module)))

    @contextmanager
    def capture(self) -> Iterator[list[Tensor]]:
        """Append the inputs and outputs of the projections to the list, in the order in which they run."""
        captured: list[Tensor] = []

        def keep(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
            captured.extend([first_input(args, kwargs), output])

        hooks = [module.register_forward_hook(keep, with_kwargs=True) for module in self.modules]
        try:
            yield captured
        finally:
            for hook in hooks:
                hook.remove()

    def split_heads(self, captured: list[Tensor]) -> QueriesAndKeys:
        """Split captured outputs into heads."""
        return QueriesAndKeys(captured[0], *self._heads(captured[1::2]))

    def expected(self, mean: Tensor) -> tuple[Tensor, Tensor]:
        """Return W mean + b of queries and keys in float64. (dim,) -> (heads, width), (key heads, width)"""
        outputs = [module(mean.double()[None, None]) for module in self._float64_modules]
        queries, keys = self._heads(outputs)
        return queries[0, :, 0], keys[0, :, 0]

    @cached_property
    def _float64_modules(self) -> list[nn.Module]:
        """The projections in float64."""
        return [deepcopy(module).double() for module in self.modules]

    def _heads(self, outputs: list[Tensor]) -> tuple[Tensor, Tensor]:
        return self.parts["q"].split(outputs[0]), self.parts["k"].split(outputs[-1])


def rotate(vectors: Tensor, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
    """Apply rotary position embeddings to queries or keys, halves paired. (..., positions, width)"""
    if rotation is None:
        return vectors
    cos, sin = (part[:, None].to(vectors.dtype) for part in rotation)  # (1, 1, positions, width)
    first, second = vectors.chunk(2, dim=-1)
    return vectors * cos + torch.cat([-second, first], dim=-1) * sin


@dataclass(frozen=True, eq=False)
class IsolatedBlock:
    """One block of a model, and the arguments that the model calls it with for a given number of positions."""

    block: nn.Module
    layer: int  # 1 for the first block
    blocks: int
    table: Tensor  # (vocabulary, width of the table)
    dim: int
    positions: int
    projections: QueryKeyProjections
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    mask: Tensor | None  # (positions, positions), True where a row may attend; None if it may attend everywhere
    rotation: tuple[Tensor, Tensor] | None  # cosines and sines of rotary position embeddings
    closing_norm: Norm | None  # the norm whose output is the output of the block

    @classmethod
    @torch.no_grad()
    def of(cls, model: Any, layer: int, positions: int) -> IsolatedBlock:
        """Take a block out of a loaded model, and check that its attention is supported."""
        blocks, what = find_blocks(model), type(model).__name__
        if not 1 <= layer <= len(blocks):
            raise InputError(f"--layer {layer}: {what} has blocks 1 to {len(blocks)}.")
        _check_positions(model, positions)
        block = blocks[layer - 1]
        model.config._attn_implementation = "eager"  # so that the model passes an explicit mask to the block
        model.config.use_cache = False  # otherwise keys of one pass would be used in the next
        dim, arguments, named = _capture_call(model, block, positions)
        mask = _find_mask([*arguments, *named.values()], positions)
        projections = QueryKeyProjections.of(block, model.config, what)
        rotation = named.get("position_embeddings")
        table = model.get_input_embeddings().weight
        isolated = cls(
            block,
            layer,
            len(blocks),
            table,
            dim,
            positions,
            projections,
            arguments,
            named,
            mask,
            rotation if isinstance(rotation, tuple) else None,
            None,
        )
        isolated._check(what)
        closing_norm = isolated._find_closing_norm()
        model.config._attn_implementation = "sdpa"
        return cls(**{**isolated.__dict__, "closing_norm": closing_norm})

    @property
    def causal(self) -> bool:
        """Whether the rows of the scores have different numbers of entries."""
        return self.mask is not None

    @property
    def lengths(self) -> Tensor:
        """Number of entries of each row of the scores. (positions,)"""
        if self.mask is None:
            return torch.full((self.positions,), self.positions)
        return self.mask.sum(dim=1)

    @torch.no_grad()
    def run(self, states: Tensor) -> Tensor:
        """Return the output of the block. (sequences, positions, dim) -> the same shape"""
        out: Tensor = first_tensor(self.block(states, *self.arguments, **self.named))
        return out

    def run_and_capture(self, states: Tensor) -> tuple[Tensor, QueriesAndKeys]:
        """Return the output of the block, and its queries and keys before rotation."""
        with self.projections.capture() as captured:
            out = self.run(states)
        return out, self.projections.split_heads(captured)

    def rotate(self, vectors: Tensor) -> Tensor:
        """Return queries or keys as they enter the scores. (sequences, heads, positions, width)"""
        return rotate(vectors, self.rotation)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return q k^T times the scale for one sequence, +inf where masked. (heads, positions, width)"""
        shared = self.projections.heads // self.projections.key_heads
        keys = keys if shared == 1 else keys.repeat_interleave(shared, dim=0)
        scores = torch.matmul(queries * self.projections.scale, keys.transpose(-1, -2))
        return scores if self.mask is None else scores.masked_fill_(~self.mask, torch.inf)

    def _check(self, what: str) -> None:
        """Raise if the block's attention weights are not the softmax of the scores of this class."""
        outputs: list[Any] = []
        hook = self.projections.attention.register_forward_hook(
            lambda module, args, output: outputs.append(output)
        )
        random = torch.Generator().manual_seed(0)
        states = 3 * torch.randn(1, self.positions, self.dim, generator=random)
        try:
            _, captured = self.run_and_capture(states)
        finally:
            hook.remove()
        weights = outputs[0][1] if isinstance(outputs[0], tuple) and len(outputs[0]) > 1 else None
        if weights is None:
            raise InputError(f"{what}: its attention returns no weights, so the scores cannot be checked.")
        scores = self.scores(self.rotate(captured.queries)[0], self.rotate(captured.keys)[0])
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask, -torch.inf)
        difference = float((scores.softmax(dim=-1) - weights[0]).abs().max())
        if not difference <= TOLERANCE:
            raise InputError(
                f"{what}: its attention weights differ from the softmax of q k^T/sqrt(d_k) by up to "
                f"{difference:.2g}. Blocks that norm, cap or shift their scores are not supported."
            )

    def _find_closing_norm(self) -> Norm | None:
        """Return the norm whose output equals the output of the block."""
        outputs: list[tuple[nn.Module, Tensor]] = []
        hooks = [
            part.register_forward_hook(lambda module, args, output: outputs.append((module, first_tensor(output))))
            for part in self.block.modules()
            if part is not self.block
        ]
        random = torch.Generator().manual_seed(1)
        try:
            out = self.run(torch.randn(1, self.positions, self.dim, generator=random))
        finally:
            for hook in hooks:
                hook.remove()
        last = [module for module, output in outputs if isinstance(output, Tensor) and torch.equal(output, out)]
        return next((norm for module in last if (norm := identify_norm(module, self.dim)) is not None), None)


def _check_positions(model: Any, positions: int) -> None:
    most = getattr(model.config, "max_position_embeddings", None)
    if positions < 2 or (most and positions > most):
        limit = f"between 2 and {most}" if most else "at least 2"
        raise InputError(f"--length must be {limit} positions (got {positions}).")


def _capture_call(model: Any, block: nn.Module, positions: int) -> tuple[int, tuple[Any, ...], dict[str, Any]]:
    """Return the width of the states that the model passes to a block, and its other arguments."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def capture(module: nn.Module, args: Any, kwargs: Any) -> None:
        calls.append((tuple(args), dict(kwargs)))
        raise _StopForward

    hook = block.register_forward_pre_hook(capture, with_kwargs=True)
    try:
        model(input_ids=torch.ones(1, positions, dtype=torch.int64) * (model.config.vocab_size // 2))
    except _StopForward:
        pass
    finally:
        hook.remove()
    arguments, named = calls[0]
    states = arguments[0] if arguments else named.pop("hidden_states")
    return int(states.shape[-1]), arguments[1:], named


def _find_mask(arguments: list[Any], positions: int) -> Tensor | None:
    """Return which entries of the scores count, None for all. The mask of a model is 0 or True where they do."""
    for value in arguments:
        if isinstance(value, Tensor) and value.shape[-2:] == (positions, positions):
            mask = value.reshape(-1, positions, positions)[0]
            mask = mask if mask.dtype == torch.bool else mask == 0
            return None if bool(mask.all()) else mask
    return None


class _StopForward(Exception):  # noqa: N818 - not an error: it ends a forward pass early
    pass
