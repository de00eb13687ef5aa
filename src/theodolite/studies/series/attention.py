"""Attention on a few documents: drift of states, queries and keys, and sharpness of attention, per block."""

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
from theodolite.measures.laboratories.attention import (
    HEAD_NUMBERS,
    HEAD_VECTORS,
    HeadSums,
    Sharpness,
    add_head_sums,
    head_sums,
    sharpness,
    summarise_heads,
)
from theodolite.measures.uncertainty import jackknife
from theodolite.models.attention_calls import AttentionCall, intercept_attention
from theodolite.models.hooks import first_input
from theodolite.models.stacks import number_calls
from theodolite.sources.text.batches import TextBatch
from theodolite.sources.text.encoding import UNWRAPPED, find_wrap
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import choose_window_length
from theodolite.studies.block.isolated_block import QueryKeyProjections

POPULATIONS = {"all": 0, "without-first": 1}  # name: first position that counts
VECTORS = [f"{kind}_{number}" for kind in HEAD_VECTORS for number in HEAD_NUMBERS]
SHARP = ["attention_max", "attention_entropy", "attention_entropy_share"]
MEASURES = [*VECTORS, *SHARP]
LOGITS = "logit_max"
"""The largest logit of any head: an extreme, so that it has no standard error and no mean over blocks."""
COLUMNS = [
    *"layer layer_name population documents positions heads".split(),
    *MEASURES,
    *(f"{measure}_se" for measure in MEASURES),
    LOGITS,
    "undefined",
]
ROW_COLUMNS = ["layer", "layer_name", "length_low", "length_high", "rows", *SHARP]
STACKS = {"": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions"}
NO_WEIGHTS = "the library of the model does not return attention weights for this block"
NO_LOGITS = "the attention of this block is not one of the functions of transformers"
SHARED = "layers share the block, and queries and keys are recorded only for blocks of one layer"
NO_TEXT = "no selected document has two or more tokens"
NOT_FINITE = "not finite"
TOLERANCE = 0.02
"""Maximum deviation of the sum of a row of weights from 1; bfloat16 has an error of 0.4% per entry."""


@dataclass
class BlockAttention:
    """One block of the model, and the sums of each document."""

    layer: int
    name: str
    stack: str
    number: int  # in its stack, from 0
    module: nn.Module
    projections: QueryKeyProjections | None
    call: int = 0  # of the module, from 0: layers may share one
    reasons: dict[str, str] = field(default_factory=dict)
    vectors: list[dict[str, dict[str, HeadSums]]] = field(default_factory=list)  # population, kind
    sharp: list[tuple[NDArray[np.int64], Sharpness]] = field(default_factory=list)  # lengths; (heads, rows)
    logits: list[dict[str, float]] = field(default_factory=list)  # the largest by population


def select_documents(documents: Sequence[tuple[int, str]], count: int) -> list[tuple[int, str]]:
    """Select `count` documents by a hash of their numbers; return them sorted by number."""
    ranked = sorted(documents, key=lambda document: int(mix(document[0], 1)))
    return sorted(ranked[:count])


@torch.no_grad()
def measure_attention(
    network: Any,
    tokenizer: Any,
    documents: Sequence[tuple[int, str]],
    *,
    most: int = 128,
    wrap: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table of blocks and the table of row lengths, from the first window of each document.

    Windows are read one at a time, so that there is no padding and no mask except the causal one. The attention of
    the model is switched to "eager", which returns its weights, and stays so.
    """
    longest = choose_window_length(network.config, tokenizer, None, find_wrap(tokenizer) if wrap else UNWRAPPED)
    source = TextSource(network, tokenizer, max_tokens=min(most, longest), batch_tokens=1, wrap=wrap)
    blocks = _find_blocks(source, network)
    if hasattr(network, "set_attn_implementation"):
        network.set_attn_implementation("eager")
    batches = source.prepare(list(documents), only={(number, 0) for number, _ in documents})
    for batch in batches:
        if batch.ids.shape[1] > 1:
            _read_document(source, network, blocks, batch)
    return _make_block_table(blocks), _make_length_table(blocks)


def _find_blocks(source: TextSource, network: Any) -> list[BlockAttention]:
    layers = {layer.name: layer.index for layer in source.anatomy.layers}
    found = []
    for stack in source.anatomy.stacks:
        for number, (module, call) in enumerate(zip(stack.blocks, number_calls(stack.blocks), strict=True)):
            name = f"{stack.name} block {number + 1}".strip()
            block = BlockAttention(layers[name], name, stack.name, number, module, None, call or 0)
            try:
                if call is not None:
                    raise InputError(SHARED)
                block.projections = QueryKeyProjections.of(module, network.config, type(network).__name__)
            except InputError as error:
                block.reasons |= dict.fromkeys((c for c in VECTORS if not c.startswith("state_")), str(error))
            found.append(block)
    return found


def _read_document(source: TextSource, network: Any, blocks: Sequence[BlockAttention], batch: TextBatch) -> None:
    """Read one document and add its sums to every block."""
    inputs = {"input_ids": batch.ids, "attention_mask": batch.mask}
    if batch.decoder is not None:
        inputs |= {"decoder_input_ids": batch.decoder.ids, "decoder_attention_mask": batch.decoder.mask}
    device = next(network.parameters()).device
    given = {name: tensor.to(device) for name, tensor in inputs.items()}
    with _record_inputs(blocks) as held, _record_logits() as logits:
        output = network(**given, output_attentions=True)
    for at, block in enumerate(blocks):
        seen = {"state": held[at].states[block.call]}  # (1, positions, dim)
        if block.projections is not None and held[at].projected:
            made = block.projections.split_heads(held[at].projected)
            seen |= {"input": made.reads, "query": made.queries[0], "key": made.keys[0]}
        arrays = {kind: _array(tensor) for kind, tensor in seen.items()}
        block.vectors.append(
            {
                name: {kind: head_sums(array[:, first:]) for kind, array in arrays.items()}
                for name, first in POPULATIONS.items()
            }
        )
        _add_sharpness(block, output, source)
        # Self-attention is the first part of a block that attends; cross-attention, if any, comes after it.
        calls = next((logits[id(part)] for part in block.module.modules() if id(part) in logits), [])
        block.logits += calls[block.call : block.call + 1]


def _add_sharpness(block: BlockAttention, output: Any, source: TextSource) -> None:
    """Add the sharpness of the attention rows of one document; store a reason if there are no weights."""
    weights = getattr(output, STACKS.get(block.stack, ""), None) or ()
    found = weights[block.number] if block.number < len(weights) else None
    if found is None or found.ndim != 4 or found.shape[-1] != found.shape[-2]:
        block.reasons |= dict.fromkeys(SHARP, NO_WEIGHTS)
        return
    array, width = _array(found[0]), int(found.shape[-1])
    causal = source.anatomy.causal if not block.stack else block.stack == "decoder"
    lengths = np.arange(1, width + 1) if causal else np.full(width, width)
    if not np.allclose(np.tril(array).sum(-1) if causal else array.sum(-1), 1.0, atol=TOLERANCE):
        block.reasons |= dict.fromkeys(SHARP, "the rows of the attention weights do not sum to 1")
        return
    block.sharp.append((lengths, sharpness(array, lengths)))


@dataclass
class _BlockInputs:
    states: list[Tensor] = field(default_factory=list)
    projected: list[Tensor] = field(default_factory=list)


@contextmanager
def _record_inputs(blocks: Sequence[BlockAttention]) -> Iterator[list[_BlockInputs]]:
    """While open, record the input of every block, and inputs and outputs of its projections."""
    held = [_BlockInputs() for _ in blocks]

    def entering(into: _BlockInputs) -> Callable[..., None]:
        return lambda module, args, kwargs: into.states.append(first_input(args, kwargs))

    with ExitStack() as hooks:
        for block, kept in zip(blocks, held, strict=True):
            hook = block.module.register_forward_pre_hook(entering(kept), with_kwargs=True)
            hooks.callback(hook.remove)
            if block.projections is not None:
                kept.projected = hooks.enter_context(block.projections.capture())
        yield held


@contextmanager
def _record_logits() -> Iterator[dict[int, list[dict[str, float]]]]:
    """While open, record the largest logit of every call of attention by population, by the id of its module."""
    found: dict[int, list[dict[str, float]]] = {}

    def record(call: AttentionCall) -> None:
        heads, rows, columns = call.query.shape[1], call.query.shape[2], call.key.shape[2]
        logits, allowed = call.scores(0, slice(0, heads), slice(0, rows), slice(0, columns))
        by_row = logits.masked_fill(~allowed, -torch.inf).amax(dim=(0, 2))
        largest = {name: float(by_row[first:].max()) for name, first in POPULATIONS.items()}
        found.setdefault(id(call.module), []).append(largest)

    with intercept_attention(record):
        yield found


def _array(tensor: Tensor) -> NDArray[np.float64]:
    found: NDArray[np.float64] = tensor.detach().cpu().double().numpy()
    return found


def _make_block_table(blocks: Sequence[BlockAttention]) -> pd.DataFrame:
    rows = [_make_row(block, population) for block in blocks for population in POPULATIONS]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.astype({column: "float64" for column in COLUMNS if column.startswith((*MEASURES, LOGITS))})


def _make_row(block: BlockAttention, population: str) -> dict[str, Any]:
    """Return the measures of one block, with jackknife errors over documents."""
    first, count = POPULATIONS[population], len(block.vectors)
    reasons = dict(block.reasons)
    row: dict[str, Any] = {"layer": block.layer, "layer_name": block.name, "population": population}
    row |= {"documents": count, "positions": 0, "heads": None}
    if not count:
        return row | {"undefined": json.dumps(dict.fromkeys([*MEASURES, LOGITS], NO_TEXT))}
    each = [vectors[population] for vectors in block.vectors]
    row["positions"] = sum(one["state"].positions for one in each)
    if "query" in each[0]:
        row["heads"] = len(each[0]["query"].norms)
    everything = range(count)

    def numbers(kept: Sequence[int]) -> NDArray[np.float64]:
        result: list[float] = []
        for kind in HEAD_VECTORS:
            known = kind in each[0] and kept
            result += (
                summarise_heads(add_head_sums([each[i][kind] for i in kept]))
                if known
                else (np.nan,) * len(HEAD_NUMBERS)
            )
        sharp = [block.sharp[i] for i in kept] if len(block.sharp) == count else []
        return np.array([*result, *_mean_sharp(sharp, first)])

    values = numbers(everything)
    errors = jackknife(count, lambda out: numbers([i for i in everything if i != out]))
    if count < 2:
        errors = np.full_like(values, np.nan)
    for name, value, error in zip(MEASURES, values, errors, strict=True):
        row[name], row[f"{name}_se"] = value, error
        if not np.isfinite(value):
            row[name], row[f"{name}_se"] = np.nan, np.nan
            reasons.setdefault(name, NOT_FINITE)
    known = [logits[population] for logits in block.logits]
    row[LOGITS] = max(known) if len(known) == count and np.isfinite(known).all() else np.nan
    if np.isnan(row[LOGITS]):
        reasons[LOGITS] = NOT_FINITE if len(known) == count else NO_LOGITS
    return row | {"undefined": json.dumps(reasons) if reasons else None}


def _mean_sharp(documents: Sequence[tuple[NDArray[np.int64], Sharpness]], first: int) -> list[float]:
    """Return the mean of each number over heads and rows, excluding rows where it is NaN."""
    if not documents:
        return [float("nan")] * len(SHARP)
    return [
        _mean(np.concatenate([np.ravel(one[:, first:]) for one in parts]))
        for parts in zip(*(sharp for _, sharp in documents), strict=True)
    ]


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _make_length_table(blocks: Sequence[BlockAttention]) -> pd.DataFrame:
    """Return the sharpness by length of the row, in bins that double: 1, 2-3, 4-7, ..."""
    rows = []
    for block in blocks:
        if not block.sharp:
            continue
        lengths = np.concatenate([lengths for lengths, _ in block.sharp])
        sharp = [np.concatenate(parts, axis=-1) for parts in zip(*(one for _, one in block.sharp), strict=True)]
        powers = np.floor(np.log2(lengths)).astype(np.int64)
        for power in np.unique(powers):
            means = [_mean(np.ravel(values[:, powers == power])) for values in sharp]
            low, count = 2 ** int(power), int((powers == power).sum())
            rows.append([block.layer, block.name, low, 2 * low - 1, count, *means])
    frame = pd.DataFrame(rows, columns=ROW_COLUMNS)
    return frame.astype({"layer": "int64", "length_low": "int64", "length_high": "int64", "rows": "int64"})
