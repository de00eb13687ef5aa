"""How a survey loads a model: over devices, with another attention, and what is rejected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests import encoder_decoders
from tests.small_models import load, save, sentences

import theodolite
from theodolite.errors import InputError
from theodolite.models import checkpoint
from theodolite.surveys import text_survey as text_surveys
from theodolite.surveys.batch_tokens import LEAST, MOST, fitting

TEXTS = sentences(30)
SETTINGS: dict[str, Any] = {"batch_tokens": 256, "sample_size": 64}
ROUNDING = 1e-4
"""Relative: another attention rounds differently in float32."""


@pytest.fixture(scope="module")
def by_name(small_model: Callable[[str], Path]) -> Any:
    return theodolite.survey(small_model("llama"), TEXTS, **SETTINGS)


def test_blocks_on_the_cpu_and_on_disk_give_the_same_numbers(
    small_model: Callable[[str], Path], by_name: Any
) -> None:
    pytest.importorskip("accelerate")
    places = {"embed_tokens": "cpu", "layers.0": "cpu", "layers.1": "disk", "norm": "cpu", "rotary_emb": "cpu"}
    for device_map in ({"": "cpu"}, places):
        made = theodolite.survey(small_model("llama"), TEXTS, device_map=device_map, **SETTINGS)
        assert made.layers.equals(by_name.layers)
        assert made.tokens.equals(by_name.tokens)


@pytest.mark.parametrize("device", ["cuda:99", 99, torch.device("cuda", 99), "meta"])
def test_a_device_map_with_a_device_that_is_not_there_is_rejected(
    small_model: Callable[[str], Path], device: Any
) -> None:
    pytest.importorskip("accelerate")
    with pytest.raises(InputError, match=r"^--device-map: the device .* of 'norm' is not available on this mach"):
        theodolite.survey(small_model("llama"), TEXTS, device_map={"": "cpu", "norm": device}, **SETTINGS)
    with pytest.raises(
        InputError, match=r"^--device-map: the device 'gpu' of '' is not a device\. Use one such as"
    ):
        theodolite.survey(small_model("llama"), TEXTS, device_map={"": "gpu"}, **SETTINGS)


def test_an_unknown_device_map_is_rejected() -> None:
    known = "auto, balanced, balanced_low_0, sequential"
    for given, advice in (("cpu", "For one device, use --device cpu."), ("autos", "Did you mean 'auto'?")):
        with pytest.raises(InputError) as error:
            theodolite.survey("minilm-l6", TEXTS, device_map=given)
        assert str(error.value) == f"--device-map {given!r} is not one of {known}. {advice}"


@pytest.mark.parametrize(
    ("device_map", "problem"),
    [
        (
            {"nosuch": "cpu"},
            r"an entry 'nosuch', and LlamaModel has no such module\. At its top are embed_tokens, ",
        ),
        (
            {"": "cpu", "model.layers.1": "cpu"},
            r"an entry 'model\.layers\.1', .* no such module\. Did you mean 'layers\.1",
        ),
        ({"": "cpu", "layers.9": "cpu"}, r"an entry 'layers\.9', and LlamaModel has no such module"),
        ({}, r"no entry for the module 'embed_tokens' of LlamaModel\. Add one, or an entry ''"),
        ({"embed_tokens": "cpu", "layers.0": "cpu", "norm": "cpu"}, r"no entry for the module 'layers\.1' of "),
        ({"embed_tokens": "cpu", "layers": "cpu"}, r"no entry for the module 'norm' of "),
    ],
)
def test_a_device_map_that_does_not_fit_the_model_is_rejected(
    small_model: Callable[[str], Path], device_map: dict[str, str], problem: str
) -> None:
    pytest.importorskip("accelerate")
    with pytest.raises(InputError, match=f"^--device-map has {problem}"):
        theodolite.survey(small_model("llama"), TEXTS, device_map=device_map, **SETTINGS)


def test_the_device_map_of_an_adapter_names_modules_of_the_model_with_its_head(
    small_model: Callable[[str], Path], tmp_path: Path
) -> None:
    pytest.importorskip("accelerate")
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    whole = AutoModelForCausalLM.from_pretrained(small_model("llama"))
    save(whole, load(small_model("llama"))[1], tmp_path / "base")
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    settings = peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    adapter = tmp_path / "adapter"
    peft.get_peft_model(whole, settings).save_pretrained(adapter)
    with pytest.raises(InputError, match=r"no entry for the module 'lm_head' of LlamaForCausalLM"):
        theodolite.survey(adapter, TEXTS, device_map={"model": "cpu"}, **SETTINGS)
    both = {"model": "cpu", "lm_head": "cpu"}
    plain = theodolite.survey(adapter, TEXTS, **SETTINGS)
    assert theodolite.survey(adapter, TEXTS, device_map=both, **SETTINGS).layers.equals(plain.layers)


def test_blocks_that_a_device_map_leaves_on_meta_are_rejected(
    small_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("accelerate")
    plain = transformers.AutoModel.from_pretrained

    def without_block(*args: Any, **kwargs: Any) -> Any:
        model, loaded = plain(*args, **kwargs)
        model.layers[1].to("meta")
        return model, loaded

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", without_block)
    found = checkpoint.resolve(str(small_model("llama")))
    with pytest.raises(InputError, match=r"no values for its weight layers\.1\."):
        checkpoint.load_model(found, dtype="float32", device="cpu", device_map={"": "cpu"})


def test_eager_attention_gives_the_same_numbers_up_to_rounding(
    small_model: Callable[[str], Path], by_name: Any
) -> None:
    made = theodolite.survey(small_model("llama"), TEXTS, attn="eager", **SETTINGS)
    assert made.facts["settings"]["attn"] == "eager"
    for column in ("q", "m", "v"):
        np.testing.assert_allclose(made.layers[column], by_name.layers[column], rtol=ROUNDING)


def test_attention_that_cannot_be_used_is_named(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^--attn 'nonsense' is not one of eager, sdpa"):
        theodolite.survey(small_model("llama"), TEXTS, attn="nonsense")
    settings = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    _, tokenizer = load(small_model("bert"))
    save(
        transformers.FNetModel(transformers.FNetConfig(vocab_size=len(tokenizer), **settings)), tokenizer, tmp_path
    )
    with pytest.raises(
        InputError, match=r"^--attn sdpa cannot be used with '[^']*'; try --attn eager\. \(FNetModel"
    ):
        theodolite.survey(tmp_path, TEXTS, attn="sdpa")
    if torch.cuda.is_available():
        pytest.skip("flash attention may be installed")
    with pytest.raises(InputError, match=r"^--attn flash_attention_2 cannot be used with .* on this machine"):
        theodolite.survey(small_model("llama"), TEXTS, attn="flash_attention_2")


@pytest.mark.parametrize("name", ["T5", "UMT5"])
def test_the_encoder_of_an_encoder_decoder_is_loaded_without_a_decoder(name: str, tmp_path: Path) -> None:
    tokenizer = encoder_decoders.tokenizer()
    save(getattr(transformers, f"{name}EncoderModel")(encoder_decoders.build(name).config), tokenizer, tmp_path)
    made = theodolite.survey(tmp_path, TEXTS, **SETTINGS)
    encoder = getattr(transformers, f"{name}EncoderModel").from_pretrained(tmp_path)
    assert list(made.layers["layer_name"].unique()) == ["embeddings", "block 1", "block 2", "final norm"]
    states = []
    for text in TEXTS:
        with torch.no_grad():
            states.append(encoder(**tokenizer(text, return_tensors="pt")).last_hidden_state[0])
    q = torch.cat(states).square().sum(1).mean().item()
    rows = made.layers[made.layers["population"] == "all"].set_index("layer_name")
    assert rows["q"]["final norm"] == pytest.approx(q, rel=ROUNDING)
    encoder_decoders.build(name).save_pretrained(tmp_path)
    assert "decoder block 3" in set(theodolite.survey(tmp_path, TEXTS, **SETTINGS).layers["layer_name"])


def test_a_token_without_a_row_is_named(small_model: Callable[[str], Path]) -> None:
    model, tokenizer = load(small_model("llama"))
    rows = model.get_input_embeddings().num_embeddings
    tokenizer.add_tokens([f"<extra{number}>" for number in range(rows - len(tokenizer) + 1)])
    theodolite.survey(model, TEXTS[:5], tokenizer=tokenizer)  # the text has no such token
    with pytest.raises(InputError, match=rf"'<extra\d+>' the id {rows:,}, but .* has {rows:,} rows"):
        theodolite.survey(
            model, [*TEXTS[:5], f"a <extra{rows - len(load(small_model('llama'))[1])}>"], tokenizer=tokenizer
        )


TEMPLATE = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"


def test_conversations_of_parquet_and_of_a_list_are_the_same_by_word(
    small_model: Callable[[str], Path], tmp_path: Path
) -> None:
    import pandas as pd

    model, tokenizer = load(small_model("llama"))
    tokenizer.chat_template = TEMPLATE
    chats = [[{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}] for text in TEXTS[:12]]
    pd.DataFrame({"messages": chats}).to_parquet(tmp_path / "chats.parquet")
    given = {"tokenizer": tokenizer, "chat": True, "units": "word"} | SETTINGS
    listed = theodolite.survey(model, chats, **given)
    stored = theodolite.survey(model, tmp_path / "chats.parquet", **given)
    assert stored.layers.equals(listed.layers)
    assert listed.layers["v"].notna().all()  # the colon is an unknown token to this tokenizer: it is text
    assert (listed.tokens["n"] > 0).all()
    counts = listed.tokens[listed.tokens["layer"] == 0].merge(listed.units, on="unit")
    assert counts.loc[counts["text"].str.strip() == "yes", "n"].sum() >= len(chats)


def test_messages_without_chat_are_explained(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    with pytest.raises(InputError, match=r"no field 'text' .* add --chat to read the messages"):
        theodolite.survey(small_model("llama"), tmp_path / "chats.jsonl")
    (tmp_path / "texts.txt").write_text("hi\n")
    with pytest.raises(InputError, match=r"has one text per line\. Omit --chat"):
        theodolite.survey(small_model("llama"), tmp_path / "texts.txt", chat=True)


@pytest.mark.parametrize("held", [0, 34])
def test_batches_by_free_memory_fit_and_are_not_half_as_large_as_they_could_be(held: int) -> None:
    for free in (2**30, 10**10, 80 * 10**9, 2**40):
        for dim in (384, 4096, 16384):
            tokens = fitting(free, dim, held)
            state = 2 * dim  # bytes of one token in half precision
            needed = [tokens * state * 100, tokens * state * (15 + held) * 4]
            assert tokens == LEAST or max(needed) <= free
            assert tokens == MOST or 2 * max(needed) > free


def test_layers_on_two_devices_give_the_numbers_of_one(
    small_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_surveys, "_resident", lambda device: True)  # the CPU as a device, without kernels
    model, tokenizer = load(small_model("llama"))
    one = theodolite.survey(model, TEXTS, tokenizer=tokenizer, **SETTINGS)
    plain, made = text_surveys.TextSource.__init__, list[Any]()

    def spread(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        self.devices = {index: torch.device("cpu", 0) if index % 2 else torch.device("cpu") for index in range(4)}
        made.append(self)

    monkeypatch.setattr(text_surveys.TextSource, "__init__", spread)
    two = theodolite.survey(model, TEXTS, tokenizer=tokenizer, **SETTINGS)
    assert len(set(made[0].devices.values())) == 2
    assert two.layers.equals(one.layers)
    assert two.tokens.equals(one.tokens)
