"""Checkpoints: resolve the name of a model, identify its files, and load the model and its tokenizer."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from theodolite.corpora.catalogue.entries import MODELS
from theodolite.corpora.catalogue.lookup import model_folder
from theodolite.corpora.catalogue.model_unpacking import gguf_folder, hide_progress_bars
from theodolite.errors import InputError, OfflineError, TheodoliteError, first_line, full_message, nearest
from theodolite.models import quirks
from theodolite.models.adapters import (
    ADAPTER_SETTINGS,
    adapter_sha256,
    add_adapter,
    architecture,
    find_adapter_base,
)
from theodolite.models.device_map import check_entries, check_weights_present, require_accelerate
from theodolite.models.weight_files import DTYPES, check_weights, choose_dtype, weights_sha256
from theodolite.text import pluralize

VOLATILE = {
    "_name_or_path",
    "architectures",
    "auto_map",
    "dtype",
    "padding",
    "torch_dtype",
    "transformers_version",
    "truncation",
    "use_cache",
}
"""Keys that state who saved the files and how, or that a survey sets itself."""


def settings_sha256(model: Path, tokenizer: Path | None = None) -> str:
    """Return the sha256 of the content of the settings files, whatever their formatting.

    These are the settings of the model, of its tokenizer and of its processor.
    """
    beside = tokenizer or model
    vocabulary = "tokenizer.json" if (beside / "tokenizer.json").is_file() else "tokenizer_config.json"
    digest = sha256()
    for path in (model / "config.json", beside / vocabulary, model / "preprocessor_config.json"):
        if path.is_file():
            digest.update(f"{path.name} {_read_settings(path)}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _read_settings(path: Path) -> str:
    """Return a settings file without volatile keys and with sorted keys; a file that is not JSON as its digest."""
    try:
        settings = json.loads(path.read_bytes())
    except ValueError:
        return sha256(path.read_bytes()).hexdigest()
    if isinstance(settings, dict):
        settings = {name: value for name, value in settings.items() if name not in VOLATILE}
    return json.dumps(settings, sort_keys=True)


def _is_quantized(folder: Path) -> bool:
    path = folder / "config.json"
    return path.is_file() and '"quantization_config"' in _read_settings(path)


Progress = Callable[[str], None]
DeviceMap = str | Mapping[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A model on disk: its folder and what identifies it."""

    name: str  # as the user gave it
    folder: Path
    revision: str | None = None
    tokenizer: Path | None = None  # its folder, if not that of the weights: trainers save it once
    adapter: Path | None = None  # the folder of an adapter of PEFT for these weights

    @cached_property
    def sha256(self) -> str:
        """The sha256 of the weight files, and of those of an adapter; computed on first use."""
        base = weights_sha256(self.folder)
        return (
            base if self.adapter is None else sha256(f"{base} {adapter_sha256(self.adapter)}".encode()).hexdigest()
        )

    @cached_property
    def settings_sha256(self) -> str:
        """The sha256 of the settings of the model, the tokenizer and the processor."""
        return settings_sha256(self.folder, self.tokenizer)

    def identity(self) -> dict[str, str]:
        """Return the digests that identify the model."""
        return {"sha256": self.sha256, "settings": self.settings_sha256}


def resolve(name: str, *, revision: str | None = None, progress: Progress | None = None) -> Checkpoint:
    """Find the model on disk, by catalogue name, folder, GGUF file or hub name; download it if necessary."""
    _check_revision(name, revision)
    if name in MODELS:
        folder = model_folder(name, progress)
        revision = MODELS[name].version
    elif Path(name).suffix.lower() == ".gguf":
        if not Path(name).is_file():
            raise InputError(f"MODEL {name!r}: there is no such file.")
        folder = gguf_folder(Path(name))
    elif Path(name).is_dir():
        folder = Path(name)
        if (base := find_adapter_base(folder)) is not None:
            return _resolve_adapter(folder, base, progress)
        if not (folder / "config.json").is_file():
            raise InputError(
                f"MODEL {name!r} is a folder without config.json; give a folder written by "
                "save_pretrained of transformers."
            )
    elif Path(name).is_file():
        raise InputError(
            f"MODEL {name!r} is a file, but only .gguf files are read as models. Give the folder of the model; "
            "for a file of vectors use `theodolite measure`."
        )
    elif name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"MODEL {name!r}: there is no such folder. Check the path.")
    else:
        folder, revision = _from_hub(name, revision, progress)
    check_weights(folder)
    return Checkpoint(name, folder, revision)


