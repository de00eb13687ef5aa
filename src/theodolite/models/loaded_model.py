"""A model that is already loaded: surveyed as it is, with its adapters, quantization and devices."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import nn

from theodolite.corpora.catalogue.entries import MODELS
from theodolite.corpora.catalogue.lookup import model_folder
from theodolite.errors import InputError, TheodoliteError, first_line
from theodolite.models.checkpoint import INPUT_MODALITIES, VOLATILE, check_tokenizer
from theodolite.models.device_map import check_weights_present, has_offloaded, input_device
from theodolite.models.quirks import OPTIONAL_WEIGHTS
from theodolite.models.tensor_hash import ADDRESS, quant_state, tensors_sha256


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model in memory with its tokenizer, and what identifies it; used in place of a checkpoint."""

    name: str
    network: Any  # without a head
    tokenizer: Any
    adapters: Mapping[str, Any]  # configurations of PEFT, by name
    revision: None = None

    @cached_property
    def sha256(self) -> str:
        """The sha256 of all tensors, those of adapters and quantized ones included; computed on first use."""
        return tensors_sha256(self.network, omit=OPTIONAL_WEIGHTS)

    @cached_property
    def settings_sha256(self) -> str:
        """The sha256 of the settings of the model, its active adapters and its tokenizer."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        active = {
            name.replace("_orig_mod.", ""): [getattr(module, each, None) for each in _ADAPTER_STATE]
            for name, module in self._adapted_modules()
        }
        settings = {
            "config": _without_volatile(self.network.config.to_dict()),
            "tokenizer": _without_volatile(json.loads(backend.to_str())) if backend is not None else None,
            "adapters": {name: config.to_dict() for name, config in self.adapters.items()},
            "active": active,
        }
        written = json.dumps(settings, sort_keys=True, default=_plain)
        return sha256(written.encode("utf-8", "surrogatepass")).hexdigest()

    def _adapted_modules(self) -> list[tuple[str, Any]]:
        return [
            (name, module)
            for name, module in self.network.named_modules()
            if isinstance(getattr(module, "disable_adapters", None), bool)  # a method of models of transformers
        ]

    def _active_adapters(self) -> list[str]:
        """Return the names of the adapters that are in use."""
        modules = [module for _, module in self._adapted_modules()]
        used = {name for module in modules if not module.disable_adapters for name in module.active_adapters}
        return sorted(used.intersection(self.adapters)) if modules else sorted(self.adapters)

    def identity(self) -> dict[str, str]:
        """Return the digests that identify the model."""
        return {"sha256": self.sha256, "settings": self.settings_sha256}

    @property
    def weights_change(self) -> bool:
        """Whether forward passes change tensors, so that they cannot be hashed at the same time.

        accelerate loads and frees offloaded weights. On some CPUs, bitsandbytes packs weights of 4 bits anew.
        """
        return has_offloaded(self.network) or any(
            each.device.type == "cpu" and quant_state(each) is not None for each in self.network.parameters()
        )

    @property
    def device(self) -> str:
        """The device on which the model reads its input."""
        return str(input_device(self.network))

    @property
    def dtype(self) -> str:
        """The precision of its states."""
        return str(self.network.dtype).removeprefix("torch.")

    def facts(self) -> dict[str, Any]:
        """Return what survey.json records besides what it records about a checkpoint."""
        quantized = getattr(self.network.config, "quantization_config", None)
        if quantized is not None and not isinstance(quantized, dict):
            quantized = quantized.to_dict()
        method = (quantized or {}).get("quant_method")
        return {
            "loaded": True,
            "adapters": self._active_adapters(),
            "quantization": None if method is None else str(getattr(method, "value", method)),
        }


_ADAPTER_STATE = ("active_adapters", "disable_adapters", "scaling")


def wrap_model(model: Any, tokenizer: Any = None) -> LoadedModel:
    """Find the part of a loaded model to survey, its name and its tokenizer."""
    network, adapters = _find_network(model)
    if INPUT_MODALITIES.get(getattr(network, "main_input_name", "")) != "text":
        raise InputError(
            f"MODEL: {type(network).__name__} is loaded and does not read text. Save it with save_pretrained and "
            "give that folder, or use theodolite.watch."
        )
    check_weights_present(network)
    known = str(getattr(network.config, "_name_or_path", "") or getattr(network, "name_or_path", "") or "")
    return LoadedModel(known or type(network).__name__, network, _find_tokenizer(tokenizer, known), adapters)


def _find_network(model: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the transformers model without head, adapters included, and the configurations of the adapters."""
    from transformers import PreTrainedModel

    inner = _uncompiled(model)
    adapters = getattr(inner, "peft_config", None) or {}
    if hasattr(inner, "get_base_model"):  # a PeftModel
        virtual = [name for name, config in adapters.items() if getattr(config, "is_prompt_learning", False)]
        if virtual:
            raise InputError(
                f"MODEL has the adapter {virtual[0]!r}, which adds virtual tokens: their states belong to no "
                "token of the text. Survey the model without it."
            )
        inner = _uncompiled(inner.get_base_model())
    if not isinstance(inner, PreTrainedModel):
        # A pipeline of transformers, and a SentenceTransformer.
        for path in ("model", "transformers_model"):
            if isinstance(getattr(inner, path, None), PreTrainedModel):
                raise InputError(
                    f"MODEL is a {type(model).__name__}, which contains a model of transformers. Give that and "
                    f"its tokenizer: `theodolite.survey(x.{path}, corpus, tokenizer=x.tokenizer)`, where x is the "
                    "value given."
                )
        raise InputError(
            f"MODEL: expected a name or a folder, or a model of transformers, got {type(model).__name__}. For any "
            "other module use theodolite.watch."
        )
    return _uncompiled(inner.base_model), adapters


