"""Means and scales of keys by head, for quantized caches, and the error of 4-bit keys with and without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from theodolite.errors import InputError
from theodolite.measures.quantization import quantization_error
from theodolite.storage.files import write_tensors
from theodolite.studies.sample_file import SampleFile

KEYS = ("k", "k-rotated")
ERRORS = ["layer_name", "vectors", "error_plain", "error_centred", "error_scaled"]


def export_keys(folder: str | Path, out: Path, population: str = "all") -> pd.DataFrame:
    """Write the mean and the standard deviation of every coordinate of keys; return the errors by layer.

    The tensors "block 3/k.mean" and "block 3/k.scale" are (heads, width) float32, over all positions of the
    population. The errors are of the sampled vectors, the mean over heads.
    """
    if out.suffix != ".safetensors":
        raise InputError(f"--out {out}: the means of keys are written to a .safetensors file.")
    sample = SampleFile(folder, ("coordinates",))
    sample.check_population(population)
    layers = {index: layer for index, layer in sample.layers.items() if layer.stream in KEYS and layer.heads}
    if not layers:
        command = sample.survey.command("--streams", "residual,k")
        raise InputError(f"{sample.folder} has no keys; to have them, run `{command}`.")
    coordinates = sample.survey.tables["coordinates"]
    coordinates = coordinates[coordinates["population"] == population].sort_values("coordinate")
    tensors: dict[str, torch.Tensor] = {}
    rows: list[dict[str, Any]] = []
    for index, layer in layers.items():
        own = coordinates[coordinates["layer"] == index]
        mean, scale = (
            values.to_numpy(np.float64).reshape(layer.heads, -1) for values in (own["mu_i"], own["v_i"] ** 0.5)
        )
        tensors[f"{layer.name}.mean"] = torch.from_numpy(mean.astype(np.float32))
        tensors[f"{layer.name}.scale"] = torch.from_numpy(scale.astype(np.float32))
        vectors = sample.rows(index, population).vector.reshape(-1, *mean.shape)
        errors = (
            np.mean([quantization_error(vectors[:, head], **_only(head, given)) for head in range(layer.heads)])
            for given in ({}, {"mean": mean}, {"mean": mean, "scale": scale})
        )
        rows.append(dict(zip(ERRORS, (layer.name, len(vectors), *errors), strict=True)))
    facts = {"model": sample.survey.facts["model"], "population": population, "errors": rows}
    write_tensors(out, tensors, {"facts": json.dumps(facts)})
    return pd.DataFrame(rows, columns=ERRORS)


def _only(head: int, given: dict[str, Any]) -> dict[str, Any]:
    return {name: value[head] for name, value in given.items()}
