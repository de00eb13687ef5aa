"""Small random models with an encoder and a decoder, of every kind that the table in docs/models.md names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tests.small_models import POSITIONS, TOKENIZERS, save

_T5 = {"d_model": 32, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 2, "d_kv": 16, "d_ff": 64}
_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": POSITIONS,
}
# Of the tokenizer that they share: RoBERTa's, which wraps a window in <s> and </s>.
_SPECIAL = {"vocab_size": 380, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
_FROM_PAD, _FROM_END = {"decoder_start_token_id": 1}, {"decoder_start_token_id": 2}

# By name: settings, and whether each stack ends in a norm of its own.
SUPPORTED: dict[str, tuple[dict[str, Any], bool]] = {
    "T5": (_T5 | _FROM_PAD, True),
    "MT5": (_T5 | _FROM_PAD, True),
    "UMT5": (_T5 | _FROM_PAD, True),
    "LongT5": (_T5 | _FROM_PAD | {"local_radius": 8}, True),
    "SwitchTransformers": (
        _T5
        | _FROM_PAD
        | {
            "num_experts": 2,
            "num_sparse_encoder_layers": 1,
            "num_sparse_decoder_layers": 1,
            "expert_capacity": 64,
        },
        True,
    ),
    "Bart": (_BART | _FROM_END, False),
    "MBart": (_BART, True),
    "PLBart": (_BART, False),
    "Marian": (_BART | _FROM_PAD, False),
    "Pegasus": (_BART | _FROM_PAD, True),
    "M2M100": (_BART | _FROM_END, True),
    "Blenderbot": (_BART | _FROM_END, True),
    "BlenderbotSmall": (_BART | _FROM_END, False),
    "Mvp": (_BART | _FROM_END, False),
}
BLOCKS = {"encoder": 2, "decoder": 3}
_LED = _BART | {"max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64}
_PROPHET = {
    "hidden_size": 32,
    "num_encoder_layers": 2,
    "num_decoder_layers": 3,
    "num_encoder_attention_heads": 2,
    "num_decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": POSITIONS,
    "use_cache": False,
}
_PADS = r"encoder embeddings has the shape \(1, 8, 32\) for \(1, 7\) tokens"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "LED": (_LED | {"attention_window": 8}, _PADS),
    "PegasusX": (_BART | {"block_size": 8}, _PADS),
    "ProphetNet": (_PROPHET, r"decoder embeddings has the shape \(1, 21, 32\) for \(1, 7\) tokens"),
    "FSMT": (
        _BART | {"langs": ["en", "de"], "src_vocab_size": 380, "tgt_vocab_size": 380},
        r"encoder embeddings has the shape \(7, 1, 32\) for \(1, 7\) tokens",
    ),
}


def build(name: str, **more: Any) -> Any:
    """Make a model of this kind: seeded, its weights large enough for every part to matter."""
    import transformers

    torch.manual_seed(0)
    settings = (SUPPORTED.get(name) or REFUSED[name])[0]
    config = getattr(transformers, f"{name}Config")(**(_SPECIAL | settings | more))
    for scale, value in (("initializer_range", 0.3), ("init_std", 0.3), ("initializer_factor", 1.0)):
        if hasattr(config, scale):
            setattr(config, scale, value)
    return transformers.AutoModel.from_config(config).eval()


def tokenizer() -> Any:
    """Make the tokenizer that these models read text with."""
    return TOKENIZERS["roberta"]()


def byt5(**more: Any) -> tuple[Any, Any]:
    """Make a T5 that reads bytes, and its tokenizer, which needs no files."""
    from transformers import ByT5Tokenizer

    return build(
        "T5", vocab_size=384, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, **more
    ), ByT5Tokenizer()


CANINE = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": POSITIONS,
    "num_hash_buckets": 64,
    "num_hash_functions": 4,
    "local_transformer_stride": 16,
    "initializer_range": 0.3,
}


def canine() -> tuple[Any, Any]:
    """Make a CANINE, and its tokenizer, which needs no files."""
    from transformers import CanineConfig, CanineModel, CanineTokenizer

    torch.manual_seed(0)
    tokenizer = CanineTokenizer()
    tokenizer._unicode_vocab_size = 0x20000  # an eighth of all code points: making a million units takes seconds
    return CanineModel(CanineConfig(**CANINE), add_pooling_layer=False).eval(), tokenizer


def saved(name: str, folder: Path) -> Path:
    """Save a model and its tokenizer as a user would."""
    made = byt5() if name == "ByT5" else canine() if name == "Canine" else (build(name), tokenizer())
    save(*made, folder)
    return folder
