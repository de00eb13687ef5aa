"""Windows laid end to end: one row of tokens without padding, in which attention sees each window alone.

Short texts pad to a tenth and more of a batch. It holds for models whose attention goes through transformers'
table of attention functions and to whom positions can be told: that is tried, and other models are padded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from theodolite.sources.text.anatomy import Anatomy, probe
from theodolite.sources.text.attending import Spans, attending_within


def agrees(anatomy: Anatomy, begin: int, longest: int) -> bool:
    """Say whether windows laid end to end give the states that padded ones do, but for rounding.

    `begin` is the number of a window's first position; no window will have more tokens than `longest`.
    """
    if getattr(anatomy.model.config, "_attn_implementation", None) != "sdpa" or _looks_near(anatomy, longest):
        return False
    try:
        return _agrees(anatomy, begin)
    except Exception:  # whatever a model says of inputs it does not know, it can be fed as it is used to
        return False


def _looks_near(anatomy: Anatomy, longest: int) -> bool:
    """Say whether some block looks no further than so many tokens, which a short trial would not show."""
    config: Any = anatomy.model.config
    names = ("sliding_window", "attention_chunk_size", "local_attention", "attention_window", "window_size")
    reaches = [getattr(config, name, None) for name in names]
    return any(isinstance(reach, int) and 0 < reach < longest for reach in reaches)


def _agrees(anatomy: Anatomy, begin: int) -> bool:
    """Run three windows of unequal lengths, padded and end to end."""
    given = probe(anatomy.model)["input_ids"][0]
    lengths, device = (len(given), 3, len(given) - 1), given.device
    ids, mask = (given.new_zeros(3, len(given)) for _ in range(2))
    for row, length in enumerate(lengths):
        ids[row, :length], mask[row, :length] = given[:length].roll(row), 1
    held = mask.bool()
    padded: dict[int, Tensor] = {}
    laid: dict[int, Tensor] = {}
    wanted = range(len(anatomy.layers))
    with anatomy.watched(lambda index, states: padded.update({index: states[held].float()}), wanted) as forward:
        forward(input_ids=ids, attention_mask=mask)
    spans = Spans(torch.tensor([0, *np.cumsum(lengths).tolist()], dtype=torch.int32, device=device), max(lengths))
    position = torch.arange(len(given), device=device).expand_as(held)[held] + begin
    with (
        attending_within(anatomy.model, spans),
        anatomy.watched(lambda index, states: laid.update({index: states[0].float()}), wanted) as forward,
    ):
        forward(input_ids=ids[held][None], position_ids=position[None])
    bound = torch.finfo(next(anatomy.model.parameters()).dtype).eps ** 0.5
    return all(bool((_apart(laid[index], padded[index]) < bound).all()) for index in wanted)


def _apart(these: Tensor, those: Tensor) -> Tensor:
    """Return how far rows are apart, as shares of their lengths. (rows, dim) each -> (rows,)"""
    length = torch.linalg.vector_norm(those, dim=1).clamp_min(1e-30)
    return torch.linalg.vector_norm(these - those, dim=1) / length  # type: ignore[no-any-return]
