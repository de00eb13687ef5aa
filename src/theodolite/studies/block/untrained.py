"""Untrained models from a configuration, with random weights as before training."""

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
MAX_PARAMETERS = 2_000_000_000
"""Maximum number of parameters. The complete model is created, since some models scale weights by depth."""


def load_configuration(name: str) -> Any:
    """Load a configuration by name, from a config.json, or from a folder with one."""
    from transformers import AutoConfig

    if name in NAMED:
        return AutoConfig.for_model(**NAMED[name])
    path = Path(name)
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"--config {name!r} is not one of {', '.join(NAMED)}, a config.json, or a folder with a config.json."
            f"{nearest(name, list(NAMED))}"
        )
    try:
        return _check_size(AutoConfig.from_pretrained(file))
    except (OSError, ValueError, KeyError) as error:
        line = first_line(error)
        raise InputError(f"--config {name!r} could not be read: {line}") from error


def make_untrained(config: Any, seed: int, initialisation: str = "configuration") -> Any:
    """Create a model with the initialisation of its configuration and without dropout, reproducible by the seed.

    "torch" keeps PyTorch's default initialisation of every linear layer, with random biases, as in a block that is
    created from its class without a model.
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


def _check_size(config: Any) -> Any:
    """Raise if the model of a configuration is too large to create."""
    import torch
    from transformers import AutoModel

    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in AutoModel.from_config(config).parameters())
    if size > MAX_PARAMETERS:
        raise InputError(
            f"--config: the model has {size:,} parameters; at most {MAX_PARAMETERS:,} are allowed, because it is "
            "created anew for every seed. Reduce num_hidden_layers in its config.json."
        )
    return config
