"""The placement of norms: families known from their papers, detected from the computation and not by names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.small_models import FACTS, load
from torch import nn

from theodolite.models.norm_placement import PLACEMENTS, find_placement, trace_placement
from theodolite.models.text_anatomy import Anatomy

SIZES = {
    "vocab_size": 120,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
GROUPED = SIZES | {"num_key_value_heads": 2, "head_dim": 8}
GPT = {"vocab_size": 120, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}
MARKS = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0)
LOW = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8}
EXPERTS = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2}

FAMILIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "BERT": ("Bert", SIZES, "post"),
    "MPNet": ("MPNet", SIZES, "post"),
    "FNet": ("FNet", SIZES, "post"),
    "the first GPT": ("OpenAIGPT", GPT, "post"),
    "OPT-350m": ("OPT", SIZES | {"ffn_dim": 64, "word_embed_proj_dim": 32, "do_layer_norm_before": False}, "post"),
    "OPT": ("OPT", SIZES | {"ffn_dim": 64, "word_embed_proj_dim": 32}, "pre"),
    "GPT-2": ("GPT2", GPT, "pre"),
    "BLOOM": ("Bloom", {"vocab_size": 120, "hidden_size": 32, "n_layer": 3, "n_head": 4}, "pre"),
    "ESM": ("Esm", SIZES | {"pad_token_id": 0, "mask_token_id": 1, "position_embedding_type": "rotary"}, "pre"),
    "ModernBERT": ("ModernBert", SIZES | MARKS, "pre"),
    "Llama": ("Llama", GROUPED, "pre"),
    "Gemma": ("Gemma", GROUPED, "pre"),
    "Qwen3, norms inside attention": ("Qwen3", GROUPED, "pre"),
    "Granite, scaled branches": ("Granite", GROUPED | {"residual_multiplier": 0.22}, "pre"),
    "Mixtral, experts": ("Mixtral", GROUPED | {"num_local_experts": 4}, "pre"),
    "DeepSeek-V3, narrow norms": (
        "DeepseekV3",
        SIZES | LOW | EXPERTS | {"num_key_value_heads": 4, "moe_intermediate_size": 32},
        "pre",
    ),
    "BitNet, norms inside sublayers": ("BitNet", GROUPED, "pre"),
    "Pythia, one after the other": ("GPTNeoX", SIZES | {"use_parallel_residual": False}, "pre"),
    "Pythia": ("GPTNeoX", SIZES, "parallel"),
    "GPT-J": ("GPTJ", GPT | {"rotary_dim": 4}, "parallel"),
    "Phi": ("Phi", GROUPED, "parallel"),
    "Cohere": ("Cohere", GROUPED | MARKS, "parallel"),
    "Falcon": ("Falcon", SIZES | {"parallel_attn": True}, "parallel"),
    "Falcon-40b": ("Falcon", SIZES | {"new_decoder_architecture": True}, "parallel"),
    "Falcon, one after the other": ("Falcon", SIZES | {"parallel_attn": False}, "pre"),
    "Gemma 2": ("Gemma2", GROUPED, "sandwich"),
    "Gemma 3": ("Gemma3Text", GROUPED, "sandwich"),
    "GLM-4": ("Glm4", GROUPED | MARKS, "sandwich"),
    "OLMo 2": ("Olmo2", GROUPED | MARKS, "branch"),
}


def built(name: str, settings: dict[str, Any]) -> Any:
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**settings)
    config.initializer_range = 0.3
    model = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # gamma and beta as a trained model has them
                parameter += 0.3 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family: str) -> None:
    name, settings, expected = FAMILIES[family]
    anatomy = Anatomy.of(built(name, settings))
    found = find_placement(anatomy)
    assert found.word == expected
    assert found.word in PLACEMENTS
    names = {anatomy.layers[layer].name for layer in found.output_norms}
    blocks = {f"block {number}" for number in range(1, 4)}
    assert names & blocks == (blocks if expected == "post" else set())
    assert ("final norm" in names) == (anatomy.final_norm is not None)


@pytest.mark.parametrize("family", ["BERT", "GPT-2", "Gemma 3"])
def test_after_the_forward_passes_the_model_is_not_used(family: str) -> None:
    """A survey finds the placement while the model reads the corpus."""
    name, settings, expected = FAMILIES[family]
    anatomy = Anatomy.of(built(name, settings))
    found, find = find_placement(anatomy), trace_placement(anatomy)
    with torch.no_grad():
        for parameter in anatomy.model.parameters():
            parameter.fill_(torch.nan)
    again = find()
    assert again.word == found.word == expected
    assert again.output_norms.keys() == found.output_norms.keys()
    for layer, norm in found.output_norms.items():
        assert torch.equal(again.output_norms[layer].gamma, norm.gamma)


def states(anatomy: Anatomy) -> dict[int, torch.Tensor]:
    seen: dict[int, torch.Tensor] = {}
    ids = torch.tensor([[9, 40, 41, 77, 12, 63]])
    expected = [layer.index for layer in anatomy.layers]
    with anatomy.hook_layers(lambda index, state: seen.update({index: state[0].double()}), expected) as forward:
        forward(input_ids=ids, attention_mask=torch.ones_like(ids))
    return seen


@pytest.mark.parametrize("family", ["BERT", "ModernBERT", "GPT-2", "Gemma 3", "BLOOM", "Llama"])
def test_a_state_that_leaves_a_norm_has_its_gamma_and_beta(family: str) -> None:
    name, settings, _ = FAMILIES[family]
    anatomy = Anatomy.of(built(name, settings))
    seen, found = states(anatomy), find_placement(anatomy)
    for layer, norm in found.output_norms.items():
        z = (seen[layer] - norm.beta) / norm.gamma
        assert torch.allclose(z.square().mean(dim=1), torch.ones(6, dtype=torch.float64), atol=1e-3), layer
        if norm.kind == "LayerNorm":
            assert z.mean(dim=1).abs().max() < 1e-5
    for layer in set(seen) - set(found.output_norms):  # and no other state has rows of one length
        lengths = seen[layer].norm(dim=1)
        assert lengths.std() > 1e-3 * lengths.mean()


EMBEDDED = {"BERT": True, "ModernBERT": True, "BLOOM": True, "GPT-2": False, "Gemma 3": False, "FNet": False}


@pytest.mark.parametrize("family", EMBEDDED)
def test_embeddings_that_leave_a_norm(family: str) -> None:
    name, settings, _ = FAMILIES[family]
    assert (0 in find_placement(Anatomy.of(built(name, settings))).output_norms) == EMBEDDED[family]


@pytest.mark.parametrize("family", FACTS)
def test_the_small_models(small_model: Any, family: str) -> None:
    anatomy = Anatomy.of(load(small_model(family))[0])
    found = find_placement(anatomy)
    assert found.word == ("post" if family in ("bert", "roberta") else "pre")
    assert sorted(found.output_norms) == (
        [len(anatomy.blocks) + 1] if found.word == "pre" else list(range(len(anatomy.layers)))
    )


class Plain(nn.Module):
    """A norm by another name."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.inner = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@pytest.mark.parametrize(("family", "expected"), [("bert", "post"), ("gpt2", "pre")])
