"""Modality: what a model is fed, told from its configuration before it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from theodolite.errors import InputError, TheodoliteError, first_line

Modality = Literal["text", "speech", "vision", "convolution"]
FED: dict[str, Modality] = {
    "input_ids": "text",
    "pixel_values": "vision",
    "input_values": "speech",
    "input_features": "speech",
}
CONVOLUTIONAL = (
    "bit convnext convnextv2 cvt efficientnet focalnet mobilenet_v1 mobilenet_v2 poolformer regnet resnet textnet"
).split()
"""Types of models whose states are maps; SegFormer's are too, but it is a transformer."""


def modality(folder: Path, name: str, *, trust_remote_code: bool = False) -> Modality:
    """Say what the model in this folder is fed."""
    from transformers import MODEL_MAPPING, AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError, ImportError) as error:
        line = first_line(error)
        raise TheodoliteError(f"The model in {name!r} could not be loaded: {line}") from error
    if type(config) not in MODEL_MAPPING:  # code that the model brings: what it is fed shows when it is loaded
        return "text"
    known = MODEL_MAPPING[type(config)]
    model = known[0] if isinstance(known, tuple | list) else known
    if config.model_type in CONVOLUTIONAL:
        return "convolution"
    if model.main_input_name not in FED:
        raise InputError(
            f"{model.__name__} is fed {model.main_input_name!r}; surveys feed {', '.join(FED)}. Any module can be "
            "surveyed by naming what to watch: see theodolite.watch."
        )
    return FED[model.main_input_name]
