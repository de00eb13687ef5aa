"""Configurations by name: blocks as they are before anything is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from theodolite.errors import InputError, first_line, nearest

NAMED: dict[str, dict[str, Any]] = {
    "bert-base": {"model_type": "bert"},  # transformers' own defaults are BERT-base and the smallest GPT-2
    "gpt2": {"model_type": "gpt2"},
    "llama": {  # the shapes of SmolLM2-135M; transformers' defaults are those of seven billion parameters
        "model_type": "llama",
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "rope_theta": 100000.0,
    },
}
INITIALISATIONS = ("configuration", "torch")
LARGEST = 2_000_000_000
"""Parameters of a model that is made anew for every seed; the whole of it, since some scale weights by depth."""


def configuration(name: str) -> Any:
    """Return the configuration that a name, a config.json or a folder with one stands for."""
    from transformers import AutoConfig

    if name in NAMED:
        return AutoConfig.for_model(**NAMED[name])
    path = Path(name)
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"--config {name!r} is neither one of {', '.join(NAMED)} nor a config.json or a folder with one."
            f"{nearest(name, list(NAMED))}"
        )
    try:
        return _checked(AutoConfig.from_pretrained(file))
    except (OSError, ValueError, KeyError) as error:
        line = first_line(error)
        raise InputError(f"--config {name!r} could not be read: {line}") from error


def untrained(config: Any, seed: int, initialisation: str = "configuration") -> Any:
    """Return a model as its configuration initialises it, the same for the same seed; dropout off.

    "torch" leaves every linear map as torch makes it, biases drawn too: what a block is that is built by its class
    alone, outside a model.
    """
    import torch
    from transformers import AutoModel

    config.use_cache = False
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModel.from_config(config).eval().requires_grad_(False)
        if initialisation == "torch":
            for part in model.modules():
                if isinstance(part, torch.nn.Linear):
                    part.reset_parameters()
    return model


def _checked(config: Any) -> Any:
    """Refuse a configuration of a model that is too large to make."""
    import torch
    from transformers import AutoModel

    with torch.device("meta"):
        size = sum(each.numel() for each in AutoModel.from_config(config).parameters())
    if size > LARGEST:
        raise InputError(
            f"--config: a model of {size:,} parameters is too large to be made anew for every seed (at most "
            f"{LARGEST:,}); lower num_hidden_layers in its config.json."
        )
    return config
