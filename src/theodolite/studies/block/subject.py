"""The block under test: taken out of its model with all that the model hands it, and run on states of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.sources.taps import first_of
from theodolite.sources.text.anatomy import find_blocks
from theodolite.sources.text.norm import Norm, norm_of
from theodolite.studies.block.projections import Projections, Seen, rotated

SAME = 1e-4
"""How far weights may be from the block's own. Float32 leaves 1e-6; another rule for scores leaves 1e-1."""


@dataclass(frozen=True, eq=False)
class Subject:
    """One block, its place, and the arguments that its model calls it with for so many positions."""

    block: nn.Module
    layer: int  # 1 for the first block
    blocks: int
    table: Tensor  # (vocabulary, width of the table)
    dim: int
    positions: int
    projections: Projections
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    mask: Tensor | None  # (positions, positions), True where a row may look; None where it may look everywhere
    turn: tuple[Tensor, Tensor] | None  # cosines and sines of a rotation by position
    closing: Norm | None  # the norm whose output leaves the block

    @classmethod
    @torch.no_grad()
    def of(cls, model: Any, layer: int, positions: int) -> Subject:
        """Take a block out of a loaded model, and check that its attention is understood."""
        blocks, what = find_blocks(model), type(model).__name__
        if not 1 <= layer <= len(blocks):
            raise InputError(f"--layer {layer}: {what} has blocks 1 to {len(blocks)}.")
        _check_positions(model, positions)
        block = blocks[layer - 1]
        model.config._attn_implementation = "eager"  # so that the mask is handed over rather than understood
        model.config.use_cache = False  # keys of one pass would be there in the next
        dim, arguments, named = _called(model, block, positions)
        mask = _mask([*arguments, *named.values()], positions)
        projections = Projections.of(block, model.config, what)
        turn = named.get("position_embeddings")
        table = model.get_input_embeddings().weight
        made = cls(
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
            turn if isinstance(turn, tuple) else None,
            None,
        )
        made._check(what)
        closing = made._closing()
        model.config._attn_implementation = "sdpa"
        return cls(**{**made.__dict__, "closing": closing})

    @property
    def causal(self) -> bool:
        """Whether rows differ in how much they see."""
        return self.mask is not None

    @property
    def lengths(self) -> Tensor:
        """How many entries each row of the scores has. (positions,)"""
        if self.mask is None:
            return torch.full((self.positions,), self.positions)
        return self.mask.sum(dim=1)

    @torch.no_grad()
    def run(self, states: Tensor) -> Tensor:
        """Return what leaves the block. (sequences, positions, dim) -> the same"""
        out: Tensor = first_of(self.block(states, *self.arguments, **self.named))
        return out

    def watched(self, states: Tensor) -> tuple[Tensor, Seen]:
        """Return what leaves the block, and its queries and keys before rotation."""
        with self.projections.watched() as held:
            out = self.run(states)
        return out, self.projections.seen(held)

    def turned(self, vectors: Tensor) -> Tensor:
        """Return queries or keys as the scores see them. (sequences, heads, positions, width)"""
        return rotated(vectors, self.turn)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return q k^T times the block's scale of one sequence, +inf where masked. (heads, positions, width)"""
        shared = self.projections.heads // self.projections.key_heads
        keys = keys if shared == 1 else keys.repeat_interleave(shared, dim=0)
        found = torch.matmul(queries * self.projections.scale, keys.transpose(-1, -2))
        return found if self.mask is None else found.masked_fill_(~self.mask, torch.inf)

    def _check(self, what: str) -> None:
        """Refuse a block whose weights are not the softmax of our scores: it norms, caps or shifts them."""
        theirs: list[Any] = []
        hook = self.projections.attention.register_forward_hook(lambda module, args, output: theirs.append(output))
        random = torch.Generator().manual_seed(0)
        states = 3 * torch.randn(1, self.positions, self.dim, generator=random)
        try:
            _, seen = self.watched(states)
        finally:
            hook.remove()
        weights = theirs[0][1] if isinstance(theirs[0], tuple) and len(theirs[0]) > 1 else None
        if weights is None:
            raise InputError(f"{what}: its attention gives no weights to check the scores by.")
        scores = self.scores(self.turned(seen.queries)[0], self.turned(seen.keys)[0])
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask, -torch.inf)
        apart = float((scores.softmax(dim=-1) - weights[0]).abs().max())
        if not apart <= SAME:
            raise InputError(
                f"{what}: the softmax of q k^T/sqrt(d_k) is not what its attention uses (up to {apart:.2g} "
                "apart); blocks that norm, cap or shift their scores are not understood."
            )

    def _closing(self) -> Norm | None:
        """Return the norm whose output is the block's, value for value."""
        gave: list[tuple[nn.Module, Tensor]] = []
        hooks = [
            part.register_forward_hook(lambda module, args, output: gave.append((module, first_of(output))))
            for part in self.block.modules()
            if part is not self.block
        ]
        random = torch.Generator().manual_seed(1)
        try:
            out = self.run(torch.randn(1, self.positions, self.dim, generator=random))
        finally:
            for hook in hooks:
                hook.remove()
        last = [module for module, output in gave if isinstance(output, Tensor) and torch.equal(output, out)]
        return next((norm for module in last if (norm := norm_of(module, self.dim)) is not None), None)


def _check_positions(model: Any, positions: int) -> None:
    most = getattr(model.config, "max_position_embeddings", None)
    if positions < 2 or (most and positions > most):
        raise InputError(f"--length {positions}: wanted 2 to {most or 'any number of'} positions.")


def _called(model: Any, block: nn.Module, positions: int) -> tuple[int, tuple[Any, ...], dict[str, Any]]:
    """Return the width of the states that a block is called with, and all else that it is called with."""
    held: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def hold(module: nn.Module, args: Any, kwargs: Any) -> None:
        held.append((tuple(args), dict(kwargs)))
        raise _Enough

    hook = block.register_forward_pre_hook(hold, with_kwargs=True)
    try:
        model(input_ids=torch.ones(1, positions, dtype=torch.int64) * (model.config.vocab_size // 2))
    except _Enough:
        pass
    finally:
        hook.remove()
    arguments, named = held[0]
    states = arguments[0] if arguments else named.pop("hidden_states")
    return int(states.shape[-1]), arguments[1:], named


def _mask(given: list[Any], positions: int) -> Tensor | None:
    """Return which entries of the scores count; None for all. A model's mask is 0 or True where they do."""
    for value in given:
        if isinstance(value, Tensor) and value.shape[-2:] == (positions, positions):
            seen = value.reshape(-1, positions, positions)[0]
            seen = seen if seen.dtype == torch.bool else seen == 0
            return None if bool(seen.all()) else seen
    return None


class _Enough(Exception):  # noqa: N818 - no error: it ends a forward pass early
    pass
