"""The streams of a survey: figures by layer show the residual stream, and those of streams show the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from theodolite.models.layers import RESIDUAL

STREAMS = "streams"  # a table: layers.parquet of all streams, with the parts of their names as columns


def list_other_streams(facts: Mapping[str, Any]) -> set[int]:
    """Return the layers that are not of the residual stream; none if the survey has no others."""
    layers = facts.get("layers") or []
    others = {int(layer["index"]) for layer in layers if layer.get("stream", RESIDUAL) != RESIDUAL}
    return others if len(others) < len(layers) else set()


def keep_residual(
    facts: dict[str, Any], tables: Mapping[str, pd.DataFrame]
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Return the facts and tables of the residual stream only, or of all layers if the survey has no such."""
    others = list_other_streams(facts)
    if not others:
        return facts, dict(tables)
    kept = [layer for layer in facts["layers"] if layer["index"] not in others]
    selected = {
        name: table[~table["layer"].isin(others)].reset_index(drop=True) if "layer" in table else table
        for name, table in tables.items()
    }
    return facts | {"layers": kept}, selected


def split_names(layers: pd.DataFrame, facts: Mapping[str, Any]) -> pd.DataFrame:
    """Return layers.parquet with the columns `block` (its name), `number` (of the block), `stream` and `head`.

    >>> table = pd.DataFrame({"layer": [1, 9], "layer_name": ["block 1", "block 1/k/head 2"]})
    >>> found = split_names(table, {"layers": [{"index": 1}, {"index": 9, "stream": "k", "block": 1}]})
    >>> found[["block", "number", "stream", "head"]].values.tolist()
    [['block 1', 1, 'residual', <NA>], ['block 1', 1, 'k', 2]]
    """
    known = {int(layer["index"]): layer for layer in facts["layers"]}
    parts = [str(name).partition("/") for name in layers["layer_name"]]
    heads = [rest.partition("/head ")[2] for _, _, rest in parts]
    return layers.assign(
        block=[block for block, _, _ in parts],
        number=[known[int(layer)].get("block") or int(layer) for layer in layers["layer"]],
        stream=[known[int(layer)].get("stream", RESIDUAL) for layer in layers["layer"]],
        head=pd.array([int(head) if head else pd.NA for head in heads], dtype="Int64"),
    )