def test_names_do_not_matter(small_model: Any, family: str, expected: str) -> None:
    model = load(small_model(family))[0]
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.LayerNorm) and name != "ln_f":
                child.__class__ = type("Attention", (nn.LayerNorm,), {})
                setattr(module, name, Plain(child))
    assert find_placement(Anatomy.of(model)).word == expected


def test_a_norm_in_name_only_is_not_a_norm(small_model: Any) -> None:
    class LayerNorm(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0.5 * x

    model = load(small_model("gpt2"))[0]
    for block in model.h:
        block.ln_1, block.ln_2 = LayerNorm(), LayerNorm()
    assert find_placement(Anatomy.of(model)).word == "none"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", ["BERT", "GPT-2", "Llama", "Gemma 2", "GPT-J", "OLMo 2"])
def test_half_precision(family: str, dtype: torch.dtype) -> None:
    name, settings, expected = FAMILIES[family]
    assert find_placement(Anatomy.of(built(name, settings).to(dtype))).word == expected


def test_non_finite_states_are_accepted(small_model: Any) -> None:
    model = load(small_model("gpt2"))[0]
    with torch.no_grad():
        model.h[2].mlp.c_proj.bias.fill_(float("nan"))
    assert find_placement(Anatomy.of(model)).word == "pre"


def test_hooks_are_removed_and_the_model_is_unchanged(small_model: Any) -> None:
    model = load(small_model("bert"))[0]
    anatomy = Anatomy.of(model)

    def hooks() -> int:
        return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())

    before, weights = hooks(), {name: value.clone() for name, value in model.state_dict().items()}
    find_placement(anatomy)
    assert hooks() == before
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
