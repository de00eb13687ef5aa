"""From what the user calls a model to a loaded one: catalogue name, folder, GGUF file or hub name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, OfflineError, TheodoliteError, first_line, nearest
from theodolite.sources import catalogue
from theodolite.sources.text.model_settings import settings_sha256

Progress = Callable[[str], None]
DTYPES = ("float32", "bfloat16", "float16")
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")  # in the order in which transformers prefers them


@dataclass(frozen=True)
class Checkpoint:
    """A model on disk: where it is, and what identifies it."""

    name: str  # what the user said
    folder: Path
    revision: str | None = None
    tokenizer: Path | None = None  # where that is, if not beside the weights: trainers save it once

    @cached_property
    def sha256(self) -> str:
        """Of the weight files, in the order of their names; read when first asked for."""
        return weights_sha256(self.folder)

    @cached_property
    def settings_sha256(self) -> str:
        """Of what acts beside the weights: the settings of the model, the tokenizer and the processor."""
        return settings_sha256(self.folder, self.tokenizer)

    def identity(self) -> dict[str, str]:
        """Return what tells this model from another."""
        return {"sha256": self.sha256, "settings": self.settings_sha256}


def resolve(name: str, *, revision: str | None = None, progress: Progress | None = None) -> Checkpoint:
    """Find the model on disk, fetching it where that is called for."""
    if name in catalogue.MODELS:
        folder = catalogue.model_folder(name, progress)
        revision = catalogue.MODELS[name].version
    elif Path(name).suffix.lower() == ".gguf":
        if not Path(name).is_file():
            raise InputError(f"MODEL {name!r}: there is no such file.")
        folder = catalogue.gguf_folder(Path(name))
    elif Path(name).is_dir():
        folder = Path(name)
        if not (folder / "config.json").is_file():
            raise InputError(
                f"MODEL {name!r} is a folder without config.json; a model folder is one that "
                "transformers' save_pretrained made."
            )
    elif name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"MODEL {name!r}: there is no such folder.")
    else:
        folder, revision = _from_hub(name, revision, progress)
    check_weights(folder)
    return Checkpoint(name, folder, revision)


def found_again(checkpoint: Checkpoint, expected: str) -> Checkpoint:
    """Find here a model that another machine found, in the same place or by its name; refuse other weights."""
    standing = (checkpoint.folder / "config.json").is_file()
    here = checkpoint if standing else resolve(checkpoint.name, revision=checkpoint.revision)
    found = weights_sha256(here.folder)
    if found != expected:
        raise InputError(
            f"MODEL {checkpoint.name!r} in {here.folder} has other weights here: their sha256 is {found[:12]}…, "
            f"{expected[:12]}… was wanted. Give every machine the same ones."
        )
    return checkpoint if standing else here


def check_weights(folder: Path) -> list[Path]:
    """Return the folder's weight files; refuse a folder without any."""
    for pattern in WEIGHTS:
        files = sorted(folder.glob(pattern))
        if files:
            return files
    raise InputError(
        f"{folder} holds no weights: wanted model.safetensors or pytorch_model.bin beside config.json."
    )


def weights_sha256(folder: Path) -> str:
    """Return the sha256 over the folder's weight files."""
    digest = sha256()
    for file in check_weights(folder):
        with file.open("rb") as stream:
            while block := stream.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()


def load_model(
    checkpoint: Checkpoint, *, dtype: str, device: str, trust_remote_code: bool = False, head: str = "AutoModel"
) -> Any:
    """Load the base model (or one with a head, by its class), ready to run: evaluation mode, no gradients."""
    import torch
    import transformers
    from safetensors import SafetensorError

    if dtype not in DTYPES:
        raise InputError(f"--dtype {dtype!r} is not one of {', '.join(DTYPES)}.")
    try:
        model, loaded = getattr(transformers, head).from_pretrained(
            checkpoint.folder,
            dtype=getattr(torch, dtype),
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise TheodoliteError(
            f"The model in {checkpoint.name!r} could not be loaded: {first_line(error)}"
        ) from error
    # transformers fills gaps with random numbers; the pooler comes after every layer and may be one.
    missing = sorted(name for name in loaded["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise TheodoliteError(
            f"The weights of {checkpoint.name!r} lack {len(missing)} of the model's tensors ({missing[0]} is the "
            "first), which would be random numbers; is config.json that of these weights?"
        )
    if head == "AutoModel" and getattr(model.config, "use_cache", False):
        model.config.use_cache = False
    try:
        return model.to(device).eval().requires_grad_(False)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {device!r} cannot be used here; try --device cpu. ({first_line(error)})"
        ) from error


def load_tokenizer(checkpoint: Checkpoint, *, trust_remote_code: bool = False) -> Any:
    """Load the tokenizer that belongs to the model."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            checkpoint.tokenizer or checkpoint.folder, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise TheodoliteError(
            f"The tokenizer of {checkpoint.name!r} could not be loaded: {first_line(error)}"
        ) from error
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # what transformers makes of a folder without one
        raise InputError(
            f"{checkpoint.name!r} has no vocabulary: wanted tokenizer.json, or the files that it is made from, "
            "beside config.json."
        )
    if not (tokenizer.is_fast or hasattr(tokenizer, "build_inputs_with_special_tokens")):
        raise InputError(
            f"{checkpoint.name!r} has a tokenizer ({type(tokenizer).__name__}) that says nothing of its special "
            "tokens; surveys need one with a tokenizer.json."
        )
    return tokenizer


def _from_hub(name: str, revision: str | None, progress: Progress | None) -> tuple[Path, str | None]:
    """Bring a hub model's files to the local cache of huggingface_hub; safetensors if there are any."""
    import huggingface_hub as hub
    from huggingface_hub import errors

    patterns = ["*.json", "*.txt", "*.model", "*.py", "model*.safetensors"]
    if progress:
        progress(f"looking for {name} in the hub's cache and on the hub")
    try:
        folder = Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
        if not any(folder.glob("*.safetensors")):
            folder = Path(
                hub.snapshot_download(name, revision=revision, allow_patterns=[*patterns, "pytorch_model*.bin"])
            )
    except errors.RevisionNotFoundError as error:
        raise InputError(
            f"MODEL {name!r} has no revision {revision!r}. (The hub's client said: {first_line(error)})"
        ) from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise _unknown(name, first_line(error)) from error
    except Exception as error:  # the hub's client raises whatever its transport does
        if isinstance(error, TheodoliteError):
            raise
        if revision is not None:
            raise OfflineError(
                f"MODEL {name!r}: revision {revision!r} is not in the hub's cache, and the model hub could not be "
                f"reached. (The hub's client said: {first_line(error)})"
            ) from error
        raise OfflineError(
            f"MODEL {name!r} is neither a catalogue name, a folder nor a .gguf file, and the model hub could not "
            f"be reached.{nearest(name, list(catalogue.MODELS))} Catalogue: {', '.join(catalogue.MODELS)}. "
            f"(The hub's client said: {first_line(error)})"
        ) from error
    return folder, folder.name if folder.parent.name == "snapshots" else revision


def _unknown(name: str, said: str) -> InputError:
    return InputError(
        f"MODEL {name!r} is neither a catalogue name ({', '.join(catalogue.MODELS)}), a folder, a .gguf file, nor "
        f"known to the model hub.{nearest(name, list(catalogue.MODELS))} (The hub's client said: {said})"
    )