def _check_revision(name: str, revision: str | None) -> None:
    """Reject a revision of something that has none: it would be recorded without being true."""
    version = MODELS[name].version if name in MODELS else None
    if revision is None or revision == version:
        return
    if version is not None:
        raise InputError(f"--revision {revision!r}: the catalogue has {name} {version} only. Omit --revision.")
    if Path(name).suffix.lower() == ".gguf" or Path(name).is_dir():
        kind = "folder" if Path(name).is_dir() else "file"
        raise InputError(
            f"--revision {revision!r} applies to models of the hub, and MODEL {name!r} is a {kind}. Omit "
            "--revision."
        )


def locate_again(checkpoint: Checkpoint, expected: str) -> Checkpoint:
    """Find on this machine a model that another machine found, by its folder or its name; reject other weights."""
    exists = (checkpoint.folder / "config.json").is_file()
    local = checkpoint if exists else resolve(checkpoint.name, revision=checkpoint.revision)
    found = replace(local).sha256  # computed here: the checkpoint may have brought its own
    if found != expected:
        raise InputError(
            f"MODEL {checkpoint.name!r} in {local.folder} has other weights on this machine: expected sha256 "
            f"{expected[:12]}…, got {found[:12]}…. Give every machine the same weights."
        )
    return checkpoint if exists else local


def _resolve_adapter(folder: Path, base: str, progress: Progress | None) -> Checkpoint:
    """Find the model that an adapter changes, and return it with the adapter."""
    if importlib.util.find_spec("peft") is None:
        raise InputError(
            f"MODEL {str(folder)!r} contains only an adapter of {base}, not a complete model. Install "
            "the peft library, which reads both: pip install 'theodolite[peft]'. Or merge them: "
            "PeftModel.from_pretrained(base, folder).merge_and_unload().save_pretrained(merged), and give that "
            "folder."
        )
    try:
        found = resolve(base, progress=progress)
    except TheodoliteError as error:
        raise type(error)(
            f"MODEL {str(folder)!r} contains only an adapter of {base}, which was not found. Correct the name or "
            f"folder of that model (base_model_name_or_path) in its {ADAPTER_SETTINGS}. ({full_message(error)})"
        ) from error
    has_tokenizer = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
    return replace(found, name=str(folder), tokenizer=folder if has_tokenizer else None, adapter=folder)


