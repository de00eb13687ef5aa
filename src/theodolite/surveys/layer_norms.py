"""layer_norms.safetensors: gamma and beta of the norm that each layer's state leaves, for those that leave one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from theodolite.models.norms import Norm
from theodolite.storage.file_names import LAYER_NORMS
from theodolite.storage.files import read_tensors, write_tensors

COLUMNS = "layer coordinate kind eps gamma beta".split()


def save_norms(norms: Mapping[int, Norm], folder: Path) -> None:
    """Write layer{i}.gamma and layer{i}.beta, with kind and eps in the metadata; an empty file where none is."""
    tensors = {
        f"layer{layer}.{part}": getattr(norm, part) for layer, norm in norms.items() for part in ("gamma", "beta")
    }
    kinds = {layer: {"kind": norm.kind, "eps": norm.eps} for layer, norm in norms.items()}
    write_tensors(folder / LAYER_NORMS, tensors, {"norms": json.dumps(kinds)})


def load_norms(folder: Path) -> dict[int, Norm]:
    """Read the norms of a survey's folder, by layer."""
    tensors, metadata = read_tensors(folder / LAYER_NORMS)
    return {
        int(layer): Norm(kind["kind"], tensors[f"layer{layer}.gamma"], tensors[f"layer{layer}.beta"], kind["eps"])
        for layer, kind in json.loads(metadata["norms"]).items()
    }


def norms_table(norms: Mapping[int, Norm]) -> pd.DataFrame:
    """Return a row per layer that leaves a norm and coordinate."""
    parts = [
        pd.DataFrame(
            {
                "layer": layer,
                "coordinate": np.arange(len(norm.gamma)),
                "kind": norm.kind,
                "eps": norm.eps,
                "gamma": norm.gamma.double().numpy(),
                "beta": norm.beta.double().numpy(),
            }
        )
        for layer, norm in sorted(norms.items())
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)
