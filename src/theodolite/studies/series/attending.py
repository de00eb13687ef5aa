"""A model attends to a few documents: how far states, queries and keys drift, how sharp attention is, by block."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.measures.by_head import KINDS, NUMBERS, HeadSums, added, head_sums, leaning
from theodolite.measures.jackknife import jackknife
from theodolite.measures.sharpness import Sharpness, sharpness
from theodolite.sources.taps import entered
from theodolite.sources.text.source import TextBatch, TextSource
from theodolite.sources.text.windows import longest_window
from theodolite.sources.text.wrapping import UNWRAPPED, wrap_of
from theodolite.studies.block.projections import Projections

POPULATIONS = {"all": 0, "without-first": 1}  # and the position from which each counts
VECTORS = [f"{kind}_{number}" for kind in KINDS for number in NUMBERS]
SHARP = ["attention_max", "attention_entropy", "attention_entropy_share"]
MEASURES = [*VECTORS, *SHARP]
COLUMNS = [
    *"layer layer_name population documents positions heads".split(),
    *MEASURES,
    *(f"{measure}_se" for measure in MEASURES),
    "undefined",
]
ROW_COLUMNS = ["layer", "layer_name", "length_low", "length_high", "rows", *SHARP]
STACKS = {"": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions"}
NO_WEIGHTS = "the model's library gives no attention weights of this block"
NO_TEXT = "no chosen document has two tokens"
NOT_FINITE = "not finite"
TOLERANCE = 0.02
"""How far a row's weights may be from summing to 1: bfloat16 leaves 0.4% an entry."""


@dataclass
class Block:
    """One block of the model, and what each document gave there."""

    layer: int
    name: str
    stack: str
    number: int  # in its stack, from 0
    module: nn.Module
    projections: Projections | None
    reasons: dict[str, str] = field(default_factory=dict)
    vectors: list[dict[str, dict[str, HeadSums]]] = field(default_factory=list)  # population, kind
    sharp: list[tuple[NDArray[np.int64], Sharpness]] = field(default_factory=list)  # lengths; (heads, rows)


def chosen(documents: Sequence[tuple[int, str]], count: int) -> list[tuple[int, str]]:
    """Return so many of the documents, by a hash of their numbers, in the order of their numbers."""
    ranked = sorted(documents, key=lambda document: int(mix(document[0], 1)))
    return sorted(ranked[:count])


