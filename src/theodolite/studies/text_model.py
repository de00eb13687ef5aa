"""Loading a text model for a laboratory, with the facts that laboratory.json stores about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.models.checkpoint import Checkpoint, find_modality, load_model, load_tokenizer, resolve
from theodolite.models.weight_files import choose_dtype
from theodolite.surveys.api import best_device
from theodolite.surveys.provenance import describe_checkpoint
from theodolite.surveys.validation import check_device


@dataclass(frozen=True, eq=False)
class TextModel:
    """A loaded model, its tokenizer, and its facts for laboratory.json."""

    network: Any
    tokenizer: Any
    facts: dict[str, Any]


@dataclass(frozen=True, eq=False)
class TextCheckpoint:
    """A text model whose tokenizer is loaded and whose weights are not loaded yet."""

    checkpoint: Checkpoint
    tokenizer: Any
    device: str
    dtype: str
    trust_remote_code: bool
    listener: Listener

    def load(self) -> TextModel:
        """Load the weights."""
        self.listener.say(f"loading {self.checkpoint.name}")
        network = load_model(
            self.checkpoint, dtype=self.dtype, device=self.device, trust_remote_code=self.trust_remote_code
        )
        return TextModel(
            network, self.tokenizer, describe_checkpoint(self.checkpoint, network, self.dtype, self.device)
        )


def open_text_model(
    model: str | Path,
    *,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    listener: Listener | None = None,
) -> TextCheckpoint:
    """Find a catalogue name, a folder, a .gguf file or a hub name; reject models of other than text.

    The default device is a GPU if there is one, as in a survey.
    """
    listener = listener or Listener()
    device = device or best_device()
    check_device(device)
    checkpoint = resolve(str(model), revision=revision, progress=listener.say)
    kind = find_modality(checkpoint.folder, checkpoint.name, trust_remote_code=trust_remote_code)
    if kind != "text":
        raise InputError(f"MODEL {checkpoint.name!r} is a model of {kind}; expected a text model.")
    tokenizer = load_tokenizer(checkpoint, trust_remote_code=trust_remote_code)
    dtype = choose_dtype(dtype, checkpoint.folder, device)
    return TextCheckpoint(checkpoint, tokenizer, device, dtype, trust_remote_code, listener)


def load_text_model(model: str | Path, **options: Any) -> TextModel:
    """Find a text model and load its weights; `options` are those of `open_text_model`."""
    return open_text_model(model, **options).load()
