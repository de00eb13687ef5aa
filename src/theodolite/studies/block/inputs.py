"""Inputs of a block: rows of the embedding table or sampled states with a bias, and norms of a trained model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from theodolite.errors import InputError
from theodolite.statistics.cells import CELLS, POPULATIONS
from theodolite.statistics.sample import Reservoir
from theodolite.storage.file_names import SAMPLE
from theodolite.storage.files import read_tensors
from theodolite.surveys.folder import open_tables


@dataclass(frozen=True, eq=False)
class Inputs:
    """Sequences without bias, and the direction of the bias."""

    states: Tensor  # (sequences, positions, dim) float32
    direction: Tensor  # (dim,) float32, of length 1

    def add_bias(self, norm: float, sequences: int | None = None) -> Tensor:
        """Return the sequences, or the first `sequences` of them, plus a bias of this norm."""
        return self.states[:sequences] + norm * self.direction

    @property
    def mean_square(self) -> float:
        """E|x|^2 without bias."""
        return float(self.states.double().square().sum(dim=-1).mean())


def draw_sequences(rows: Tensor, sequences: int, positions: int, *, seed: int) -> Tensor:
    """Draw sequences of rows uniformly with replacement. (rows, dim)"""
    random = torch.Generator().manual_seed(seed)
    return rows[torch.randint(len(rows), (sequences, positions), generator=random)].float()


def random_direction(dim: int, *, seed: int, number: int) -> Tensor:
    """Return a random unit vector, uniform over directions and determined by the seed and the number."""
    random = torch.Generator().manual_seed(1_000_003 * (seed + 1) + number)
    vector = torch.randn(dim, generator=random, dtype=torch.float64)
    unit: Tensor = vector / vector.norm()
    return unit.float()


def own_direction(states: Tensor) -> Tensor:
    """Return the direction of the mean of the states. (..., dim)"""
    mean = states.double().flatten(0, -2).mean(dim=0)
    length = mean.norm()
    if not length > 0:
        raise InputError("--inputs states: the mean of the sampled states is 0, which has no direction.")
    unit: Tensor = mean / length
    return unit.float()


def read_sampled_states(survey: Path, layer: int, population: str) -> Tensor:
    """Return a survey's sample of one layer and population. (vectors, dim)"""
    tensors, _ = read_tensors(survey / SAMPLE)
    cells = [f"layer{layer}.sample.{CELLS[cell]}" for cell in POPULATIONS[population]]
    sampled = [cell for cell in cells if f"{cell}.vector" in tensors]
    if not sampled:
        raise InputError(
            f"--survey {survey} contains no sample of layer {layer}; survey that layer with a sample."
        )
    union = Reservoir(
        max(len(tensors[f"{cell}.key"]) for cell in sampled)
    )  # each cell has a reservoir of this size
    for cell in sampled:
        union.offer(key=tensors[f"{cell}.key"], vector=tensors[f"{cell}.vector"].float())
    return union.sorted()["vector"]


def read_trained_norms(survey: str | Path, population: str) -> tuple[str, pd.DataFrame]:
    """Return the name of the surveyed model and one row per layer: mean norm with error, rms norm, norm of mean.

    The mean norm is computed from the survey's sample; the other two are sqrt(Q) and sqrt(M) of all positions.
    """
    facts, tables = open_tables(survey, ("layers",))
    layers = tables["layers"]
    known = list(layers["population"].unique())
    if population not in known:
        raise InputError(f"--population {population!r}: this survey has {', '.join(known)}.")
    rows = []
    for row in layers[layers["population"] == population].to_dict("records"):
        norms = read_sampled_states(Path(survey), int(row["layer"]), population).double().norm(dim=1).numpy()
        rows.append(
            {
                "layer": int(row["layer"]),
                "layer_name": str(row["layer_name"]),
                "population": population,
                "mean_norm": float(norms.mean()),
                "mean_norm_se": float(norms.std(ddof=1) / np.sqrt(len(norms))) if len(norms) > 1 else np.nan,
                "sample": len(norms),
                "rms_norm": float(np.sqrt(row["q"])),
                "norm_of_mean": float(np.sqrt(max(row["m"], 0.0))),
            }
        )
    name = facts["model"]["name"] if facts.get("model") else facts["corpus"]["name"]
    return str(name), pd.DataFrame(rows)
