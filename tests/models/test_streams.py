"""Streams of every supported architecture, compared with plain hooks and with output_attentions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.encoder_decoders import build
from tests.media_models import picture_model, whisper_model
from tests.models.test_text_anatomy import COMMON, GROUPED, built
from torch import Tensor

from theodolite.errors import InputError
from theodolite.models import attention_sums
from theodolite.models.attention_calls import AttentionCall
from theodolite.models.attention_sums import Span, sum_attention
from theodolite.models.layers import RESIDUAL, Layer
from theodolite.models.media_anatomy import MediaAnatomy
from theodolite.models.streams import Streams, check_streams, choose_stream_layers
from theodolite.models.text_anatomy import Anatomy
from theodolite.studies.block.isolated_block import rotate

NO_TOKENS = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0)
GPT2 = {"vocab_size": 120, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}
DISTIL = {"vocab_size": 120, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64}
# By name: how to make the model; then, as a reader of its code would find them, the modules of a block that
# compute queries and keys, and those that write to the residual.
_BERT = ("attention.self.query", "attention.self.key", "attention.output.dense", "output.dense")
_LLAMA = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.o_proj", "mlp.down_proj")
_NORMED = ("self_attn.q_norm", "self_attn.k_norm")
_T5 = ("layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.o")
_WHISPER = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.out_proj")
MODELS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "Bert": (lambda: built("Bert", COMMON), _BERT),
    "Roberta": (lambda: built("Roberta", COMMON | {"pad_token_id": 0}), _BERT),
    "DistilBert": (
        lambda: built("DistilBert", DISTIL),
        ("attention.q_lin", "attention.k_lin", "attention.out_lin", "ffn"),
    ),
    "GPT2": (lambda: built("GPT2", GPT2 | NO_TOKENS), ("attn.c_attn", "attn.c_attn", "attn", "mlp")),
    "Llama": (lambda: built("Llama", GROUPED), _LLAMA),
    "Qwen3": (lambda: built("Qwen3", GROUPED), (*_NORMED, *_LLAMA[2:])),
    "Gemma3Text": (
        lambda: built("Gemma3Text", GROUPED),
        (*_NORMED, "post_attention_layernorm", "post_feedforward_layernorm"),
    ),
    "Phi3": (
        lambda: built("Phi3", GROUPED | NO_TOKENS),
        ("self_attn.qkv_proj", "self_attn.qkv_proj", "self_attn", "mlp"),
    ),
    "GPTNeoX": (
        lambda: built("GPTNeoX", COMMON),
        ("attention.query_key_value", "attention.query_key_value", "attention.dense", "mlp"),
    ),
    "T5": (lambda: build("T5"), _T5),
    "Bart": (lambda: build("Bart"), _WHISPER),
    "ViT": (
        lambda: picture_model("ViT"),
        ("attention.q_proj", "attention.k_proj", "attention.o_proj", "mlp.fc2"),
    ),
    "Whisper": (lambda: whisper_model().model, _WHISPER),
}
WRITES = {
    "encoder T5": ("layer.0.SelfAttention.o", "layer.1.DenseReluDense"),
    "decoder T5": ("layer.0.SelfAttention.o", "layer.1.EncDecAttention.o", "layer.2.DenseReluDense"),
    "encoder Whisper": ("self_attn", "fc2"),
    "decoder Whisper": ("self_attn", "encoder_attn", "fc2"),
    "encoder Bart": ("self_attn", "fc2"),
    "decoder Bart": ("self_attn", "encoder_attn", "fc2"),
}
ROTATED = ("Llama", "Qwen3", "Gemma3Text", "Phi3", "GPTNeoX")
MEDIA = ("ViT", "Whisper")
every_model = pytest.mark.parametrize("name", MODELS)


def make_inputs(name: str) -> dict[str, Tensor]:
    torch.manual_seed(1)
    if name == "ViT":
        return {"pixel_values": torch.randn(2, 3, 32, 32)}
    if name == "Whisper":
        return {"input_features": torch.randn(1, 8, 60), "decoder_input_ids": torch.tensor([[3, 4, 5, 6]])}
    ids = torch.randint(60, 110, (2, 9))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    return inputs | ({"decoder_input_ids": ids, "decoder_attention_mask": mask} if name in ("T5", "Bart") else {})


def find(name: str) -> tuple[Any, tuple[Layer, ...], Streams, Any]:
    """Return the model, its residual layers, its streams, and its stacks."""
    model = MODELS[name][0]()
    if name in MEDIA:
        media = MediaAnatomy.of(model, _fit(model, make_inputs(name)), flat=False)
        return model, media.layers, media.find_streams(_fit(model, make_inputs(name))), media.stacks
    anatomy = Anatomy.of(model)
    return model, anatomy.layers, anatomy.find_streams(), anatomy.stacks


def _fit(model: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs in the size that the configuration of a model of sound or images requires."""
    if "input_features" in inputs:
        frames = 2 * model.config.max_source_positions
        torch.manual_seed(1)
        inputs["input_features"] = torch.randn(1, model.config.num_mel_bins, frames)
    if "pixel_values" in inputs:
        torch.manual_seed(1)
        inputs["pixel_values"] = torch.randn(2, 3, model.config.image_size, model.config.image_size)
    return inputs