def _uncompiled(model: Any) -> Any:
    return getattr(model, "_orig_mod", model)


def _find_tokenizer(given: Any, known: str) -> Any:
    """Return the given tokenizer, or load it from a name or folder: the given one, or that of the model.

    A name of the catalogue is that of one of its models.
    """
    if given is not None and not isinstance(given, str | Path):
        if not callable(getattr(given, "get_vocab", None)):
            raise InputError(f"--tokenizer: expected a tokenizer or its folder, got {type(given).__name__}.")
        return given
    place = str(model_folder(given) if given in MODELS else given or known)
    if not place:
        raise InputError(
            "MODEL is loaded and has no name by which its tokenizer could be found. Give it with --tokenizer."
        )
    is_path = isinstance(given, Path) or not _may_be_on_hub(place)
    if is_path and not Path(place).exists():
        if given is not None:
            raise InputError(f"--tokenizer {place!r}: there is no such folder. Check the path.")
        raise InputError(
            f"MODEL is loaded, and the folder {place!r} from where it came no longer exists, so its tokenizer was "
            "not found. Give it with --tokenizer."
        )
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(place)
        check_tokenizer(tokenizer, place)
    except (OSError, ValueError, KeyError, ImportError, TheodoliteError) as error:
        if given is not None:
            where = "" if Path(place).exists() else " (not a folder, so a name of the hub)"
            raise InputError(f"--tokenizer {place!r}{where} could not be loaded: {first_line(error)}") from error
        raise InputError(
            f"MODEL is loaded, and no tokenizer was found in {place!r}, from where it came. Give it with "
            f"--tokenizer. ({first_line(error)})"
        ) from error
    return tokenizer


def _may_be_on_hub(name: str) -> bool:
    """Return whether a name is written as those of models of the hub are."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


@contextmanager
def borrow(loaded: LoadedModel) -> Iterator[None]:
    """Put the model into evaluation mode for a survey, and leave it as it was: modes, cache and random numbers.

    Compiled code is not used meanwhile: the states inside a compiled graph cannot be read.
    """
    network = loaded.network
    training = [module for module in network.modules() if module.training]
    uses_cache = getattr(network.config, "use_cache", None)
    gpus = {each.device.index for each in network.parameters() if each.is_cuda}
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(sorted(gpus)))
        if is_compiled(network):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        try:
            for module in training:
                module.training = False
            if uses_cache:
                network.config.use_cache = False
            yield
        finally:
            for module in training:
                module.training = True
            if uses_cache:
                network.config.use_cache = uses_cache


def is_compiled(model: nn.Module) -> bool:
    """Return whether torch.compile was applied to the model, a part of it, or the forward method of one."""
    return any(
        "_orig_mod" in part._modules
        or getattr(part, "_compiled_call_impl", None) is not None
        or hasattr(part.forward, "_torchdynamo_orig_callable")
        for part in model.modules()
    )


def _without_volatile(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in VOLATILE}


def _plain(value: Any) -> Any:
    """Return a value as JSON can write it, the same in every process."""
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else ADDRESS.sub("", str(value))
