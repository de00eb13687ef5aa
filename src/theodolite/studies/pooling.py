"""One vector per sentence: how its positions are pooled, and which, since sinks would outweigh all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.engines.progress import Listener
from theodolite.errors import InputError, nearest
from theodolite.models.layers import Layer
from theodolite.state.pilot import MASSIVE
from theodolite.statistics.cells import POPULATIONS
from theodolite.studies.sentences import SentenceReader, TokenStates, shorten

POOLINGS = ("first", "mean", "last", "max", "cls")
"""The state of the first token, the mean over tokens, the state of the last token, the maximum per coordinate, the
state of the classification token."""
DEFAULT_POOLING = "mean"
"""For all laboratories: it is defined for every model, and includes all of a sentence also in causal models."""
SINGLE = ("first", "last", "cls")
"""Poolings that take the state of one position, to which populations do not apply."""
ALL, WITHOUT_SINKS = "all", "without-sinks"
MOST = 0.5
"""A share of the squared length above this is most of it."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """One float32 vector per sentence at each layer, and what was pooled."""

    vectors: dict[int, Tensor]  # by the number of the layer: (sentences, dim)
    population: str
    positions: int  # of all sentences and stacks
    sinks: int  # positions among them that are massive at any layer
    warnings: list[str] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        """Return what laboratory.json says about the positions."""
        return {
            "populations": [self.population],
            "positions": {"read": self.positions, "sinks": self.sinks},
        }


def embed_sentences(
    model: Any,
    tokenizer: Any,
    sentences: Sequence[str],
    layers: str | Sequence[int] | None,
    how: str,
    *,
    special: bool = True,
    truncate: bool = False,
    batch_tokens: int = 4096,
    population: str = ALL,
) -> dict[int, Tensor]:
    """Return one float32 vector for each sentence at each layer, by the layer's number. (sentences, dim)

    `layers` is "0,6,-1", "0-3", numbers, or None for all. Special tokens are included: the first token of a BERT
    model is [CLS], the last is [SEP]. `special=False` excludes them. A sentence longer than the window of the
    model raises InputError, or is truncated with `truncate=True`.
    """
    reader = SentenceReader(model, tokenizer, layers=layers, truncate=truncate, batch_tokens=batch_tokens)
    return embed_with_reader(reader, sentences, how, special=special, population=population).vectors


def embed_with_reader(
    reader: SentenceReader,
    sentences: Sequence[str],
    how: str,
    *,
    special: bool = True,
    population: str | None = None,
) -> Embedded:
    """Pool the states of sentences over a population of positions, by default without sinks if there are any.

    The first pass reads all layers, whose norms show which positions are sinks. A second pass is made only if a
    population other than all positions is pooled. Memory: the norms of all positions, and the pooled vectors.
    """
    check_pooling(how, population)
    place = find_cls(reader.tokenizer, special=special) if how == "cls" else how
    whole, norms = reader.with_all_layers(), PositionNorms(special=special)
    made = _Pooler(reader, len(sentences), place, special=special)

    def take(rows: TokenStates) -> None:
        norms.add(rows)
        made.add(rows, None)

    whole.read(sentences, take)
    found = norms.finish(whole.layers)
    chosen = population or (WITHOUT_SINKS if found.sinks and how not in SINGLE else ALL)
    if chosen != ALL:
        made = _Pooler(reader, len(sentences), place, special=special)
        reader.read(sentences, lambda rows: made.add(rows, found.keep(rows, chosen)))
        if (missing := found.find_empty(chosen, reader.layers)) is not None:
            raise InputError(
                f"Sentence {missing + 1} ({shorten(sentences[missing])}) has no position in the population "
                f"{chosen}; use longer sentences or --population all."
            )
    warnings = found.warn_of_sinks(how, place) if how in SINGLE else found.warn_of_length(chosen, reader.layers)
    return Embedded(made.vectors, chosen, found.positions, found.sinks, warnings)


class _Pooler:
    """Collects the pooled vectors of the layers of a reader; rows of other layers are ignored."""

    def __init__(self, reader: SentenceReader, sentences: int, how: str, *, special: bool) -> None:
        self.vectors = {layer.index: torch.full((sentences, layer.dim), torch.nan) for layer in reader.layers}
        self._how, self._special = how, special

    def add(self, rows: TokenStates, kept: Tensor | None) -> None:
        """Pool the rows of complete sentences; a sentence without rows stays NaN."""
        if rows.layer not in self.vectors:
            return
        mask = torch.ones_like(rows.special) if self._special else ~rows.special
        mask = mask if kept is None else mask & kept
        if mask.any():  # a decoder that is fed only its start token has none
            number, pooled = pool_states(rows.states[mask], rows.sentence[mask], rows.position[mask], self._how)
            self.vectors[rows.layer][number] = pooled.float()


class PositionNorms:
    """Collects the norms of all positions at all layers."""

    def __init__(self, *, special: bool = True) -> None:
        self._special = special
        self._parts: dict[int, list[tuple[Tensor, ...]]] = {}

    def add(self, rows: TokenStates) -> None:
        """Add the rows of one layer of a batch."""
        norms = torch.linalg.vector_norm(rows.states.double(), dim=-1).cpu()
        pooled = torch.ones_like(rows.special) if self._special else ~rows.special
        self._parts.setdefault(rows.layer, []).append((norms, rows.sentence, rows.position, pooled))

    def finish(self, layers: Sequence[Layer]) -> Positions:
        """Return the norms by stack; layers whose rows are not tokens have other positions and stand alone."""
        stacks: dict[str, StackNorms] = {}
        stack_of = {}
        for layer in layers:
            columns = [torch.cat(part) for part in zip(*self._parts[layer.index], strict=True)]
            name = layer.stack if layer.units else f"layer {layer.index}"
            stack_of[layer.index] = name
            if name not in stacks:  # all layers of a stack have the same positions in the same order
                sentence, position, pooled = (part.numpy() for part in columns[1:])
                stacks[name] = StackNorms(sentence, position, pooled)
            stacks[name].norms[layer.index] = columns[0].numpy()
        return Positions(stacks, stack_of)


@dataclass(eq=False)
class StackNorms:
    """The positions of one stack of a model, and their norms by layer. (positions,) each"""

    sentence: NDArray[np.int64]
    position: NDArray[np.int64]
    pooled: NDArray[np.bool_]  # not special, if special tokens are excluded
    norms: dict[int, NDArray[np.float64]] = field(default_factory=dict)

    @cached_property
    def sinks(self) -> NDArray[np.bool_]:
        """Which positions are sinks. (positions,)"""
        return find_sinks(np.stack(list(self.norms.values())))

    def kept(self, population: str, layer: int) -> NDArray[np.bool_]:
        """Return which positions are in a population at a layer. (positions,)"""
        if population == "without-first":
            return np.asarray(self.position > 0)
        if population == "without-massive":
            return ~find_massive(self.norms[layer])
        return ~self.sinks if population == WITHOUT_SINKS else np.ones(len(self.position), dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Positions:
    """The positions of all sentences by stack, and the stack of each layer."""

    stacks: dict[str, StackNorms]
    stack_of: dict[int, str]

    @property
    def positions(self) -> int:
        """Number of positions."""
        return sum(len(stack.position) for stack in self.stacks.values())

    @property
    def sinks(self) -> int:
        """Number of positions that are sinks."""
        return sum(int(stack.sinks.sum()) for stack in self.stacks.values())

    def keep(self, rows: TokenStates, population: str) -> Tensor:
        """Return which rows are in the population. (rows,)"""
        stack = self.stacks[self.stack_of[rows.layer]]
        table = np.zeros((stack.sentence.max() + 1, stack.position.max() + 1), dtype=np.bool_)
        table[stack.sentence, stack.position] = stack.kept(population, rows.layer)
        return torch.from_numpy(table)[rows.sentence, rows.position]

    def find_empty(self, population: str, layers: Sequence[Layer]) -> int | None:
        """Return the first sentence of which the population leaves no position at one of the layers."""
        for layer in layers:
            stack = self.stacks[self.stack_of[layer.index]]
            kept = stack.pooled & stack.kept(population, layer.index)
            empty = np.setdiff1d(stack.sentence[stack.pooled], stack.sentence[kept])
            if len(empty):
                return int(empty[0])
        return None

    def warn_of_length(self, population: str, layers: Sequence[Layer]) -> list[str]:
        """Warn if one position has most of the squared length of what is pooled at a layer."""
        found = []
        for layer in layers:
            stack = self.stacks[self.stack_of[layer.index]]
            kept = stack.pooled & stack.kept(population, layer.index)
            counts = np.bincount(stack.position[kept])
            squares = np.bincount(stack.position[kept], weights=np.square(stack.norms[layer.index][kept]))
            total = float(squares.sum())
            if not total > 0:
                continue
            place = int(squares.argmax())
            share = float(squares[place] / total)
            if share > MOST and counts[place] < MOST * kept.sum():
                found.append((share, place, layer.name))
        if not found:
            return []
        share, place, name = max(found)
        others = f" (and most of it at {len(found) - 1} other layers)" if len(found) > 1 else ""
        return [
            f"Position {place} has {share:.0%} of the squared length of the pooled states at {name}{others}, so "
            f"it outweighs the rest of the sentence (population {population}); use --population {WITHOUT_SINKS}."
        ]

    def warn_of_sinks(self, how: str, place: str) -> list[str]:
        """Warn if the single position that is pooled is a sink in most sentences."""
        for stack in self.stacks.values():
            order = np.lexsort((stack.position, stack.sentence))
            order = order[stack.pooled[order]]
            _, first, counts = np.unique(stack.sentence[order], return_index=True, return_counts=True)
            taken = stack.sinks[order[first if place == "first" else first + counts - 1]]
            if len(taken) and taken.mean() > MOST:
                return [
                    f"--pooling {how}: the position that is taken is a sink (norm above {MASSIVE:.0f} times the "
                    f"median of a layer) in {taken.mean():.0%} of the sentences; mean leaves sinks out."
                ]
        return []


def find_massive(norms: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which norms exceed 10 times the median of the layer, as in surveys. (..., positions)"""
    middle = torch.nanmedian(torch.from_numpy(np.where(np.isfinite(norms), norms, np.nan)), dim=-1, keepdim=True)
    return np.asarray(norms > MASSIVE * middle.values.numpy())