@hide_progress_bars()
def load_model(
    checkpoint: Checkpoint,
    *,
    dtype: str,
    device: str,
    trust_remote_code: bool = False,
    head: str = "AutoModel",
    attn: str | None = None,
    device_map: DeviceMap | None = None,
) -> Any:
    """Load the base model, or with `head` a class with a head, in evaluation mode and without gradients.

    With a `device_map`, accelerate spreads it over devices, and `device` has no effect. `attn` is the name of an
    implementation of attention in transformers.
    """
    from pickle import UnpicklingError

    import torch
    import transformers
    from safetensors import SafetensorError

    if dtype not in DTYPES:
        raise InputError(f"--dtype {dtype!r} is not one of {', '.join(DTYPES)}.")
    dtype = choose_dtype(dtype, checkpoint.folder, device)
    given: dict[str, Any] = {} if attn is None else {"attn_implementation": attn}
    if device_map is not None:
        require_accelerate()
        given["device_map"] = device_map
    kind, saved_as = head, architecture(checkpoint.folder)
    # AutoModel would add a decoder of random numbers to the encoder of a T5.
    if checkpoint.adapter is not None or (head == "AutoModel" and saved_as.endswith("EncoderModel")):
        kind = saved_as
    try:
        if isinstance(device_map, Mapping):
            check_entries(device_map, _make_empty(checkpoint, kind, trust_remote_code=trust_remote_code))
        model, loaded = getattr(transformers, kind).from_pretrained(
            checkpoint.folder,
            dtype=getattr(torch, dtype),
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # rejected below, with the sizes
            **given,
        )
    except UnpicklingError as error:
        raise TheodoliteError(
            f"The weights of {checkpoint.name!r} are a pickle that cannot be read safely: it is damaged, or "
            "reading it would run code. If you trust it, load it with torch.load(weights_only=False) and write "
            "model.safetensors with save_pretrained."
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        if attn is not None and re.search("attn|attention", str(error), re.IGNORECASE):
            # The reason is the model, or what is installed.
            where = "" if "does not support" in str(error) else " on this machine"
            raise InputError(
                f"--attn {attn} cannot be used with {checkpoint.name!r}{where}; try --attn eager. "
                f"({first_line(error)})"
            ) from error
        advice = (
            " Its weights are quantized. If transformers loads it with its head, give theodolite.survey the "
            "loaded model instead of the folder."
            if _is_quantized(checkpoint.folder)
            else ""
        )
        raise TheodoliteError(
            f"The model in {checkpoint.name!r} could not be loaded: {first_line(error)}{advice}"
        ) from error
    # transformers initialises weights that are missing or of another size with random numbers.
    if mismatched := sorted(
        (name, tuple(found), tuple(expected)) for name, found, expected in loaded["mismatched_keys"]
    ):
        name, found, expected = mismatched[0]
        raise TheodoliteError(
            f"The weights of {checkpoint.name!r} do not fit its config.json: "
            f"{pluralize(len(mismatched), 'tensor')} of another size (the first is {name}: {found} in the file, "
            f"{expected} by config.json). Check that "
            "config.json belongs to these weights."
        )
    missing = sorted(name for name in loaded["missing_keys"] if not name.startswith(quirks.OPTIONAL_WEIGHTS))
    if missing:
        raise TheodoliteError(
            f"The weights of {checkpoint.name!r} lack {len(missing)} tensors of the model (the first is "
            f"{missing[0]}), which would be random numbers; check that config.json belongs to these weights."
        )
    if checkpoint.adapter is not None:
        model = add_adapter(model, checkpoint.adapter)
    if kind.endswith("EncoderModel"):
        model.config.is_encoder_decoder = False  # that of UMT5 says the contrary
    if head == "AutoModel" and getattr(model.config, "use_cache", False):
        model.config.use_cache = False
    if device_map is not None:
        check_weights_present(model)
        return model.eval().requires_grad_(False)
    try:
        return model.to(device).eval().requires_grad_(False)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {device!r} cannot be used on this machine; try --device cpu. ({first_line(error)})"
        ) from error


def _make_empty(checkpoint: Checkpoint, kind: str, *, trust_remote_code: bool) -> Any:
    """Return the model of a class of transformers on the device meta, without reading its weights."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=trust_remote_code)
    made = getattr(transformers, kind)
    with torch.device("meta"):
        if hasattr(made, "from_config"):  # a class that chooses another by the settings, such as AutoModel
            return made.from_config(config, trust_remote_code=trust_remote_code)
        return made._from_config(config)


def load_tokenizer(checkpoint: Checkpoint, *, trust_remote_code: bool = False) -> Any:
    """Load the tokenizer of the model."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            checkpoint.tokenizer or checkpoint.folder, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise TheodoliteError(
            f"The tokenizer of {checkpoint.name!r} could not be loaded: {first_line(error)}"
        ) from error
    check_tokenizer(tokenizer, checkpoint.name)
    return tokenizer


