"""Surveys of loaded models: the same numbers as by name, and a model that is left as it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tests.small_models import load, sentences
from tokenizers import AddedToken

import theodolite
from theodolite.errors import InputError, TheodoliteError
from theodolite.models import tensor_hash
from theodolite.models.loaded_model import wrap_model
from theodolite.models.weight_files import choose_dtype, weights_sha256
from theodolite.studies.survey_data import SurveyData, make_labels

TEXTS = sentences(40)
survey = partial(theodolite.survey, sample_size=64)  # neighbours of more take longer than all the rest


@pytest.fixture(scope="module")
def by_name(small_model: Callable[[str], Path]) -> Any:
    return survey(str(small_model("llama")), TEXTS)


def test_a_loaded_model_gives_the_numbers_of_its_folder_and_stays_as_it_was(
    small_model: Callable[[str], Path], by_name: Any
) -> None:
    model, tokenizer = load(small_model("llama"))
    model.train()
    model.layers[0].eval()
    grads = [parameter.requires_grad for parameter in model.parameters()]
    random = torch.get_rng_state()
    made = survey(model, TEXTS, tokenizer=tokenizer)
    assert made.layers.equals(by_name.layers)
    assert made.facts["model"]["loaded"]
    assert model.training
    assert not model.layers[0].training
    assert model.config.use_cache
    assert grads == [parameter.requires_grad for parameter in model.parameters()]
    assert torch.equal(random, torch.get_rng_state())
    hooks = [
        hook
        for module in model.modules()
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    ]
    # transformers installs its own when hidden states are first asked for, and keeps them.
    assert all(hook.__module__.startswith("transformers.") for hook in hooks)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_has_no_effect(small_model: Callable[[str], Path], by_name: Any, dtype: torch.dtype) -> None:
    model, tokenizer = load(small_model("llama"))
    with torch.autocast("cpu", dtype=dtype):
        made = survey(model, TEXTS, tokenizer=tokenizer)
        assert torch.is_autocast_enabled("cpu")
    assert made.layers.equals(by_name.layers)
    assert made.tokens.equals(by_name.tokens)


def test_compiled_blocks_are_surveyed_and_do_not_change_the_identity(
    small_model: Callable[[str], Path], by_name: Any
) -> None:
    model, tokenizer = load(small_model("llama"))
    plain = wrap_model(model, tokenizer).identity()
    model.layers[0] = torch.compile(model.layers[0])
    model.layers[1] = torch.compile(model.layers[1])
    made = survey(torch.compile(model), TEXTS, tokenizer=tokenizer)
    assert made.layers.equals(by_name.layers)
    assert {name: made.facts["identity"]["model"][name] for name in plain} == plain


@pytest.mark.parametrize("part", ["model", "block"])
def test_a_compiled_forward_method_is_not_run(small_model: Callable[[str], Path], by_name: Any, part: str) -> None:
    model, tokenizer = load(small_model("llama"))
    compiled: list[Any] = []

    def compiler(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    changed = model if part == "model" else model.layers[0]
    changed.forward = torch.compile(changed.forward, backend=compiler)
    made = survey(model, TEXTS, tokenizer=tokenizer)
    assert made.layers.equals(by_name.layers)
    assert not compiled
    with torch.no_grad():
        model(torch.tensor([[5, 6, 7]]))
    assert compiled  # compiled code is run again after the survey


def test_one_changed_weight_changes_the_identity(small_model: Callable[[str], Path]) -> None:
    model, tokenizer = load(small_model("bert"))
    before = wrap_model(model, tokenizer).sha256
    assert wrap_model(*load(small_model("bert"))).sha256 == before
    with torch.no_grad():
        model.encoder.layer[0].output.dense.weight[0, 0] += 1
    assert wrap_model(model, tokenizer).sha256 != before


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_weights_that_accelerate_loads_when_needed(
    small_model: Callable[[str], Path], by_name: Any, place: str, tmp_path: Path
) -> None:
    accelerate = pytest.importorskip("accelerate")
    model, tokenizer = load(small_model("llama"))
    plain = wrap_model(model, tokenizer).sha256
    if place == "memory":
        accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    else:
        accelerate.disk_offload(model, offload_dir=tmp_path, execution_device=torch.device("cpu"))
    assert next(model.parameters()).is_meta
    made = survey(model, TEXTS, tokenizer=tokenizer)
    assert made.layers["q"].equals(by_name.layers["q"])
    assert made.facts["model"]["sha256"] == plain


def test_offloaded_weights_are_not_hashed_during_a_forward_pass(
    small_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both load weights and free them again: one would free what the other uses."""
    accelerate = pytest.importorskip("accelerate")
    model, tokenizer = load(small_model("llama"))
    accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    plain, hashed, running, overlaps = tensor_hash._hash_value, list[int](), list[int](), list[int]()

    def hash_slowly(value: Any) -> str:
        running.append(1)
        time.sleep(0.05)
        digest = plain(value)
        hashed.append(running.pop())
        return digest

    monkeypatch.setattr(tensor_hash, "_hash_value", hash_slowly)
    model.register_forward_pre_hook(lambda *_: overlaps.append(len(running)))
    survey(model, TEXTS[:9], tokenizer=tokenizer, layers="1")
    assert hashed
    assert overlaps
    assert not any(overlaps)


