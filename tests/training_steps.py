"""Checkpoints as a training would leave them: one small random model whose weights move from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tests.small_models import load, make, save


def checkpoints(folder: Path, steps: Sequence[int], *, family: str = "gpt2", tokenizer: bool = True) -> Path:
    """Leave FOLDER/checkpoint-STEP for every step, the weights drifting with log(step), and return FOLDER."""
    model, words = load(make(family, folder / "start"))
    generator = torch.Generator().manual_seed(7)
    begin = {name: weight.clone() for name, weight in model.named_parameters()}
    ways = {name: torch.randn(weight.shape, generator=generator) for name, weight in begin.items()}
    for step in steps:
        far = 0.1 * torch.log1p(torch.tensor(float(step)))
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(begin[name] + far * ways[name] * begin[name].std().nan_to_num(0.02))
        place = folder / f"checkpoint-{step}"
        if tokenizer:
            save(model, words, place)
        else:
            model.save_pretrained(place)
    return folder
