"""States taken by hooks equal those of transformers, one layer at a time, and no block runs unnecessarily."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from tests import encoder_decoders
from tests.small_models import FACTS, FAMILIES, blocks_of, load

from theodolite.errors import InputError
from theodolite.models.stacks import find_equal
from theodolite.models.text_anatomy import Anatomy

IDS = torch.tensor([[9, 40, 41, 77, 12, 12, 63, 90, 5]])


def states_of(anatomy: Anatomy, expected: list[int], **inputs: torch.Tensor) -> dict[int, torch.Tensor]:
    seen: dict[int, torch.Tensor] = {}
    with anatomy.hook_layers(lambda index, state: seen.update({index: state.clone()}), expected) as forward:
        forward(**inputs)
    return seen


def inputs(ids: torch.Tensor = IDS) -> dict[str, torch.Tensor]:
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize("family", FAMILIES)
class TestFamilies:
    def test_layers_are_named_and_numbered(self, small_model: Any, family: str) -> None:
        facts, anatomy = FACTS[family], Anatomy.of(load(small_model(family))[0])
        names = ["embeddings", *(f"block {number}" for number in range(1, facts.blocks + 1))]
        indices: list[int | None] = list(range(facts.blocks + 1))
        if facts.final_norm:  # the library's last state is after the norm, so the last block's is in no list
            names.append("final norm")
            indices[-1:] = [None, facts.blocks]
        assert [layer.name for layer in anatomy.layers] == names
        assert [layer.library_index for layer in anatomy.layers] == indices
        assert [layer.index for layer in anatomy.layers] == list(range(len(names)))
        assert {layer.dim for layer in anatomy.layers} == {facts.dim}

    def test_causal_and_padding_are_detected(self, small_model: Any, family: str) -> None:
        anatomy = Anatomy.of(load(small_model(family))[0])
        assert anatomy.causal == FACTS[family].causal
        assert anatomy.pads

    def test_states_equal_hidden_states_exactly(self, small_model: Any, family: str) -> None:
        model = load(small_model(family))[0]
        anatomy = Anatomy.of(model)
        seen = states_of(anatomy, [layer.index for layer in anatomy.layers], **inputs())
        with torch.no_grad():
            library = model(**inputs(), output_hidden_states=True).hidden_states
        for layer in anatomy.layers:
            if layer.library_index is not None:
                assert torch.equal(seen[layer.index], library[layer.library_index]), layer.name

    def test_the_last_block_is_its_output(self, small_model: Any, family: str) -> None:
        model = load(small_model(family))[0]
        kept: list[Any] = []
        hook = blocks_of(model, family)[-1].register_forward_hook(lambda module, args, output: kept.append(output))
        with torch.no_grad():
            model(**inputs())
        hook.remove()
        last = kept[0][0] if isinstance(kept[0], tuple) else kept[0]
        blocks = FACTS[family].blocks
        assert torch.equal(states_of(Anatomy.of(model), [blocks], **inputs())[blocks], last)

    def test_no_block_runs_above_the_last_requested_layer(self, small_model: Any, family: str) -> None:
        model = load(small_model(family))[0]
        anatomy, calls = Anatomy.of(model), []
        for number, block in enumerate(blocks_of(model, family), start=1):
            block.register_forward_pre_hook(lambda module, args, number=number: calls.append(number))
        assert set(states_of(anatomy, [0, 1], **inputs())) == {0, 1}
        assert calls == [1]
        calls.clear()
        assert set(states_of(anatomy, [2], **inputs())) == {2}
        assert calls == [1, 2]

    def test_states_are_not_kept(self, small_model: Any, family: str) -> None:
        anatomy = Anatomy.of(load(small_model(family))[0])
        alive: dict[int, weakref.ref[torch.Tensor]] = {}
        held: dict[int, list[int]] = {}

        def take(index: int, state: torch.Tensor) -> None:
            alive[index] = weakref.ref(state)
            held[index] = [other for other, state in alive.items() if state() is not None]

        with anatomy.hook_layers(take, [layer.index for layer in anatomy.layers]) as forward:
            forward(**inputs())
            gc.collect()
            assert [index for index, state in alive.items() if state() is not None] == []
        # While a block runs its input is alive; BERT's forward also holds the embeddings. Nothing older is.
        for index, others in held.items():
            assert set(others) <= {0, index - 1, index}

    def test_hooks_are_removed_afterwards(self, small_model: Any, family: str) -> None:
        model = load(small_model(family))[0]
        anatomy = Anatomy.of(model)

        def hooks() -> int:  # transformers leaves some of its own
            return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())

        def fail(index: int, state: torch.Tensor) -> None:
            raise ZeroDivisionError

        before = hooks()
        with anatomy.hook_layers(fail, [0]) as forward:
            assert hooks() > before
            with pytest.raises(ZeroDivisionError):
                forward(**inputs())
        assert hooks() == before


COMMON = {
    "vocab_size": 120,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
GROUPED = COMMON | {"num_key_value_heads": 2, "head_dim": 8}
FURTHER = {
    "MPNet": (COMMON, False),
    "DistilBert": ({"vocab_size": 120, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64}, False),
    "ModernBert": (COMMON | dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0), True),
    "DebertaV2": (COMMON | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, False),
    "OPT": (COMMON | {"ffn_dim": 64, "word_embed_proj_dim": 32}, True),
    "GPTNeoX": (COMMON, True),
    "Qwen2": (GROUPED, True),
    "Qwen3": (GROUPED, True),
    "Gemma3Text": (GROUPED, True),
    "NanoChat": (GROUPED, True),  # the final norm is also called before the first block
    "Jamba": (  # block 2 has attention, the others are Mamba
        GROUPED | {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, "use_mamba_kernels": False},
        True,
    ),
    "OlmoHybrid": (  # block 3 has attention, the others are linear
        GROUPED
        | {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8}
        | {
            "linear_value_head_dim": 8,
            "pad_token_id": 0,
            "eos_token_id": 2,
            "layer_types": ["linear_attention"] * 2 + ["full_attention"],
        },
        True,
    ),
    "OpenAIGPT": ({"vocab_size": 120, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}, False),
    "Albert": (COMMON | {"embedding_size": 16}, False),
    "FNet": (COMMON, False),
    "ConvBert": (COMMON | {"embedding_size": 32}, False),
}
MIXES_PADDING_IN = ("FNet", "ConvBert")


def built(name: str, settings: dict[str, Any]) -> Any:
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**settings)
    config.initializer_range = 0.3  # so that every part of a random model matters
    return transformers.AutoModel.from_config(config).eval()


@pytest.mark.parametrize("name", FURTHER)
def test_further_architectures(name: str) -> None:
    settings, final_norm = FURTHER[name]
    anatomy = Anatomy.of(built(name, settings))
    assert [layer.name for layer in anatomy.layers[:4]] == ["embeddings", "block 1", "block 2", "block 3"]
    assert [layer.library_index for layer in anatomy.layers[:3]] == [0, 1, 2]
    assert len(anatomy.layers) == (5 if final_norm else 4)
    assert anatomy.layers[-1].library_index == 3
    assert anatomy.pads == (name not in MIXES_PADDING_IN)
    with torch.no_grad():
        library = anatomy.model(**inputs(), output_hidden_states=True).hidden_states
    # All layers in one pass, and the last by itself: each is the state of its own call.
    for chosen in ([layer.index for layer in anatomy.layers], [anatomy.layers[-1].index]):
        seen = states_of(anatomy, chosen, **inputs())
        assert sorted(seen) == chosen
        for index, state in seen.items():
            equal = anatomy.layers[index].library_index
            assert equal is None or torch.equal(state, library[equal])


REFUSED = {
    "XLNet": (
        {"vocab_size": 120, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 64},
        r"XLNetModel cannot be surveyed: embeddings has the shape \(7, 1, 32\) for \(1, 7\) tokens",
    ),
    "XLM": (
        {"vocab_size": 120, "emb_dim": 32, "n_layers": 3, "n_heads": 4},
        "XLMModel cannot be surveyed: the output of block 1 is not in the hidden_states of transformers",
    ),
    "Longformer": (
        COMMON | {"attention_window": [8, 8, 8], "pad_token_id": 1},
        r"embeddings has the shape \(1, 8, 32\) for \(1, 7\) tokens",
    ),
    "SqueezeBert": (COMMON | {"embedding_size": 32}, "embeddings was not reached in a forward pass"),
    "TimeSeriesTransformer": ({"prediction_length": 4}, "states no vocabulary size"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_architectures_are_rejected(name: str) -> None:
    settings, words = REFUSED[name]
    with pytest.raises(InputError, match=words):
        Anatomy.of(built(name, settings))


def test_a_model_that_reads_more_than_text_names_its_language_model() -> None:
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**vision, image_size=28, patch_size=14),
        text_config=LlamaConfig(**GROUPED),
        image_token_index=5,
    )
    model = LlavaForConditionalGeneration(config).eval()
    with pytest.raises(
        InputError, match=r"^LlavaModel reads more .* model, model\.base_model\.language_model, with"
    ):
        Anatomy.of(model.base_model)
    assert len(Anatomy.of(model.base_model.language_model).layers) == 5


def test_a_list_of_another_length_is_named() -> None:
    from transformers import BartConfig, BartForCausalLM

    sizes = {"d_model": 32, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    model = BartForCausalLM(BartConfig(vocab_size=120, encoder_layers=2, decoder_layers=3, **sizes)).eval()
    with pytest.raises(
        InputError, match=r"no list of 2 blocks, the number .* states \(its lists have 3\), so its"
    ):
        Anatomy.of(model.base_model)


@pytest.mark.parametrize(("half", "layers"), [("encoder", 4), ("decoder", 5)])
def test_half_an_encoder_decoder_is_rejected_with_what_to_do(half: str, layers: int) -> None:
    model = getattr(encoder_decoders.build("T5"), half)
    with pytest.raises(
        InputError, match=r"^T5Stack is a part of .*, or set model\.config\.is_encoder_decoder = Fa"
    ):
        Anatomy.of(model)
    model.config.is_encoder_decoder = False
    assert len(Anatomy.of(model).layers) == layers


def test_several_vectors_per_token_are_rejected() -> None:
    model = built("Llama", GROUPED)
    model.layers[1].register_forward_hook(lambda module, args, output: output[:, :, None].expand(-1, -1, 4, -1))
    model.layers[2].register_forward_pre_hook(lambda module, args: (args[0].mean(2), *args[1:]))
    words = (
        "in block 2 each token has 4 vectors of 32 coordinates beside each other, and surveys require one vector"
    )
    with pytest.raises(InputError, match=words):
        Anatomy.of(model)


def test_a_layer_of_nan_is_still_found(small_model: Any) -> None:
    # Half precision overflows; the survey reports the layer later, so finding the layers must not fail first.
    model = load(small_model("gpt2"))[0]
    with torch.no_grad():
        model.h[1].mlp.c_proj.bias.fill_(float("nan"))
    assert [layer.library_index for layer in Anatomy.of(model).layers] == [0, 1, 2, 2, 2]


def test_the_first_equal_state_is_found() -> None:
    state = torch.randn(1, 3, 40)
    state[0, 1, 2] = torch.nan  # a layer that overflows
    late = state.clone()
    late[0, 2, 39] += 1  # the first coordinates are equal
    others = [late, state[:, :2], state[..., :20], state * 2, state.clone(), state]
    assert find_equal(state, others) == 4
    assert find_equal(state, others[:4]) is None
    assert find_equal(state, ()) is None
