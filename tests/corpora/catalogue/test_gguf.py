"""Any GGUF file as a folder: the same states, made once; and the errors for other files."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from theodolite.corpora.catalogue.cache import cache_root
from theodolite.corpora.catalogue.model_unpacking import gguf_folder
from theodolite.errors import InputError, TheodoliteError

DIM, HIDDEN, LAYERS, HEADS = 64, 96, 2, 2


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def tiny_llama(path: Path) -> None:
    """Write a Llama of two blocks and a vocabulary of the 256 bytes and "ab", its matrices quantised to Q8_0."""
    gguf = pytest.importorskip("gguf")
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = ["<unk>", "<s>", "</s>", *sorted(ByteLevel.alphabet()), "ab"]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(DIM)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(DIM // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, *[1] * 257])
    writer.add_token_merges(["a b"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    rng = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), DIM), "output": (len(tokens), DIM)}
    for block in range(LAYERS):
        shapes |= {f"blk.{block}.attn_{part}": (DIM, DIM) for part in ("q", "k", "v", "output")}
        shapes |= {f"blk.{block}.ffn_{part}": (HIDDEN, DIM) for part in ("gate", "up")}
        shapes[f"blk.{block}.ffn_down"] = (DIM, HIDDEN)
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{block}.{norm}.weight", np.ones(DIM, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(DIM, np.float32))
    for name, shape in shapes.items():
        packed = gguf.quants.quantize(rng.normal(size=shape).astype(np.float32), gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_the_folder_gives_the_same_states_as_the_file(cache, tmp_path):
    import torch
    from transformers import AutoModel, AutoTokenizer

    pytest.importorskip("accelerate")
    tiny_llama(tmp_path / "tiny.gguf")
    messages: list[str] = []
    folder = gguf_folder(tmp_path / "tiny.gguf", messages.append)
    assert folder.parent == cache_root() / "gguf"
    assert messages == ["converting tiny.gguf to safetensors, once"]

    before = AutoModel.from_pretrained(str(tmp_path), gguf_file="tiny.gguf", dtype=torch.float32)
    after = AutoModel.from_pretrained(str(folder))
    old = AutoTokenizer.from_pretrained(str(tmp_path), gguf_file="tiny.gguf")
    new = AutoTokenizer.from_pretrained(str(folder))
    text = "a cab, 12 é"
    assert new(text).input_ids == old(text).input_ids
    batch = new(text, return_tensors="pt")
    ids = {"input_ids": batch.input_ids, "output_hidden_states": True}
    with torch.no_grad():
        pairs = zip(before(**ids).hidden_states, after(**ids).hidden_states, strict=True)
    assert after.dtype == torch.float32
    assert all(torch.equal(one, other) for one, other in pairs)

    # the same file by another name is the same folder, and nothing is rewritten
    (tmp_path / "tiny.gguf").rename(tmp_path / "renamed.gguf")
    assert gguf_folder(tmp_path / "renamed.gguf", messages.append) == folder
    assert len(messages) == 1


def test_a_file_that_is_not_gguf_is_a_user_error(cache, tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"PK\x03\x04 a zip")
    with pytest.raises(InputError, match=r"model\.gguf is not a GGUF file.*b'PK"):
        gguf_folder(tmp_path / "model.gguf")
    with pytest.raises(InputError, match=r"There is no file .*absent\.gguf"):
        gguf_folder(tmp_path / "absent.gguf")


def test_an_unreadable_gguf_is_a_user_error(cache, tmp_path):
    pytest.importorskip("accelerate")
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(8))
    with pytest.raises(InputError, match=r"transformers cannot read cut\.gguf"):
        gguf_folder(tmp_path / "cut.gguf")
    assert not list((cache / "gguf").glob("[!.]*"))


def test_without_the_extra_the_error_gives_the_command(cache, tmp_path, monkeypatch):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gguf" else real(name))
    with pytest.raises(TheodoliteError, match=r"requires gguf: pip install 'theodolite\[gguf\]'"):
        gguf_folder(tmp_path / "model.gguf")
