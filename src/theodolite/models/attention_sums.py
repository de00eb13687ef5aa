"""Sums over the attention of one block: logits, entropy, and the weight of sinks, by head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from theodolite.logit_bins import BINS, bin_logits
from theodolite.models.attention_calls import AttentionCall

CHUNK = 2**20
"""Logits computed at once: a few heads, or a part of the queries of one."""
PARTS = 2  # other queries, and the first one of every window


class Span(NamedTuple):
    """A window: the item of the batch, and the positions that it has there."""

    item: int
    start: int
    stop: int


def empty_sums(heads: int) -> dict[str, Tensor]:
    """Return sums over nothing. The first axis is the part: other queries, first queries; of `top`, see there."""
    return {
        "queries": torch.zeros(PARTS, dtype=torch.int64),
        "choices": torch.zeros(PARTS, dtype=torch.int64),  # queries with more than one key
        "windows": torch.zeros(PARTS, dtype=torch.int64),  # of `top`
        "counts": torch.zeros(PARTS, heads, BINS, dtype=torch.int64),
        "lowest": torch.full((PARTS, heads), torch.inf, dtype=torch.float64),
        "highest": torch.full((PARTS, heads), -torch.inf, dtype=torch.float64),
        "entropy": torch.zeros(PARTS, heads, dtype=torch.float64),
        "entropy_share": torch.zeros(PARTS, heads, dtype=torch.float64),
        "first_mass": torch.zeros(PARTS, heads, dtype=torch.float64),
        # Over windows, the largest mean weight that a key gets: from the other queries, and from all.
        "top_mass": torch.zeros(PARTS, heads, dtype=torch.float64),
    }


@torch.no_grad()
def sum_attention(call: AttentionCall, spans: Sequence[Span], counted: Tensor) -> dict[str, Tensor]:
    """Return the sums over the queries that count. counted: (items, positions) bool, on the CPU

    The logits are recomputed from queries and keys, one window, a few heads and some queries at a time.
    """
    heads, device = call.query.shape[1], call.query.device
    sums = {name: tensor.to(device) for name, tensor in empty_sums(heads).items()}
    for span in spans:
        kept = counted[span.item, span.start : span.stop].to(device)
        if bool(kept.any()):
            _add_window(sums, call, span, kept)
    return {name: tensor.cpu() for name, tensor in sums.items()}


def _add_window(sums: dict[str, Tensor], call: AttentionCall, span: Span, kept: Tensor) -> None:
    length, heads = span.stop - span.start, call.query.shape[1]
    columns = slice(span.start, span.stop)
    together = max(1, min(heads, CHUNK // length**2))
    rows = max(1, min(length, CHUNK // length))
    for begin in range(0, heads, together):
        chosen = slice(begin, min(begin + together, heads))
        received = torch.zeros(PARTS, chosen.stop - begin, length, dtype=torch.float64, device=kept.device)
        for start in range(0, length, rows):
            part = slice(span.start + start, span.start + min(start + rows, length))
            logits, allowed = call.scores(span.item, chosen, part, columns)
            _add_queries(sums, logits, allowed, kept[start : start + rows], start, chosen, received)
        queries = [int(kept[1:].sum()), int(kept.sum())]
        totals = received[0], received.sum(dim=0)
        for which, (count, total) in enumerate(zip(queries, totals, strict=True)):
            if count:
                sums["top_mass"][which, chosen] += (total / count).amax(dim=-1)
                sums["windows"][which] += int(begin == 0)


def _add_queries(
    sums: dict[str, Tensor],
    logits: Tensor,
    allowed: Tensor,
    kept: Tensor,
    start: int,
    heads: slice,
    received: Tensor,
) -> None:
    """Add the queries from position `start` of a window. logits, allowed: (heads, rows, columns)"""
    hidden = ~allowed
    masked = logits.masked_fill(hidden, -torch.inf)
    weights = masked.softmax(dim=-1)
    entropy = (masked.logsumexp(dim=-1) - (weights * logits.masked_fill(hidden, 0.0)).sum(dim=-1)).double()
    keys = allowed.sum(dim=-1)  # (heads, rows)
    share = torch.where(keys > 1, entropy / keys.clamp_min(2).double().log(), 0.0)
    row = torch.arange(start, start + len(kept), device=kept.device)
    number = torch.arange(heads.stop - heads.start, device=kept.device)[:, None, None] * (BINS + 1)
    bins = torch.where(hidden, BINS, bin_logits(logits)) + number
    for part, here in enumerate((kept & (row > 0), kept & (row == 0))):
        if not bool(here.any()):
            continue
        if heads.start == 0:
            sums["queries"][part] += here.sum()
            sums["choices"][part] += (here & (keys[0] > 1)).sum()
        counts = torch.bincount(bins[:, here].flatten(), minlength=len(number) * (BINS + 1))
        sums["counts"][part, heads] += counts.view(len(number), BINS + 1)[:, :BINS]
        high = masked[:, here].amax(dim=(1, 2)).double()
        low = logits.masked_fill(hidden, torch.inf)[:, here].amin(dim=(1, 2)).double()
        sums["highest"][part, heads] = torch.maximum(sums["highest"][part, heads], high)
        sums["lowest"][part, heads] = torch.minimum(sums["lowest"][part, heads], low)
        sums["entropy"][part, heads] += entropy[:, here].sum(dim=-1)
        sums["entropy_share"][part, heads] += share[:, here].sum(dim=-1)
        sums["first_mass"][part, heads] += weights[:, here, 0].double().sum(dim=-1)
        received[part] += weights[:, here].double().sum(dim=1)