def test_a_model_on_meta_is_rejected(small_model: Callable[[str], Path]) -> None:
    model, tokenizer = load(small_model("llama"))
    model.layers[1].to("meta")
    words = r"no values for its weight layers\.1\..*: it is on the device meta, which means that it was never"
    with pytest.raises(InputError, match=words):
        survey(model, TEXTS, tokenizer=tokenizer)


def test_adapters_are_part_of_the_model(small_model: Callable[[str], Path], by_name: Any) -> None:
    peft = pytest.importorskip("peft")
    model, tokenizer = load(small_model("llama"))
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"], init_lora_weights=False))
    made = survey(adapted, TEXTS, tokenizer=tokenizer)
    assert made.facts["model"]["adapters"] == ["default"]
    assert not made.layers.equals(by_name.layers)
    with adapted.disable_adapter():
        without = survey(adapted, TEXTS, tokenizer=tokenizer)
    assert without.layers.equals(by_name.layers)
    assert without.facts["model"]["adapters"] == []
    both = make_labels([SurveyData(one.facts) for one in (made, without)])
    assert [" with the adapter default on " in label for label in both] == [True, False]


def test_an_adapter_gives_the_numbers_of_a_model_with_its_weights_merged(
    small_model: Callable[[str], Path], tmp_path: Path
) -> None:
    """In Python, as a folder with only the adapter, and merged into the weights: products round differently."""
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    _, tokenizer = load(small_model("llama"))
    with_head = AutoModelForCausalLM.from_pretrained(small_model("llama"))
    with_head.save_pretrained(tmp_path / "base")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    settings = peft.LoraConfig(target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    adapted = peft.get_peft_model(base, settings)
    adapted.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    loaded, folder = survey(adapted, TEXTS, tokenizer=tokenizer), survey(str(tmp_path / "adapter"), TEXTS)
    merged = survey(adapted.merge_and_unload(), TEXTS, tokenizer=tokenizer)
    for column in ("q", "m", "v", "v_within", "mean_cosine", "anisotropy_svd"):
        truth = merged.layers[column].to_numpy(float)
        for found in (loaded, folder):
            assert found.layers[column].to_numpy(float) == pytest.approx(truth, rel=1e-4, abs=1e-9), column


def test_the_implementation_of_attention_changes_rounding_only(
    small_model: Callable[[str], Path], by_name: Any
) -> None:
    eager = survey(str(small_model("llama")), TEXTS, attn="eager")
    for column in ("q", "m", "v", "v_within", "mean_cosine", "anisotropy_svd"):
        truth = by_name.layers[column].to_numpy(float)
        assert eager.layers[column].to_numpy(float) == pytest.approx(truth, rel=1e-5, abs=1e-9), column


def test_options_for_loading_and_missing_tokenizers_are_rejected(small_model: Callable[[str], Path]) -> None:
    model, tokenizer = load(small_model("llama"))
    with pytest.raises(InputError, match=r"--dtype 'bfloat16' applies to a model that the survey loads"):
        survey(model, TEXTS, tokenizer=tokenizer, dtype="bfloat16")
    words = (
        r"is used as it is\. Call model\.set_attn_implementation\('eager'\) and omit the option, or give the name"
    )
    with pytest.raises(InputError, match=words):
        survey(model, TEXTS, tokenizer=tokenizer, attn="eager")
    model.set_attn_implementation("eager")
    survey(model, TEXTS[:3], tokenizer=tokenizer, layers="1")
    with pytest.raises(InputError, match=r"--tokenizer '\./gone': there is no such folder\. Check the path"):
        survey(model, TEXTS, tokenizer="./gone")
    for place in (Path("gone"), "my folder/gone", "/gone"):
        with pytest.raises(InputError, match=rf"--tokenizer '{place}': there is no such folder\. Check the path"):
            survey(model, TEXTS, tokenizer=place)
    model.config._name_or_path = model.name_or_path = "/no/such/folder"
    with pytest.raises(
        InputError, match=r"the folder '/no/such/folder' from where it came no longer exists, .* Giv"
    ):
        survey(model, TEXTS)
    model.config._name_or_path = model.name_or_path = ""
    with pytest.raises(InputError, match=r"no name by which its tokenizer could be found.*--tokenizer"):
        survey(model, TEXTS)


def test_what_contains_a_model_is_rejected_with_the_model_to_give(small_model: Callable[[str], Path]) -> None:
    from transformers import pipeline

    model, tokenizer = load(small_model("llama"))
    pipe = pipeline("feature-extraction", model=model, tokenizer=tokenizer, device="cpu")
    words = r"is a FeatureExtractionPipeline, .* `theodolite\.survey\(x\.model, corpus, tokenizer=x\.tokenizer\)`"
    with pytest.raises(InputError, match=words):
        survey(pipe, TEXTS)
    assert survey(pipe.model, TEXTS[:3], tokenizer=pipe.tokenizer, layers="1").state.positions
    sentence_transformers = pytest.importorskip("sentence_transformers")
    whole = sentence_transformers.SentenceTransformer(str(small_model("bert")), device="cpu")
    with pytest.raises(
        InputError, match=r"is a SentenceTransformer, .*survey\(x\.transformers_model, corpus, tok"
    ):
        survey(whole, TEXTS)
    assert survey(whole.transformers_model, TEXTS[:3], tokenizer=whole.tokenizer, layers="1").state.positions


def test_an_adapter_without_base_names_the_base(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "./gone", "peft_type": "LORA"}')
    words = r"only an adapter of \./gone, which was not found\. Correct the name or folder of that model"
    with pytest.raises(InputError, match=words):
        survey(str(tmp_path), TEXTS)


def test_an_adapter_without_weights_is_rejected(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    pytest.importorskip("peft")
    settings = {"base_model_name_or_path": str(small_model("llama")), "peft_type": "LORA"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match=r"has adapter_config\.json, but no adapter_model\.safetensors\. Give"):
        survey(str(tmp_path), TEXTS)


def test_an_adapter_of_another_model_is_rejected_with_the_cause(
    small_model: Callable[[str], Path], tmp_path: Path
) -> None:
    peft = pytest.importorskip("peft")
    from transformers import LlamaConfig, LlamaModel

    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    wider = LlamaModel(LlamaConfig(**sizes, vocab_size=100))
    peft.get_peft_model(wider, peft.LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = str(small_model("llama"))
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings))
    cause = (
        r"could not be loaded: .*: size mismatch for .*q_proj.*\[2, 64\].*\[2, 48\]\)\. It was made for another"
    )
    with pytest.raises(TheodoliteError, match=cause):
        survey(str(tmp_path), TEXTS)


def test_weights_in_the_cache_of_the_hub_are_identified_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshots").mkdir()
    name = "ab" * 32  # not the digest of the content: it is not read
    (tmp_path / "blobs" / name).write_bytes(b"weights")
    (tmp_path / "snapshots" / "model.safetensors").symlink_to(tmp_path / "blobs" / name)
    assert weights_sha256(tmp_path / "snapshots") == name
    (tmp_path / "blobs" / "model.safetensors").write_bytes(b"weights")
    assert weights_sha256(tmp_path / "blobs") == sha256(b"weights").hexdigest()


def test_auto_is_the_precision_of_the_checkpoint_on_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"dtype": "bfloat16"}')
    assert choose_dtype("auto", tmp_path, "cuda:1") == "bfloat16"
    assert choose_dtype("auto", tmp_path, "cpu") == "float32"
    assert choose_dtype("float16", tmp_path, "cpu") == "float16"