def find_sinks(norms: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which positions are sinks: massive at any layer. (layers, positions) -> (positions,)

    >>> find_sinks(np.array([[1.0, 1.0, 1.0], [50.0, 2.0, 3.0]])).tolist()
    [True, False, False]
    """
    return np.asarray(find_massive(norms).any(axis=0))


def pool_states(states: Tensor, sentence: Tensor, position: Tensor, how: str) -> tuple[Tensor, Tensor]:
    """Pool token states by sentence; return the sentence numbers in ascending order and their vectors.

    states: (tokens, dim); sentence, position: (tokens,) -> (sentences,), (sentences, dim)
    Means are summed in float64.

    >>> states, position = torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([1, 0, 0])
    >>> pool_states(states, torch.tensor([4, 4, 7]), position, "first")
    (tensor([4, 7]), tensor([[5.],
            [3.]]))
    """
    order = torch.argsort(position, stable=True)
    order = order[torch.argsort(sentence[order], stable=True)]
    numbers, sizes = torch.unique_consecutive(sentence[order], return_counts=True)
    ends = sizes.cumsum(0)
    if how in ("first", "last"):
        return numbers, states[order[ends - sizes if how == "first" else ends - 1]]
    parts = torch.tensor_split(states[order], ends[:-1])
    if how == "max":
        return numbers, torch.stack([part.amax(0) for part in parts])
    return numbers, torch.stack([part.double().mean(0) for part in parts])


def check_pooling(how: str, population: str | None = None) -> None:
    """Reject an unknown pooling method or population, and a population where one position is taken."""
    for option, value, known in (("pooling", how, POOLINGS), ("population", population, tuple(POPULATIONS))):
        if value is not None and value not in known:
            listed = ", ".join(known)
            raise InputError(f"--{option} {value!r} is not one of {listed}.{nearest(value, list(known))}")
    if how in SINGLE and population not in (None, ALL):
        raise InputError(
            f"--population {population} has no effect with --pooling {how}, which takes one position; use mean or "
            "max."
        )


def find_cls(tokenizer: Any, *, special: bool = True) -> str:
    """Return where the tokenizer puts its classification token, "first" or "last"; reject one that adds none."""
    ids = list(tokenizer("a")["input_ids"])
    known = getattr(tokenizer, "cls_token_id", None)
    if known is None or known not in (ids[0], ids[-1]):
        raise InputError("--pooling cls: this tokenizer adds no classification token; use mean, last or max.")
    if not special:
        raise InputError("--pooling cls takes a special token, which --drop-special excludes; omit one of them.")
    return "first" if ids[0] == known else "last"


def report_pooling(reader: SentenceReader, pooling: str, embedded: Embedded, listener: Listener) -> list[str]:
    """Say which positions were left out, give the warnings about pooling, and return them."""
    warnings = list(embedded.warnings)
    if reader.causal and pooling == "first":
        warnings.append(
            "--pooling first: this model is causal, so the state of its first token does not depend on the rest "
            "of the sentence; use last or mean."
        )
    if embedded.population == WITHOUT_SINKS:
        listener.say(
            f"left out {embedded.sinks:,} of {embedded.positions:,} positions that are sinks (norm above "
            f"{MASSIVE:.0f} times the median at any layer)"
        )
    for warning in warnings:
        listener.warn(warning)
    return warnings