def inputs_for(name: str, model: Any) -> dict[str, Tensor]:
    return _fit(model, make_inputs(name))


@torch.no_grad()
def read_all(model: Any, streams: Streams, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    names = {layer.index: layer.name for layer in streams.layers}
    seen: dict[str, Tensor] = {}
    with streams.capture(names, lambda index, states: seen.update({names[index]: states.clone()})):
        model(**inputs)
    return seen


@torch.no_grad()
def read_plainly(model: Any, modules: dict[str, Any], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the outputs of modules with hooks and nothing else."""
    seen: dict[str, Tensor] = {}

    def keep(key: str) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            seen[key] = (output[0] if isinstance(output, tuple) else output).clone()

        return hook

    hooks = [module.register_forward_hook(keep(key)) for key, module in modules.items()]
    model(**inputs)
    for hook in hooks:
        hook.remove()
    return seen


def split_naively(name: str, kind: str, output: Tensor, heads: int, key_heads: int, width: int) -> Tensor:
    """Return queries or keys as (items, positions, heads * width), by what is known of the architecture."""
    if name == "GPT2":
        return output.chunk(3, dim=-1)["qk".index(kind)]
    if name == "Phi3":
        return (
            output[..., : heads * width] if kind == "q" else output[..., heads * width :][..., : key_heads * width]
        )
    if name == "GPTNeoX":
        by_head = output.unflatten(-1, (heads, 3 * width))
        at = "qk".index(kind)
        return by_head[..., at * width : (at + 1) * width].flatten(2)
    if name == "Gemma3Text":  # normed after the axes of heads and positions are swapped
        return output.transpose(1, 2).flatten(2)
    return output.flatten(2)


@every_model
def test_streams_equal_plain_hooks(name: str) -> None:
    model, _, streams, stacks = find(name)
    inputs, paths = inputs_for(name, model), MODELS[name][1]
    seen = read_all(model, streams, inputs)
    by_name = {block.name: block for block in streams.blocks}
    for stack in stacks:
        writes = WRITES.get(f"{stack.name} {name}", paths[2:])
        labels = ("attn", "cross", "mlp") if len(writes) == 3 else ("attn", "mlp")
        for number, module in enumerate(stack.blocks, start=1):
            at = f"{stack.name} block {number}".strip()
            read = dict(zip(("q", "k", *labels), (*paths[:2], *writes), strict=True))
            plain = read_plainly(model, {kind: module.get_submodule(path) for kind, path in read.items()}, inputs)
            block = by_name[at]
            width = block.widths["q"] // block.heads
            for kind in ("q", "k"):
                expected = split_naively(name, kind, plain[kind], block.heads, block.key_heads, width)
                assert torch.equal(seen[f"{at}/{kind}"], expected), (at, kind)
            for kind in labels:
                assert torch.equal(seen[f"{at}/{kind}"], plain[kind]), (at, kind)
            assert ("cross" in block.widths) == (len(labels) == 3)
            assert ("q-rotated" in block.widths) == (name in ROTATED)


@every_model
def test_heads_are_parts_of_their_stream(name: str) -> None:
    model, residual, streams, _ = find(name)
    seen = read_all(model, streams, inputs_for(name, model))
    block = streams.blocks[-1]
    for stream in ("q", "k", "v"):
        heads = [seen[f"{block.name}/{stream}/head {h}"] for h in range(block.count_heads(stream))]
        assert torch.equal(torch.cat(heads, dim=-1), seen[f"{block.name}/{stream}"])
    widths = {layer.name: layer.dim for layer in streams.layers}
    assert {key: states.shape[-1] for key, states in seen.items()} == widths
    numbers = [layer.index for layer in streams.layers]
    assert numbers == list(range(len(residual), len(residual) + len(numbers)))


@pytest.mark.parametrize("name", ["Llama", "Phi3"])
def test_rotated_streams_equal_a_rotation_by_hand(name: str) -> None:
    model, _, streams, stacks = find(name)
    inputs, angles = inputs_for(name, model), []
    attention = stacks[0].blocks[1].self_attn
    hook = attention.register_forward_pre_hook(
        lambda module, args, kwargs: angles.append(kwargs["position_embeddings"]), with_kwargs=True
    )
    seen = read_all(model, streams, inputs)
    hook.remove()
    for kind, heads in (("q", 4), ("k", 2)):
        before = seen[f"block 2/{kind}"].unflatten(-1, (heads, 8)).transpose(1, 2)
        expected = rotate(before, angles[0]).transpose(1, 2).flatten(2)
        torch.testing.assert_close(seen[f"block 2/{kind}-rotated"], expected, rtol=1e-5, atol=1e-6)
        assert not torch.allclose(seen[f"block 2/{kind}-rotated"], seen[f"block 2/{kind}"])


@every_model
def test_a_forward_pass_is_not_changed(name: str) -> None:
    from transformers import AttentionInterface

    model, _, streams, _ = find(name)
    inputs, before = inputs_for(name, model), dict(AttentionInterface._global_mapping)
    with torch.no_grad():
        alone = model(**inputs)[0]
        with streams.capture([layer.index for layer in streams.layers], lambda index, states: None):
            assert torch.equal(model(**inputs)[0], alone)
    assert dict(AttentionInterface._global_mapping) == before


def measure(name: str) -> tuple[list[dict[str, Tensor]], list[Tensor], list[AttentionCall], list[list[Span]], Any]:
    """Return the sums of each block, and the weights that transformers returns with eager attention."""
    model, _, streams, stacks = find(name)
    inputs = inputs_for(name, model)
    calls: list[AttentionCall] = []
    with torch.no_grad(), streams.capture([], lambda *a: None, {b.residual: calls.append for b in streams.blocks}):
        model(**inputs)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    names = {"": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions"}
    weights = [one for stack in stacks for one in getattr(output, names[stack.name])]
    spans, sums = [], []
    for call in calls:
        items, _, positions, _ = call.query.shape
        lengths = [9, 6] if name not in MEDIA else [positions] * items
        spans.append([Span(item, 0, length) for item, length in enumerate(lengths)])
        sums.append(sum_attention(call, spans[-1], torch.ones(items, positions, dtype=torch.bool)))
    return sums, weights, calls, spans, model


@every_model
def test_attention_equals_output_attentions(name: str) -> None:
    """Entropy and masses from the weights that transformers computes, naively in float64; padding is left out."""
    sums, weights, _, spans, _ = measure(name)
    assert len(sums) == len(weights)
    for found, weight, windows in zip(sums, weights, spans, strict=True):
        rows = {0: [], 1: []}  # by part: (heads, keys) of each query
        tops: dict[int, list[Any]] = {0: [], 1: []}
        for item, _, length in windows:
            one = weight[item].double().numpy()[:, :length, :length]
            rows[1].append(one[:, 0])
            rows[0] += [one[:, at] for at in range(1, length)]
            tops[0].append(one[:, 1:].mean(axis=1).max(axis=-1))
            tops[1].append(one.mean(axis=1).max(axis=-1))
        for part in (0, 1):
            entropy = sum(
                -np.where(row > 0, row * np.log(np.where(row > 0, row, 1)), 0).sum(-1) for row in rows[part]
            )
            # Float32 weights of eager attention and ours differ by some 1e-6 of a weight.
            np.testing.assert_allclose(found["entropy"][part], entropy, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(found["first_mass"][part], sum(row[:, 0] for row in rows[part]), rtol=1e-4)
            np.testing.assert_allclose(found["top_mass"][part], sum(tops[part]), rtol=1e-4)
            assert int(found["queries"][part]) == len(rows[part])
        assert found["windows"].tolist() == [len(windows)] * 2


@every_model
def test_logits_are_those_behind_the_weights(name: str) -> None:
    """log(w_i / w_j) is the difference of two logits; one logit of a row by hand fixes the others."""
    sums, weights, calls, spans, model = measure(name)
    for found, weight, call, windows in zip(sums, weights, calls, spans, strict=True):
        shared, highest, lowest = call.query.shape[1] // call.key.shape[1], -np.inf, np.inf
        pairs = 0
        for item, _, length in windows:
            for head in range(call.query.shape[1]):
                w = weight[item, head].double().numpy()[:length, :length]
                q, k = call.query[item, head].double().numpy(), call.key[item, head // shared].double().numpy()
                for row in range(length):
                    seen = np.flatnonzero(w[row] > 1e-20)
                    own = q[row] @ k[seen[0]] * call.scale
                    if name == "T5":
                        own += float(call.options["position_bias"][0, head, row, seen[0]])
                    logits = own + np.log(w[row, seen] / w[row, seen[0]])
                    highest, lowest = max(highest, logits.max()), min(lowest, logits.min())
                    pairs += len(seen)
        assert float(found["highest"].max()) == pytest.approx(highest, rel=1e-4, abs=1e-4)
        assert float(found["lowest"].min()) == pytest.approx(lowest, rel=1e-4, abs=1e-3)
        assert int(found["counts"].sum()) == pairs
    if name == "T5":  # neither scaled nor without the bias
        assert {call.scale for call in calls} == {1.0}
    if name == "Llama":
        assert [call.scale for call in calls] == pytest.approx([model.config.head_dim**-0.5] * 3)


@pytest.mark.parametrize("chunk", [1, 7, 40, 200])
def test_sums_do_not_depend_on_how_many_logits_are_computed_at_once(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = measure("Llama")[0]
    monkeypatch.setattr(attention_sums, "CHUNK", chunk)
    for found, expected in zip(measure("Llama")[0], whole, strict=True):
        for key, tensor in expected.items():
            exact = (
                {"rtol": 0, "atol": 0}
                if key in ("queries", "windows", "choices")
                else {"rtol": 1e-5, "atol": 1e-6}
            )
            if key == "counts":  # a logit may round across the edge of a bin
                assert int((found[key] - tensor).abs().sum()) <= 4
            else:
                torch.testing.assert_close(found[key], tensor, **exact)


def test_queries_that_do_not_count_are_left_out() -> None:
    _, _, calls, _, _ = measure("Llama")
    counted = torch.ones(2, 9, dtype=torch.bool)
    counted[0, [0, 4]] = False
    found = sum_attention(calls[0], [Span(0, 0, 9)], counted)
    assert found["queries"].tolist() == [7, 0]
    assert int(found["counts"][0, 0].sum()) == sum(row + 1 for row in range(1, 9) if row != 4)
    assert found["lowest"][1].isinf().all()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (("OpenAIGPT", GPT2), "OpenAIGPTModel: the attention of block 1 is not one of the functions"),
        (("FNet", COMMON), "FNetModel: the attention of block 1 is not one of the functions"),
        (("ModernBert", COMMON | NO_TOKENS), "ModernBertModel: block 1 has no projections named query/key/value"),
    ],
)
def test_other_architectures_are_rejected_by_name(settings: tuple[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=f"{reason}.*Supported are BERT, GPT-2, Llama"):
        Anatomy.of(built(*settings)).find_streams()


def test_names_of_streams_are_checked() -> None:
    check_streams(["residual", "k", "v/heads"])
    with pytest.raises(InputError, match=r"--streams 'keys' is not one of residual, q, k, v, "):
        check_streams(["keys"])
    with pytest.raises(InputError, match="'mlp/heads' is not one of"):
        check_streams(["mlp/heads"])


@pytest.fixture(scope="module")
def anatomy() -> Anatomy:
    return Anatomy.of(built("Llama", GROUPED))


class TestChoosing:
    """Which layers --streams and --layers select."""

    def choose(self, anatomy: Anatomy, selection: Any, *streams: str, **more: Any) -> list[str]:
        layers, _ = choose_stream_layers(
            anatomy.layers, selection, streams or (RESIDUAL,), anatomy.find_streams, **more
        )
        return [layer.name for layer in layers]

    def test_all_blocks_have_a_layer_of_each_stream(self, anatomy: Anatomy) -> None:
        assert self.choose(anatomy, None, "k", "mlp") == [
            *(f"block {n}/k" for n in (1, 2, 3)),
            *(f"block {n}/mlp" for n in (1, 2, 3)),
        ]

    def test_numbers_select_blocks(self, anatomy: Anatomy) -> None:
        assert self.choose(anatomy, "0,2", "residual", "k") == ["embeddings", "block 2", "block 2/k"]
        assert self.choose(anatomy, [2], "v/heads") == ["block 2/v/head 0", "block 2/v/head 1"]

    def test_names_select_layers_of_any_stream(self, anatomy: Anatomy) -> None:
        assert self.choose(anatomy, "block 3/k-rotated/head 1") == ["block 3/k-rotated/head 1"]
        assert self.choose(anatomy, "1,block 3/k") == ["block 1", "block 3/k"]
        assert self.choose(anatomy, [1, "block 3/k"]) == ["block 1", "block 3/k"]

    def test_streams_are_not_looked_for_unless_asked(self, anatomy: Anatomy) -> None:
        def fail() -> Streams:
            raise AssertionError

        assert choose_stream_layers(anatomy.layers, "1", (RESIDUAL,), fail) == ((anatomy.layers[1],), None)

    def test_a_layer_has_the_same_number_whatever_else_is_selected(self, anatomy: Anatomy) -> None:
        one, _ = choose_stream_layers(anatomy.layers, "block 2/v", (RESIDUAL,), anatomy.find_streams)
        all_of_them, _ = choose_stream_layers(anatomy.layers, None, ("q", "k", "v"), anatomy.find_streams)
        assert one[0] in all_of_them

    @pytest.mark.parametrize(
        ("selection", "streams", "more", "words"),
        [
            ("block 9/k", ["residual"], {}, "--layers 'block 9/k' is not a layer of this model. Did you mean"),
            ("0", ["k"], {}, "--layers 0 selects no layer of --streams k"),
            ("40", ["k"], {}, "--layers names layer 40, which does not exist: this model has layers 0 to 4"),
            (
                None,
                ["cross"],
                {},
                "--streams cross: the model has no such stream, because it has no cross-attention",
            ),
            (None, ["k"], {"attention": True}, "--attention requires the output of a block"),
        ],
    )
    def test_errors(self, anatomy: Anatomy, selection: Any, streams: Any, more: Any, words: str) -> None:
        with pytest.raises(InputError, match=words):
            self.choose(anatomy, selection, *streams, **more)

    def test_a_model_without_rotation(self) -> None:
        with pytest.raises(InputError, match=r"--streams q-rotated: .* does not rotate queries and keys"):
            self.choose(Anatomy.of(built("Bert", COMMON)), None, "q-rotated")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["Bert", "Llama", "GPTNeoX", "T5"])
def test_the_writes_are_those_of_float32_in_half_precision(name: str, dtype: torch.dtype) -> None:
    """With small weights, what a block writes is hardly more than a rounding error of the stream."""
    torch.manual_seed(0)
    model = MODELS[name][0]().eval()
    paths = {id(part): path for path, part in model.named_modules()}
    expected = [[paths[id(part)] for part in parts] for parts in Anatomy.of(model).residual_writes.values()]
    assert [len(parts) for parts in expected] == [3 if "decoder" in parts[0] else 2 for parts in expected]
    found = Anatomy.of(model.to(dtype)).residual_writes.values()
    assert [[paths[id(part)] for part in parts] for parts in found] == expected
