"""What a block is fed with: rows of the table or sampled states, and a bias in a random direction or their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from theodolite.errors import InputError
from theodolite.statistics.cells import CELLS, POPULATIONS
from theodolite.statistics.sample import Reservoir
from theodolite.surveys.files import read_tensors
from theodolite.surveys.state import SAMPLE


@dataclass(frozen=True, eq=False)
class Inputs:
    """Sequences without bias, and the unit vector that a bias lies along."""

    states: Tensor  # (sequences, positions, dim) float32
    direction: Tensor  # (dim,) float32, of length 1

    def biased(self, norm: float, sequences: int | None = None) -> Tensor:
        """Return the sequences, or the first of them, with a bias of this norm."""
        return self.states[:sequences] + norm * self.direction

    @property
    def mean_square(self) -> float:
        """E|x|^2 without bias."""
        return float(self.states.double().square().sum(dim=-1).mean())


def draw(rows: Tensor, sequences: int, positions: int, *, seed: int) -> Tensor:
    """Draw sequences of rows, each row as likely as any other, with replacement. (rows, dim)"""
    random = torch.Generator().manual_seed(seed)
    return rows[torch.randint(len(rows), (sequences, positions), generator=random)].float()


def random_direction(dim: int, *, seed: int, number: int) -> Tensor:
    """Return a unit vector, all directions being equally likely; the same for the same seed and number."""
    random = torch.Generator().manual_seed(1_000_003 * (seed + 1) + number)
    vector = torch.randn(dim, generator=random, dtype=torch.float64)
    unit: Tensor = vector / vector.norm()
    return unit.float()


def own_direction(states: Tensor) -> Tensor:
    """Return the direction of the states' own mean. (..., dim)"""
    mean = states.double().flatten(0, -2).mean(dim=0)
    length = mean.norm()
    if not length > 0:
        raise InputError("--inputs states: the sampled states have the mean 0, which has no direction.")
    unit: Tensor = mean / length
    return unit.float()


def sampled_states(survey: Path, layer: int, population: str) -> Tensor:
    """Return a survey's sample of one layer and population. (vectors, dim)"""
    tensors, _ = read_tensors(survey / SAMPLE)
    cells = [f"layer{layer}.sample.{CELLS[cell]}" for cell in POPULATIONS[population]]
    held = [cell for cell in cells if f"{cell}.vector" in tensors]
    if not held:
        raise InputError(
            f"--survey {survey}: it holds no sample of layer {layer}; survey that layer, with a sample."
        )
    union = Reservoir(max(len(tensors[f"{cell}.key"]) for cell in held))  # each cell keeps as many by itself
    for cell in held:
        union.offer(key=tensors[f"{cell}.key"], vector=tensors[f"{cell}.vector"])
    return union.sorted()["vector"].float()