TEMPLATE = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"


def test_conversations_are_read_through_the_template(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    model, tokenizer = load(small_model("llama"))
    chats = [[{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}] for text in TEXTS]
    with pytest.raises(InputError, match="--chat requires a tokenizer with a chat template"):
        survey(model, chats, tokenizer=tokenizer, chat=True)
    tokenizer.chat_template = TEMPLATE
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    made = survey(model, tmp_path / "chats.jsonl", tokenizer=tokenizer, chat=True)
    again = survey(model, chats, tokenizer=tokenizer, chat=True)
    written = [tokenizer.apply_chat_template(chat, tokenize=False) for chat in chats]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in written]
    assert made.state.positions == sum(map(len, ids))
    assert made.facts["corpus"]["sha256"] == again.facts["corpus"]["sha256"]
    (tmp_path / "bad.jsonl").write_text('{"messages": "no list"}\n')
    with pytest.raises(InputError, match="requires a list of messages"):
        survey(model, tmp_path / "bad.jsonl", tokenizer=tokenizer, chat=True)
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(
        InputError, match=r"template of the tokenizer fails for document 0 .*: roles must alternate"
    ):
        survey(model, chats, tokenizer=tokenizer, chat=True)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_conversations_in_the_field_of_texts(
    small_model: Callable[[str], Path], tmp_path: Path, ending: str
) -> None:
    model, tokenizer = load(small_model("llama"))
    tokenizer.chat_template = TEMPLATE
    chats = [[{"role": "user", "content": text}] for text in TEXTS[:5]]
    rows, path = pd.DataFrame({"text": chats, "other": 1}), tmp_path / f"chats.{ending}"
    rows.to_parquet(path) if ending == "parquet" else rows.to_json(path, orient="records", lines=True)
    made = survey(model, path, tokenizer=tokenizer, chat=True)
    listed = survey(model, chats, tokenizer=tokenizer, chat=True)
    assert made.facts["corpus"]["sha256"] == listed.facts["corpus"]["sha256"]
    rows = rows.rename(columns={"text": "talks"})
    rows.to_parquet(path) if ending == "parquet" else rows.to_json(path, orient="records", lines=True)
    with pytest.raises(InputError, match=r"no (field|column) 'messages' .* that holds the messages with"):
        survey(model, path, tokenizer=tokenizer, chat=True)


