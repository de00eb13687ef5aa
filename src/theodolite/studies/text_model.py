"""A text model for a laboratory: found, loaded, and described."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.errors import InputError
from theodolite.sources.modality import modality
from theodolite.sources.text.checkpoint import load_model, load_tokenizer, resolve
from theodolite.surveys.early import check_device
from theodolite.surveys.listener import Listener
from theodolite.surveys.model_facts import model_facts


@dataclass(frozen=True, eq=False)
class TextModel:
    """A loaded model, its tokenizer, and what laboratory.json says of it."""

    network: Any
    tokenizer: Any
    facts: dict[str, Any]


def load_text_model(
    model: str | Path,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    listener: Listener | None = None,
) -> TextModel:
    """Load a catalogue name, a folder, a .gguf file or a hub name; refuse what is not fed text."""
    say = (listener or Listener()).say
    check_device(device)
    checkpoint = resolve(str(model), revision=revision, progress=say)
    kind = modality(checkpoint.folder, checkpoint.name, trust_remote_code=trust_remote_code)
    if kind != "text":
        raise InputError(f"MODEL {checkpoint.name!r} is a model of {kind}; sentences want a model of text.")
    say(f"loading {checkpoint.name}")
    tokenizer = load_tokenizer(checkpoint, trust_remote_code=trust_remote_code)
    network = load_model(checkpoint, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
    return TextModel(network, tokenizer, model_facts(checkpoint, network, dtype, device))
