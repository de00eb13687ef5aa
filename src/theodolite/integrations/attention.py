"""Sharpness of attention, and drift of states, queries and keys, of a model under training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd

from theodolite.integrations.model_state import default_torch
from theodolite.studies.series.attention import measure_attention
from theodolite.studies.series.series import ATTENTION, ATTENTION_ROWS

TOKENS = 128
"""Tokens of each document that are read, as in `theodolite dynamics`."""
LOGGED = ("attention_max", "attention_entropy_share", "logit_max")
POPULATION = "without-first"  # the first row of a causal model has one entry, of weight 1


def measure_live_attention(
    network: Any, tokenizer: Any, documents: Sequence[tuple[int, str]]
) -> dict[str, pd.DataFrame]:
    """Return the tables of attention of a series; the implementation of attention is restored."""
    with _restore_attention(network), default_torch():
        made = measure_attention(network, tokenizer, documents, most=TOKENS)
    return dict(zip((ATTENTION, ATTENTION_ROWS), made, strict=True))


@contextmanager
def _restore_attention(network: Any) -> Iterator[None]:
    before = getattr(network.config, "_attn_implementation", None)
    try:
        yield
    finally:
        if before is not None and hasattr(network, "set_attn_implementation"):
            network.set_attn_implementation(before)


def select_sharpness(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of blocks over all positions but the first."""
    table = tables.get(ATTENTION)
    if table is None:
        return pd.DataFrame(columns=["layer_name", *LOGGED])
    return table[table["population"] == POPULATION]