def check_tokenizer(tokenizer: Any, name: str) -> None:
    """Reject a tokenizer without a vocabulary, or one that does not report its special tokens."""
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # what transformers returns for a folder without one
        raise InputError(
            f"{name!r} has no vocabulary: expected tokenizer.json, or the files that it is made from, "
            "beside config.json."
        )
    if not (tokenizer.is_fast or hasattr(tokenizer, "build_inputs_with_special_tokens")):
        raise InputError(
            f"{name!r} has a tokenizer ({type(tokenizer).__name__}) that does not report its special "
            "tokens; surveys require one with a tokenizer.json."
        )


def _from_hub(name: str, revision: str | None, progress: Progress | None) -> tuple[Path, str | None]:
    """Download the files of a hub model to the cache of huggingface_hub; safetensors if there are any."""
    import huggingface_hub as hub
    from huggingface_hub import errors

    patterns = ["*.json", "*.txt", "*.model", "*.py", "model*.safetensors"]
    if progress:
        progress(f"looking for {name} in the cache of the hub and on the hub")
    try:
        folder = Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
        if not any(folder.glob("*.safetensors")):
            folder = Path(
                hub.snapshot_download(name, revision=revision, allow_patterns=[*patterns, "pytorch_model*.bin"])
            )
    except errors.RevisionNotFoundError as error:
        raise InputError(
            f"MODEL {name!r} has no revision {revision!r}. (The hub client reported: {first_line(error)})"
        ) from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise _unknown(name, first_line(error)) from error
    except Exception as error:  # the hub client raises whatever its transport raises
        if isinstance(error, TheodoliteError):
            raise
        if revision is not None:
            raise OfflineError(
                f"MODEL {name!r}: revision {revision!r} is not in the cache of the hub, and the model hub could "
                f"not be reached. (The hub client reported: {first_line(error)})"
            ) from error
        raise OfflineError(
            f"MODEL {name!r} is neither a catalogue name, a folder nor a .gguf file, and the model hub could not "
            f"be reached.{nearest(name, list(MODELS))} Catalogue: {', '.join(MODELS)}. "
            f"(The hub client reported: {first_line(error)})"
        ) from error
    return folder, folder.name if folder.parent.name == "snapshots" else revision


def _unknown(name: str, reported: str) -> InputError:
    return InputError(
        f"MODEL {name!r} is neither a catalogue name ({', '.join(MODELS)}), a folder, a .gguf file, nor "
        f"known to the model hub.{nearest(name, list(MODELS))} (The hub client reported: {reported})"
    )


Modality = Literal["text", "speech", "vision", "convolution"]
INPUT_MODALITIES: dict[str, Modality] = {
    "input_ids": "text",
    "pixel_values": "vision",
    "input_values": "speech",
    "input_features": "speech",
}


def find_modality(folder: Path, name: str, *, trust_remote_code: bool = False) -> Modality:
    """Return the input modality of the model in this folder, from its configuration."""
    from transformers import MODEL_MAPPING, AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError, ImportError) as error:
        line = first_line(error)
        raise TheodoliteError(f"The model in {name!r} could not be loaded: {line}") from error
    if type(config) not in MODEL_MAPPING:  # custom code: its input is known when it is loaded
        return "text"
    known = MODEL_MAPPING[type(config)]
    model = known[0] if isinstance(known, tuple | list) else known
    if quirks.is_convolutional(config):
        return "convolution"
    if model.main_input_name not in INPUT_MODALITIES:
        raise InputError(
            f"{model.__name__} takes {model.main_input_name!r}; surveys support {', '.join(INPUT_MODALITIES)}. "
            "theodolite.watch surveys any module by the names of its submodules."
        )
    return INPUT_MODALITIES[model.main_input_name]
