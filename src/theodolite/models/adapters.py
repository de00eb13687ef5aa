"""Adapters of PEFT on disk: the model that they change, their sha256, and how they are added to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, TheodoliteError, first_line
from theodolite.models.weight_files import WEIGHTS, join_digests
from theodolite.text import pluralize

ADAPTER_SETTINGS = "adapter_config.json"


def find_adapter_base(folder: Path) -> str | None:
    """Return the name of the model that a folder of adapter weights changes; None if it has a complete model."""
    try:
        settings = json.loads((folder / ADAPTER_SETTINGS).read_bytes())
    except (OSError, ValueError):
        return None
    if any(path for pattern in WEIGHTS for path in folder.glob(pattern) if not path.name.startswith("adapter_")):
        return None
    base = settings.get("base_model_name_or_path") if isinstance(settings, dict) else None
    if not base:
        raise InputError(
            f"MODEL {str(folder)!r} contains only an adapter, and its {ADAPTER_SETTINGS} does not name the model "
            "that it changes (base_model_name_or_path). Add it there, or give a complete model."
        )
    return str(base)


def adapter_sha256(folder: Path) -> str:
    """Return the sha256 of the weights and the settings of an adapter."""
    return join_digests([folder / ADAPTER_SETTINGS, *_find_weights(folder)])


def architecture(folder: Path) -> str:
    """Return the class that an adapter was made for: the names of its weights begin with those of that class."""
    import transformers

    listed = json.loads((folder / "config.json").read_bytes()).get("architectures") or ["AutoModel"]
    return str(listed[0]) if hasattr(transformers, str(listed[0])) else "AutoModel"


def add_adapter(model: Any, folder: Path) -> Any:
    """Add an adapter to a model with a head, and return the model without the head."""
    from peft import PeftModel
    from peft.utils import load_peft_weights

    _find_weights(folder)  # without them, PEFT would look for the folder on the hub
    try:
        adapted = PeftModel.from_pretrained(model, folder, torch_device="cpu")
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, ImportError) as error:
        advice = (
            f" It was made for another model. Correct base_model_name_or_path in its {ADAPTER_SETTINGS}."
            if "size mismatch" in str(error)
            else ""
        )
        raise TheodoliteError(
            f"The adapter in {str(folder)!r} could not be loaded: {first_line(error)}{advice}"
        ) from error
    if adapted.active_peft_config.is_prompt_learning:
        raise InputError(
            f"MODEL {str(folder)!r} is an adapter that adds virtual tokens: their states belong to no token of "
            "the text. Survey the model without it."
        )
    own = adapted.get_base_model().base_model
    expected = {_strip_prefix(name) for name in load_peft_weights(str(folder), device="cpu")}
    missing = sorted(expected - {_strip_prefix(name) for name in adapted.state_dict()})
    if missing:
        raise TheodoliteError(
            f"The adapter in {str(folder)!r} has {pluralize(len(missing), 'tensor')} that fit no part of "
            f"{type(model).__name__} (the first is {missing[0]}). Check base_model_name_or_path of its "
            f"{ADAPTER_SETTINGS}."
        )
    return own


def _find_weights(folder: Path) -> list[Path]:
    weights = sorted(folder.glob("adapter_model*.safetensors")) or sorted(folder.glob("adapter_model*.bin"))
    if not weights:
        raise InputError(
            f"MODEL {str(folder)!r} has {ADAPTER_SETTINGS}, but no adapter_model.safetensors. Give the folder "
            "that save_pretrained of the adapter wrote."
        )
    return weights


def _strip_prefix(name: str) -> str:
    """Return the name of an adapter's tensor without the name of the adapter, which files do not have."""
    return name.replace(".default", "")