@torch.no_grad()
def attend(
    network: Any,
    tokenizer: Any,
    documents: Sequence[tuple[int, str]],
    *,
    most: int = 128,
    wrap: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table of blocks and the table of row lengths. Each document's first window is read alone.

    Nothing is padded, so that nothing but the causal mask is masked. The model is left with eager attention, the
    kind that gives its weights out.
    """
    longest = longest_window(network.config, tokenizer, None, wrap_of(tokenizer) if wrap else UNWRAPPED)
    source = TextSource(network, tokenizer, max_tokens=min(most, longest), batch_tokens=1, wrap=wrap)
    blocks = _blocks(source, network)
    if hasattr(network, "set_attn_implementation"):
        network.set_attn_implementation("eager")
    batches = source.prepare(list(documents), only={(number, 0) for number, _ in documents})
    for batch in batches:
        if batch.ids.shape[1] > 1:
            _read(source, network, blocks, batch)
    return _table(blocks), _rows(blocks)


def _blocks(source: TextSource, network: Any) -> list[Block]:
    layers = {layer.name: layer.index for layer in source.anatomy.layers}
    found = []
    for stack in source.anatomy.stacks:
        for number, module in enumerate(stack.blocks):
            name = f"{stack.name} block {number + 1}".strip()
            block = Block(layers[name], name, stack.name, number, module, None)
            try:
                block.projections = Projections.of(module, network.config, type(network).__name__)
            except InputError as error:
                block.reasons |= dict.fromkeys((c for c in VECTORS if not c.startswith("state_")), str(error))
            found.append(block)
    return found


def _read(source: TextSource, network: Any, blocks: Sequence[Block], batch: TextBatch) -> None:
    """Read one document and put its sums into every block."""
    inputs = {"input_ids": batch.ids, "attention_mask": batch.mask}
    if batch.decoder is not None:
        inputs |= {"decoder_input_ids": batch.decoder.ids, "decoder_attention_mask": batch.decoder.mask}
    device = next(network.parameters()).device
    given = {name: tensor.to(device) for name, tensor in inputs.items()}
    with _watched(blocks) as held:
        output = network(**given, output_attentions=True)
    for at, block in enumerate(blocks):
        seen = {"state": held[at].states[0]}  # (1, positions, dim)
        if block.projections is not None and held[at].projected:
            made = block.projections.seen(held[at].projected)
            seen |= {"input": made.reads, "query": made.queries[0], "key": made.keys[0]}
        arrays = {kind: _array(tensor) for kind, tensor in seen.items()}
        block.vectors.append(
            {
                name: {kind: head_sums(array[:, first:]) for kind, array in arrays.items()}
                for name, first in POPULATIONS.items()
            }
        )
        _sharpen(block, output, source)


def _sharpen(block: Block, output: Any, source: TextSource) -> None:
    """Add how sharp the rows of one document are; tell why where the weights are not to be had."""
    weights = getattr(output, STACKS.get(block.stack, ""), None) or ()
    found = weights[block.number] if block.number < len(weights) else None
    if found is None or found.ndim != 4 or found.shape[-1] != found.shape[-2]:
        block.reasons |= dict.fromkeys(SHARP, NO_WEIGHTS)
        return
    array, width = _array(found[0]), int(found.shape[-1])
    causal = source.anatomy.causal if not block.stack else block.stack == "decoder"
    lengths = np.arange(1, width + 1) if causal else np.full(width, width)
    if not np.allclose(np.tril(array).sum(-1) if causal else array.sum(-1), 1.0, atol=TOLERANCE):
        block.reasons |= dict.fromkeys(SHARP, "the rows of its attention weights do not sum to 1")
        return
    block.sharp.append((lengths, sharpness(array, lengths)))


@dataclass
class _Held:
    states: list[Tensor] = field(default_factory=list)
    projected: list[Tensor] = field(default_factory=list)


@contextmanager
def _watched(blocks: Sequence[Block]) -> Iterator[list[_Held]]:
    """While open, keep what enters every block, and what its projections read and give."""
    held = [_Held() for _ in blocks]

    def entering(into: _Held) -> Callable[..., None]:
        return lambda module, args, kwargs: into.states.append(entered(args, kwargs))

    with ExitStack() as hooks:
        for block, kept in zip(blocks, held, strict=True):
            hook = block.module.register_forward_pre_hook(entering(kept), with_kwargs=True)
            hooks.callback(hook.remove)
            if block.projections is not None:
                kept.projected = hooks.enter_context(block.projections.watched())
        yield held


def _array(tensor: Tensor) -> NDArray[np.float64]:
    found: NDArray[np.float64] = tensor.detach().cpu().double().numpy()
    return found


def _table(blocks: Sequence[Block]) -> pd.DataFrame:
    rows = [_row(block, population) for block in blocks for population in POPULATIONS]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.astype({column: "float64" for column in COLUMNS if column.startswith(tuple(MEASURES))})


def _row(block: Block, population: str) -> dict[str, Any]:
    """Return what is said of one block; the errors are the jackknife's over documents."""
    first, count = POPULATIONS[population], len(block.vectors)
    reasons = dict(block.reasons)
    row: dict[str, Any] = {"layer": block.layer, "layer_name": block.name, "population": population}
    row |= {"documents": count, "positions": 0, "heads": None}
    if not count:
        return row | {"undefined": json.dumps(dict.fromkeys(MEASURES, NO_TEXT))}
    each = [vectors[population] for vectors in block.vectors]
    row["positions"] = sum(one["state"].positions for one in each)
    if "query" in each[0]:
        row["heads"] = len(each[0]["query"].norms)
    everything = range(count)

    def numbers(kept: Sequence[int]) -> NDArray[np.float64]:
        told: list[float] = []
        for kind in KINDS:
            known = kind in each[0] and kept
            told += leaning(added([each[i][kind] for i in kept])) if known else (np.nan,) * len(NUMBERS)
        sharp = [block.sharp[i] for i in kept] if len(block.sharp) == count else []
        return np.array([*told, *_mean_sharp(sharp, first)])

    values = numbers(everything)
    errors = jackknife(count, lambda out: numbers([i for i in everything if i != out]))
    if count < 2:
        errors = np.full_like(values, np.nan)
    for name, value, error in zip(MEASURES, values, errors, strict=True):
        row[name], row[f"{name}_se"] = value, error
        if not np.isfinite(value):
            row[name], row[f"{name}_se"] = np.nan, np.nan
            reasons.setdefault(name, NOT_FINITE)
    return row | {"undefined": json.dumps(reasons) if reasons else None}


def _mean_sharp(documents: Sequence[tuple[NDArray[np.int64], Sharpness]], first: int) -> list[float]:
    """Return the mean of each number over heads and rows; rows without it are left out."""
    if not documents:
        return [float("nan")] * len(SHARP)
    return [
        _mean(np.concatenate([np.ravel(one[:, first:]) for one in parts]))
        for parts in zip(*(sharp for _, sharp in documents), strict=True)
    ]


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _rows(blocks: Sequence[Block]) -> pd.DataFrame:
    """Return how sharp the rows of each length are, in stretches that double: 1, 2-3, 4-7, ..."""
    rows = []
    for block in blocks:
        if not block.sharp:
            continue
        lengths = np.concatenate([lengths for lengths, _ in block.sharp])
        sharp = [np.concatenate(parts, axis=-1) for parts in zip(*(one for _, one in block.sharp), strict=True)]
        stretches = np.floor(np.log2(lengths)).astype(np.int64)
        for power in np.unique(stretches):
            told = [_mean(np.ravel(values[:, stretches == power])) for values in sharp]
            low, count = 2 ** int(power), int((stretches == power).sum())
            rows.append([block.layer, block.name, low, 2 * low - 1, count, *told])
    frame = pd.DataFrame(rows, columns=ROW_COLUMNS)
    return frame.astype({"layer": "int64", "length_low": "int64", "length_high": "int64", "rows": "int64"})
