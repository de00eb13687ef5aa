"""Small random models of pictures and of sound, of every kind that the table in docs/models.md names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

SIDE = 64
_VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "image_size": SIDE,
    "patch_size": 16,
    "initializer_range": 0.3,
}
_STAGES = {"depths": [1, 1, 2, 1], "hidden_sizes": [8, 16, 24, 32], "initializer_range": 0.3}


@dataclass(frozen=True)
class Kind:
    """A kind of model, and what its paper says its states are."""

    settings: dict[str, Any]
    names: tuple[str, ...]
    library: tuple[int | None, ...]  # the index of each layer in transformers' hidden_states
    dims: tuple[int, ...]  # one vector a place
    places: tuple[int, ...]  # of a picture of SIDE x SIDE
    map: bool = False  # its states are maps, which may be flattened
    first: bool = False  # position 0 is no mere corner


_BLOCKS = ("embeddings", "block 1", "block 2", "block 3")
VISION = {
    "ViT": Kind(_VIT, (*_BLOCKS, "final norm"), (0, 1, 2, 3, None), (32,) * 5, (17,) * 5, first=True),
    "DeiT": Kind(_VIT, (*_BLOCKS, "final norm"), (0, 1, 2, 3, None), (32,) * 5, (18,) * 5, first=True),
    "Dinov2": Kind(
        _VIT | {"mlp_ratio": 2},
        ("embeddings", "block 1", "block 2", "block 3", "final norm"),
        (0, 1, 2, 3, None),
        (32,) * 5,
        (17,) * 5,
        first=True,
    ),
    "Beit": Kind(_VIT, _BLOCKS, (0, 1, 2, 3), (32,) * 4, (17,) * 4, first=True),
    "Segformer": Kind(
        _STAGES | {"num_attention_heads": [1, 2, 2, 2], "decoder_hidden_size": 16},
        ("stage 1", "stage 2", "stage 3", "stage 4"),
        (0, 1, 2, 3),
        (8, 16, 24, 32),
        (256, 64, 16, 4),
        map=True,
    ),
    "Swin": Kind(
        {"embed_dim": 8, "depths": [1, 2], "num_heads": [1, 2], "image_size": SIDE, "window_size": 4},
        ("embeddings", "stage 1", "stage 2", "final norm"),
        (0, 1, 2, None),
        (8, 16, 16, 16),
        (256, 64, 64, 64),
    ),
    "ResNet": Kind(
        _STAGES | {"embedding_size": 8},
        ("embeddings", "stage 1", "stage 2", "stage 3", "stage 4"),
        (0, 1, 2, 3, 4),
        (8, 8, 16, 24, 32),
        (256, 256, 64, 16, 4),
        map=True,
    ),
    # Blocks of each stage, by its paper's table and these coefficients: 1, 1, 1, 2, 2, 2, 1.
    "EfficientNet": Kind(
        {"width_coefficient": 0.25, "depth_coefficient": 0.4, "image_size": SIDE, "hidden_dim": 320},
        ("embeddings", *(f"stage {number}" for number in range(1, 8))),
        (0, 1, 2, 3, 5, 7, 9, 10),
        (8, 8, 8, 16, 24, 32, 48, 80),
        (1024, 1024, 256, 64, 16, 16, 4, 4),
        map=True,
    ),
    "ConvNext": Kind(
        _STAGES,
        ("embeddings", "stage 1", "stage 2", "stage 3", "stage 4"),
        (0, 1, 2, 3, 4),
        (8, 8, 16, 24, 32),
        (256, 256, 64, 16, 4),
        map=True,
    ),
    "Cvt": Kind(
        {"embed_dim": [8, 16, 24], "depth": [1, 2, 3], "num_heads": [1, 2, 2]},
        ("stage 1", "stage 2", "stage 3"),
        (0, 1, 2),
        (8, 16, 24),
        (256, 64, 16),
        map=True,
    ),
}
_WAVE = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "conv_dim": (16,) * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "initializer_range": 0.3,
}
_STABLE = _WAVE | {"do_stable_layer_norm": True, "feat_extract_norm": "layer"}
# By name: the class in transformers, its settings, and whether a norm follows the last block.
WAVES = {
    "Wav2Vec2": ("Wav2Vec2", _WAVE, False),
    "Wav2Vec2, layer norm": ("Wav2Vec2", _STABLE, True),
    "Hubert": ("Hubert", _WAVE, False),
    "Hubert, layer norm": ("Hubert", _STABLE, True),
    "WavLM": ("WavLM", _WAVE, False),
    "Data2VecAudio": ("Data2VecAudio", _WAVE, False),
}
_WHISPER = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 60,
    "max_target_positions": 20,
    "pad_token_id": 1,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "decoder_start_token_id": 2,
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
    "init_std": 0.3,
}


@dataclass(frozen=True)
class Document:
    """What a corpus hands a feeder, as far as feeders look at it."""

    name: str
    label: str = ""
    window: int = 0


def picture_model(name: str) -> Any:
    """Make a model of pictures: seeded, its weights large enough for every part to matter."""
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**VISION[name].settings)
    model = getattr(transformers, f"{name}Model")(config).eval()
    if name in ("EfficientNet", "Swin", "Cvt"):  # whose weights are so small that blocks add less than rounding
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    torch.nn.init.kaiming_normal_(parameter)
            for module in model.modules():
                if isinstance(module, torch.nn.BatchNorm2d):
                    torch.nn.init.ones_(module.weight)
    return model


def processor() -> Any:
    """Make an image processor that gives every picture the size SIDE x SIDE."""
    from transformers import ViTImageProcessorPil

    return ViTImageProcessorPil(size={"height": SIDE, "width": SIDE})


def picture(document: Document) -> Any:
    """Make a picture of noise of this document's own."""
    from PIL import Image

    rng = np.random.default_rng(sum(document.name.encode()))
    return Image.fromarray(rng.integers(0, 256, (70, 90, 3), dtype=np.uint8))


def wave_model(name: str) -> Any:
    """Make a model of wave forms."""
    import transformers

    torch.manual_seed(0)
    kind, settings, _ = WAVES[name]
    return getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**settings)).eval()


def sound(document: Document) -> NDArray[np.float32]:
    """Make a sound of noise, longer for longer names."""
    rng = np.random.default_rng(sum(document.name.encode()))
    return rng.standard_normal(1777 * len(document.name)).astype(np.float32)


def whisper_model() -> Any:
    """Make a Whisper with the head that it transcribes with."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(WhisperConfig(**_WHISPER)).eval()
    settings = model.generation_config
    # The last id: what comes after it are time stamps, by which generation seeks, for ever in a random model.
    settings.no_timestamps_token_id, settings.is_multilingual, settings.max_length = 59, False, 20
    return model
