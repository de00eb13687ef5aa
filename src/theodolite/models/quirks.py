"""What is special to single architectures, in one place.

The rest of the package finds blocks, norms and padding by looking at a model (`text_anatomy`, `media_anatomy`).
What cannot be seen that way is listed here, each with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from theodolite.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from theodolite.models.stacks import Stack

CONVOLUTIONAL = (
    "bit convnext convnextv2 cvt efficientnet focalnet mobilenet_v1 mobilenet_v2 poolformer regnet resnet textnet"
).split()
"""Model types whose states are feature maps. Those of SegFormer are too, but it is a transformer."""
CODE_POINTS = 0xD000
"""CANINE reads Unicode code points and has no vocabulary size; those below this one are ordinary characters."""
LANGUAGE_FIRST = ("mbart", "plbart")
"""Model types whose decoder starts with the token that ends the window: it names the language."""
POSITIONS_AFTER_PADDING = (
    "roberta camembert xlm-roberta longformer xmod data2vec-text mpnet esm luke"  # prefixes of model types
).split()
"""RoBERTa and related models number positions from padding_idx + 1."""
LOCAL_ATTENTION = ("sliding_window", "attention_chunk_size", "local_attention", "attention_window", "window_size")
"""Settings of models in which a block attends to a limited number of tokens."""
SELECTED_TOKENS = "index_topk"
"""Setting of models in which a block selects the tokens that it attends to; the choice depends on padding too."""
OPTIONAL_WEIGHTS = ("pooler.",)
"""Weights that may be missing from a checkpoint: the pooler comes after every layer that is read."""


def is_convolutional(config: Any) -> bool:
    """Return whether the states of a model are feature maps."""
    return config.model_type in CONVOLUTIONAL


def check_attention(model: nn.Module) -> None:
    """Reject BigBird's sparse attention, which changes the model during the survey."""
    config: Any = model.config
    if getattr(config, "attention_type", None) == "block_sparse":
        raise InputError(
            f"{type(model).__name__} cannot be surveyed: its sparse attention is disabled permanently by the "
            'first short text; set "attention_type": "original_full" in its config.json.'
        )


def canine_stacks(model: Any) -> tuple[Stack, ...] | None:
    """Return the stacks of CANINE (characters, every fourth character, characters); None for other models."""
    if model.config.model_type != "canine":
        return None
    from theodolite.models.stacks import Stack

    return (
        Stack("characters", tuple(model.initial_char_encoder.layer)),
        Stack("downsampled", tuple(model.encoder.layer)),
        Stack("final characters", tuple(model.final_char_encoder.layer)),
    )


def albert_stacks(model: Any) -> tuple[Stack, ...] | None:
    """Return the stack of ALBERT, whose layers share blocks: its block for each layer; None for other models."""
    if model.config.model_type != "albert":
        return None
    from theodolite.models.stacks import Stack

    groups, count = model.encoder.albert_layer_groups, model.config.num_hidden_layers
    # The layers of a group follow each other, as in transformers.
    of_layer = (groups[int(layer / (count / len(groups)))] for layer in range(count))
    return (Stack("", tuple(block for group in of_layer for block in group.albert_layers)),)


def vocabulary_size(config: Any) -> int | None:
    """Return the number of input ids, or None if the configuration does not state it."""
    return CODE_POINTS if config.model_type == "canine" else getattr(config, "vocab_size", None)


def downsamples(config: Any) -> bool:
    """Return whether some layers have fewer positions than the input, as in CANINE."""
    return getattr(config, "downsampling_rate", None) is not None


def shortest_window(config: Any) -> int:
    """Return the minimum number of tokens of an input: CANINE requires its downsampling rate."""
    return int(getattr(config, "downsampling_rate", 1))


def padding_id(config: Any, tokenizer: Any) -> int:
    """Return the id to pad with: that of the model, else of the tokenizer, else 0.

    RoBERTa computes positions from the pad id, so that padding with another id would change every state.
    """
    configured = getattr(config, "pad_token_id", None)
    return next((i for i in (configured, tokenizer.pad_token_id) if i is not None), 0)


def first_position_id(config: Any) -> int:
    """Return the position id of the first token of a window."""
    after_padding = config.model_type.startswith(tuple(POSITIONS_AFTER_PADDING))
    return (config.pad_token_id or 0) + 1 if after_padding else 0


def position_limit(config: Any) -> int:
    """Return the maximum number of tokens of a window, 2^31 where the model has no limit."""
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= 0:
        return 2**31
    return positions - first_position_id(config)  # the table has that many more rows than a window has tokens


def attends_locally(config: Any, longest: int) -> bool:
    """Return whether some block of the model attends to fewer than `longest` tokens."""
    limits = [getattr(config, name, None) for name in LOCAL_ATTENTION]
    return any(isinstance(limit, int) and 0 < limit < longest for limit in limits)


def independent_length(config: Any) -> int:
    """Return the most tokens for which the states of a window do not depend on how long its batch is.

    2^31 if they never do. LongRoPE chooses between two sets of frequencies by the longest window of a batch.
    """
    parameters = getattr(config, "rope_parameters", None) or {}
    by_layer_type = (value for value in parameters.values() if isinstance(value, Mapping))
    each = [parameters, *by_layer_type]
    limits = [rope.get("original_max_position_embeddings") for rope in each if rope.get("rope_type") == "longrope"]
    limits.append(getattr(config, SELECTED_TOKENS, None))
    return min((limit for limit in limits if isinstance(limit, int)), default=2**31)


def ignores_position_ids(config: Any) -> bool:
    """Return whether attention depends on places in the input: Llama 4 scales it so, DeepSeek selects tokens."""
    scales = getattr(config, "attn_temperature_tuning", None) and config.model_type.startswith("llama4")
    return bool(scales) or getattr(config, SELECTED_TOKENS, None) is not None


def decoder_start_id(config: Any) -> int | None:
    """Return the id that starts the input of the decoder of an encoder-decoder model; None for other models."""
    if not getattr(config, "is_encoder_decoder", False):
        return None
    known = (getattr(config, name, None) for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"))
    return next((int(start) for start in known if start is not None), 0)


def starts_with_language(config: Any) -> bool:
    """Return whether the decoder starts with the last special token of the window, which names the language."""
    return config.model_type in LANGUAGE_FIRST
