"""Whisper's checkpoint as OpenAI publishes it, renamed to transformers' names, with a config to match."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from theodolite.sources.catalogue.archive import copy_members
from theodolite.sources.catalogue.bars import no_bars
from theodolite.sources.catalogue.cache import Facts

# In this order: a cross attention is named before the attention whose name it contains.
_RENAMED = (
    (r"\.blocks\.", ".layers."),
    (r"\.cross_attn_ln\.", ".encoder_attn_layer_norm."),
    (r"\.cross_attn\.", ".encoder_attn."),
    (r"\.attn_ln\.", ".self_attn_layer_norm."),
    (r"\.attn\.", ".self_attn."),
    (r"\.mlp_ln\.", ".final_layer_norm."),
    (r"\.mlp\.0\.", ".fc1."),
    (r"\.mlp\.2\.", ".fc2."),
    (r"\.query\.", ".q_proj."),
    (r"\.key\.", ".k_proj."),
    (r"\.value\.", ".v_proj."),
    (r"\.out\.", ".out_proj."),
    (r"\.ln(_post)?\.", ".layer_norm."),
    (r"\.token_embedding\.", ".embed_tokens."),
    (r"\.positional_embedding$", ".embed_positions.weight"),
)
# Special tokens of the English-only vocabulary: 50256 ends a text, 50257 starts a transcript,
# 50362 asks for no time stamps; 220 is a lone space.
_END, _START, _NO_TIMESTAMPS, _SPACE = 50256, 50257, 50362, 220


def unpack_whisper(archive: Path, member: str, made: Path) -> Facts:
    """Write config, safetensors (float32) and the feature extractor's config; there is no tokenizer to write."""
    import torch
    from transformers import GenerationConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

    pickle = archive.parent / Path(member).name
    copy_members(archive, {member: pickle})
    checkpoint = torch.load(pickle, weights_only=True, map_location="cpu")
    with torch.device("meta"):
        model = WhisperForConditionalGeneration(config_of(checkpoint["dims"]))
    weights = {rename(name): weight.float() for name, weight in checkpoint["model_state_dict"].items()}
    weights["proj_out.weight"] = weights["model.decoder.embed_tokens.weight"]
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    model.generation_config = GenerationConfig(
        bos_token_id=_END,
        eos_token_id=_END,
        pad_token_id=_END,
        decoder_start_token_id=_START,
        begin_suppress_tokens=[_SPACE, _END],
        no_timestamps_token_id=_NO_TIMESTAMPS,
        is_multilingual=False,
        max_length=checkpoint["dims"]["n_text_ctx"],
    )
    with no_bars():
        model.save_pretrained(str(made))
    WhisperFeatureExtractor(feature_size=checkpoint["dims"]["n_mels"]).save_pretrained(str(made))
    return {}


def rename(name: str) -> str:
    """Return transformers' name of the parameter.

    >>> rename("decoder.blocks.3.cross_attn.query.weight")
    'model.decoder.layers.3.encoder_attn.q_proj.weight'
    """
    for pattern, new in _RENAMED:
        name = re.sub(pattern, new, name)
    return f"model.{name}"


def config_of(dims: Mapping[str, int]) -> Any:
    """Return the WhisperConfig of the sizes that the checkpoint states; inner layers are four times as wide."""
    from transformers import WhisperConfig

    return WhisperConfig(
        vocab_size=dims["n_vocab"],
        num_mel_bins=dims["n_mels"],
        d_model=dims["n_audio_state"],
        encoder_layers=dims["n_audio_layer"],
        encoder_attention_heads=dims["n_audio_head"],
        encoder_ffn_dim=4 * dims["n_audio_state"],
        decoder_layers=dims["n_text_layer"],
        decoder_attention_heads=dims["n_text_head"],
        decoder_ffn_dim=4 * dims["n_text_state"],
        max_source_positions=dims["n_audio_ctx"],
        max_target_positions=dims["n_text_ctx"],
        bos_token_id=_END,
        eos_token_id=_END,
        pad_token_id=_END,
        decoder_start_token_id=_START,
        begin_suppress_tokens=[_SPACE, _END],
    )
