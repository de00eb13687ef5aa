"""Where layers stand: which stack each belongs to, and how deep, so that models of unequal depth share an axis."""

from __future__ import annotations

import re
from typing import NamedTuple

from theodolite.studies.surveyed import Surveyed

STACKS = ("encoder", "decoder")


class Place(NamedTuple):
    """A layer's stack, "" where the model has but one, and its depth in the stack and in the whole model.

    Depth is 0 at the embeddings and 1 at the last block; the state after a final norm stands one layer further.
    """

    stack: str
    depth: float
    joined_depth: float


def stack_of(name: str) -> str:
    """Return the stack that a layer's name begins with.

    >>> stack_of("decoder block 3"), stack_of("block 3"), stack_of("decoder")
    ('decoder', '', '')
    """
    first, _, rest = name.partition(" ")
    return first if first in STACKS and rest else ""


def places(survey: Surveyed) -> dict[int, Place]:
    """Return where each surveyed layer stands, by its number.

    >>> names = {0: "embeddings", 6: "block 6", 13: "final norm"}
    >>> layers = [{"index": index, "name": name} for index, name in names.items()]
    >>> found = places(Surveyed({"model": {"blocks": 12}, "layers": layers}))
    >>> [round(place.depth, 3) for place in found.values()]
    [0.0, 0.5, 1.083]
    """
    names = survey.layer_names
    of = {layer: stack_of(name) for layer, name in names.items()}
    alone = len(set(of.values())) < 2
    ends = {
        stack: _ends({layer: name for layer, name in names.items() if of[layer] == stack}, _blocks(survey, stack))
        for stack in set(of.values())
    }
    whole = (min(first for first, _ in ends.values()), max(last for _, last in ends.values())) if ends else (0, 0)
    return {
        layer: Place(stack, _share(layer, *ends[stack]), _share(layer, *(ends[stack] if alone else whole)))
        for layer, stack in of.items()
    }


def _ends(names: dict[int, str], blocks: int | None) -> tuple[int, int]:
    """Return the numbers that the embeddings and the last block of a stack have, surveyed or not."""
    numbered = {layer: found for layer, name in names.items() if (found := _NUMBERED.search(name))}
    layer = max(numbered, default=-1)
    first = layer - int(numbered[layer][2]) if numbered else min(names)
    after = [layer for layer, name in names.items() if name.endswith("final norm")]
    if after:
        return first, after[0] - 1
    if numbered and numbered[layer][1] == "block" and blocks:
        return first, max(layer, first + blocks)
    return first, max(names)


_NUMBERED = re.compile(r"\b(block|stage) (\d+)$")


def _blocks(survey: Surveyed, stack: str) -> int | None:
    """Return how many blocks the model says it has, where it has one stack."""
    blocks = (survey.facts.get("model") or {}).get("blocks")
    return int(blocks) if blocks and not stack else None


def _share(layer: int, first: int, last: int) -> float:
    return (layer - first) / (last - first) if last > first else 0.0