def test_special_tokens_of_a_template_are_special(small_model: Callable[[str], Path]) -> None:
    """Llama adds them as special tokens without a role, so `all_special_ids` lacks them."""
    model, tokenizer = load(small_model("llama"))
    tokenizer.add_tokens([AddedToken("<|turn|>", special=True)])
    model.resize_token_embeddings(max(len(tokenizer), model.config.vocab_size))
    tokenizer.chat_template = "{% for m in messages %}<|turn|>{{ m.content }}{% endfor %}"
    assert tokenizer.convert_tokens_to_ids("<|turn|>") not in tokenizer.all_special_ids
    chats = [[{"role": "user", "content": text}] * 2 for text in TEXTS]
    made = survey(model, chats, tokenizer=tokenizer, chat=True)
    assert made.units.set_index("unit").loc["<|turn|>", "special"]
    without = survey(model, chats, tokenizer=tokenizer, chat=True, drop_special=True)
    assert made.state.positions - without.state.positions == 2 * len(TEXTS)


def test_a_tokenizer_can_be_named_as_in_the_catalogue(
    small_model: Callable[[str], Path], by_name: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = load(small_model("llama"))
    monkeypatch.setattr("theodolite.models.loaded_model.model_folder", lambda name: small_model("llama"))
    made = survey(model, TEXTS, tokenizer="minilm-l6")
    assert made.layers.equals(by_name.layers)
    with pytest.raises(InputError, match=r"MODEL is a name or a folder, which has its own\. Omit --tokenizer"):
        survey(str(small_model("llama")), TEXTS, tokenizer="minilm-l6")


def test_a_misspelt_tokenizer_is_suggested() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'tokenizr'\. Did you mean 'tokenizer'"):
        survey("minilm-l6", TEXTS, tokenizr=None)


def test_a_tokenizer_with_far_fewer_ids_than_rows_may_be_that_of_another_model(
    small_model: Callable[..., Path],
) -> None:
    model, tokenizer = load(small_model("llama"))
    model.resize_token_embeddings(2 * len(tokenizer), mean_resizing=False)
    with pytest.warns(UserWarning, match="check that it is the tokenizer of this model"):
        survey(model, TEXTS[:3], tokenizer=tokenizer, layers="1")
