"""Models without a table of positions: what RoPE or a learned relative bias does with distance, in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.measures.sinusoid import rotary_similarity
from theodolite.studies.weights.tables import RELATIVE, ROTARY, Tables

Array = NDArray[np.float64]
FARTHEST = 1024
BIAS_FARTHEST = 128


def instead_of_positions(tables: Tables) -> dict[str, pd.DataFrame]:
    """Return position_rotary or position_bias; nothing for a model that has neither."""
    if tables.position_kind == ROTARY:
        return {"position_rotary": rotary_curves(tables.model)}
    if tables.position_kind == RELATIVE:
        return {"position_bias": relative_bias(tables.model, tables.names["relative"])}
    return {}


def rotary_curves(model: Any) -> pd.DataFrame:
    """Return how alike rotation leaves two positions by their distance: frequencies, distance, similarity.

    A model that turns some layers otherwise than others (Gemma 3) has a curve for each; equal ones are told once.
    """
    found: dict[bytes, tuple[str, Array]] = {}
    for name, theta in rotary_frequencies(model).items():
        found.setdefault(theta.tobytes(), (name, theta))
    distances = np.arange(FARTHEST + 1)
    frames = [
        pd.DataFrame(
            {
                "frequencies": name,
                "planes": len(theta),
                "distance": distances,
                "similarity": rotary_similarity(theta, distances.astype(np.float64)),
            }
        )
        for name, theta in found.values()
    ]
    names = ["frequencies", "planes", "distance", "similarity"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)


def rotary_frequencies(model: Any) -> dict[str, Array]:
    """Return the rotary frequencies that a model holds, by the buffer's name; else those that its config tells."""
    held = {
        name: buffer.detach().double().cpu().numpy()
        for name, buffer in model.named_buffers()
        if name.endswith("inv_freq") and "original" not in name and buffer.ndim == 1
    }
    if held:
        return held
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    base = rope.get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0
    width = getattr(config, "rotary_dim", None) or getattr(config, "head_dim", None)
    width = width or config.hidden_size // config.num_attention_heads
    return {"config": float(base) ** (-np.arange(0, width, 2) / width)}


def relative_bias(model: Any, name: str) -> pd.DataFrame:
    """Return the learned bias by distance: table, head, distance (key less query), bias; T5's buckets opened up.

    A table whose buckets cannot be asked for is told by bucket, its distance null.
    """
    frames = []
    for path, module in model.named_modules():
        table, bucket = getattr(module, "relative_attention_bias", None), getattr(module, BUCKETS, None)
        if isinstance(table, torch.nn.Embedding) and bucket is not None:
            frames.append(_by_distance(f"{path}.relative_attention_bias.weight", module, table.weight, bucket))
    if not frames:
        frames.append(_by_bucket(name, dict(model.named_parameters())[name]))
    return pd.concat(frames, ignore_index=True)


BUCKETS = "_relative_position_bucket"


def _by_distance(name: str, module: Any, weight: torch.Tensor, bucket: Any) -> pd.DataFrame:
    causal = bool(getattr(module, "is_decoder", False))
    distance = torch.arange(-BIAS_FARTHEST, 1 if causal else BIAS_FARTHEST + 1)
    rows = bucket(
        distance,
        bidirectional=not causal,
        num_buckets=module.relative_attention_num_buckets,
        max_distance=module.relative_attention_max_distance,
    )
    return _long(name, weight[rows], rows.numpy(), distance.numpy())


def _by_bucket(name: str, weight: torch.Tensor) -> pd.DataFrame:
    return _long(name, weight, np.arange(len(weight)), None)


def _long(name: str, bias: torch.Tensor, buckets: Any, distance: Any) -> pd.DataFrame:
    values = bias.detach().double().cpu().numpy()
    heads = values.shape[1]
    far = np.repeat(distance, heads) if distance is not None else None
    frame = {
        "table": name,
        "head": np.tile(np.arange(heads), len(values)),
        "bucket": np.repeat(buckets, heads),
        "distance": pd.array(far if far is not None else [None] * values.size, dtype="Int64"),
        "bias": values.ravel(),
    }
    return pd.DataFrame(frame)
