"""Where the layer norm stands in a block, read from the running model by where norms act, not by their names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from theodolite.sources.text.anatomy import Anatomy
from theodolite.sources.text.norm import Norm, norm_of
from theodolite.sources.text.watching import Call, Pass, watch

STANDS = {
    "post": "the sum of the stream and a sublayer is normed, so that a norm's output leaves the block (BERT)",
    "pre": "sublayers read the stream through a norm and add to the stream itself (GPT-2, Llama)",
    "sandwich": "sublayers read through a norm, and what they give is normed again (Gemma 2)",
    "parallel": "attention and feed-forward read the same stream through a norm and are added together (GPT-J)",
    "branch": "only what a sublayer gives is normed, before it is added to the stream (OLMo 2)",
    "none": "no norm acts in the block",
}


@dataclass(frozen=True, eq=False)
class Placement:
    """One word for the blocks (None if it cannot be told), and the norm that each layer's state leaves."""

    word: str | None
    leaving: dict[int, Norm]  # by layer; a layer that leaves no norm is not in it


def placement_of(anatomy: Anatomy) -> Placement:
    """Read a model's placement from two forward passes over a few tokens.

    The second pass gives every block the first one's input with the first row exchanged: what changes in other
    rows has been through attention. Norms are modules that behave as one; a norm that a block does without a
    module is not seen. Where blocks differ, as ModernBERT's first from the rest, the word is that of most.
    """
    if len(anatomy.stacks) > 1:  # an encoder and a decoder may differ; which is told of would be a guess
        return Placement(None, {})
    seen = watch(anatomy)
    other = watch(anatomy, entered=seen.entered)
    known = _Norms()
    words = [
        _word(seen.entered[k][1:], seen.left[k][1:], _calls(seen, k), known, _mixed(seen, other, k))
        for k in range(len(anatomy.blocks))
    ]
    return Placement(Counter(words).most_common(1)[0][0], _leaving(anatomy, seen, known))


def _leaving(anatomy: Anatomy, seen: Pass, known: _Norms) -> dict[int, Norm]:
    """Return, by layer, the norm whose output is the layer's state, value for value."""
    found: dict[int, Norm | None] = {0: _gave(seen.outside, seen.entered[0], known)}
    for k in range(len(anatomy.blocks)):
        found[k + 1] = _gave(_calls(seen, k), seen.left[k][1:], known)
    if anatomy.final_norm is not None:
        layer = anatomy.layers[-1]
        found[layer.index] = norm_of(anatomy.final_norm, layer.dim)
    return {layer: norm for layer, norm in found.items() if norm is not None}


class _Norms:
    """What each module does if it is a norm; every module is tried once."""

    def __init__(self) -> None:
        self._tried: dict[int, Norm | None] = {}

    def of(self, call: Call) -> Norm | None:
        key = id(call.module)
        if key not in self._tried:
            self._tried[key] = norm_of(call.module, call.gave.shape[-1]) if call.alone else None
        return self._tried[key]


def _gave(calls: Sequence[Call], state: Tensor, known: _Norms) -> Norm | None:
    for call in calls:
        if torch.equal(call.gave, state) and (norm := known.of(call)) is not None:
            return norm
    return None


def _calls(seen: Pass, block: int) -> list[Call]:
    """Return a block's calls without their first row, which a massive norm may fill."""
    return [call.without_first() for call in seen.calls[block]]


def _mixed(seen: Pass, other: Pass, block: int) -> list[bool]:
    """Say of each call whether other rows than the exchanged one changed. A call that did not come back has."""
    again = {call.key: call.without_first().gave for call in other.calls[block]}
    return [not _near(call.without_first().gave, again.get(call.key)) for call in seen.calls[block]]


def _word(entered: Tensor, left: Tensor, calls: list[Call], known: _Norms, mixed: list[bool]) -> str | None:
    norms = [call for call in calls if known.of(call) is not None]
    if not norms:
        return "none"
    outputs = [call.gave for call in calls]
    reads = [given for call in calls for given in call.given]
    closes = any(torch.equal(norm.gave, left) for norm in norms)
    before = any(
        torch.equal(norm.given[0], entered) or _made_of_one(left - norm.given[0], outputs) for norm in norms
    )
    after = any(
        any(torch.equal(norm.given[0], gave) for gave in outputs)
        and any(_near(left - norm.gave, stream) for stream in [entered, *reads])
        for norm in norms
    )
    if closes:
        return "sandwich" if before else "post"
    if _parallel(left - entered, outputs, mixed):
        return "parallel"
    if before:
        return "sandwich" if after else "pre"
    return "branch" if after else None


def _parallel(added: Tensor, outputs: list[Tensor], mixed: list[bool]) -> bool:
    """Say whether a block adds two things, one of which has not been through attention."""
    through = [gave for gave, yes in zip(outputs, mixed, strict=True) if yes]
    past = [gave for gave, yes in zip(outputs, mixed, strict=True) if not yes]
    return any(_made_of(added, [one, two]) for one in through for two in past)


def _made_of_one(added: Tensor, outputs: list[Tensor]) -> bool:
    return any(_made_of(added, [gave]) for gave in outputs)


def _made_of(added: Tensor, parts: list[Tensor]) -> bool:
    """Say whether a tensor is a sum of parts, each times a number: some models scale what a sublayer gives."""
    columns = torch.stack([part.flatten() for part in parts], dim=1).double()
    target = added.flatten().double()
    if not (columns.isfinite().all() and target.isfinite().all() and columns.any(dim=0).all()):
        return False
    columns /= columns.norm(dim=0)
    weights = torch.linalg.lstsq(columns.T @ columns, (columns.T @ target)[:, None]).solution[:, 0]
    rest = (target - columns @ weights).norm()
    needed = bool((weights.abs() > 1e-3 * target.norm()).all())
    return needed and bool(rest <= _tolerance(added) * target.norm())


def _near(one: Tensor, other: Tensor | None) -> bool:
    if other is None or one.shape != other.shape:
        return False
    return bool((one - other).norm() <= _tolerance(one) * one.norm())


def _tolerance(states: Tensor) -> float:
    """Return how far sums may be apart by rounding: 3e-4 in float32."""
    return math.sqrt(torch.finfo(states.dtype).eps)
