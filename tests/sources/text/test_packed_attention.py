"""Windows laid end to end against the same windows padded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from tests.devices import DEVICES
from tests.shared import slow
from tests.small_models import sentences
from torch import Tensor

from theodolite.models.checkpoint import load_model, load_tokenizer, resolve
from theodolite.models.quirks import first_position_id
from theodolite.models.text_anatomy import Anatomy
from theodolite.sources.text import packed_attention
from theodolite.sources.text.packed_attention import can_pack
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import MOST_WINDOWS, packed_bounds

FAMILIES = ["bert", "roberta", "gpt2", "llama"]
PLACES = ("unit", "group", "first", "context", "window")


def source_of(folder: Any, *, end_to_end: bool, device: str = "cpu", dtype: str = "float32", **more: Any) -> Any:
    checkpoint = resolve(str(folder))
    model = load_model(checkpoint, dtype=dtype, device=device)
    return TextSource(model, load_tokenizer(checkpoint), corpus_key=77, end_to_end=end_to_end, **more)


def by_key(source: TextSource, documents: list[tuple[int, str]]) -> tuple[list[Any], dict[int, dict[str, Tensor]]]:
    """The batches, and by layer all rows in the order of their keys, with their places."""
    parts: dict[int, list[tuple[Tensor, Any]]] = {layer.index: [] for layer in source.layers}
    batches = source.prepare(documents)
    for batch in batches:
        source.run(batch, lambda one: parts[one.layer].append((one.taken().float().cpu(), one.places)))
    found = {}
    for layer, seen in parts.items():
        fields = {name: torch.cat([getattr(places, name) for _, places in seen]) for name in ("key", *PLACES)}
        order = fields["key"].argsort()
        held = fields | {"states": torch.cat([states for states, _ in seen])}
        found[layer] = {name: values[order] for name, values in held.items() if name != "window"}
    return batches, found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("drop_special", [False, True])
def test_the_same_states_at_the_same_places(small_model: Any, family: str, drop_special: bool) -> None:
    more = {"batch_tokens": 150, "max_tokens": 24, "drop_special": drop_special}
    laid, padded = (source_of(small_model(family), end_to_end=way, **more) for way in (True, False))
    assert (laid.end_to_end, padded.end_to_end) == (True, False)
    documents = list(enumerate(sentences(60, seed=3, longest=40)))
    batches, ours = by_key(laid, documents)
    _, theirs = by_key(padded, documents)
    assert all(batch.ids.shape == (1, batch.packed.starts[-1]) for batch in batches)
    assert max(batch.ids.numel() for batch in batches) <= 150
    if not drop_special:
        assert all(batch.ids.numel() == batch.positions for batch in batches)
    for layer in ours:
        for field in ("key", "unit", "group", "first", "context"):
            assert torch.equal(ours[layer][field], theirs[layer][field]), field
        torch.testing.assert_close(ours[layer]["states"], theirs[layer]["states"], rtol=1e-4, atol=1e-5)


@pytest.fixture
def folder_of(small_model: Any, tmp_path: Path) -> Callable[[str], Path]:
    """Give the folder of a small model; "shared" is a llama whose heads of sixteen share their keys by twos."""

    def folder(family: str) -> Path:
        if family != "shared":
            return Path(small_model(family))
        from transformers import AutoConfig, AutoModel

        llama = Path(small_model("llama"))
        wider = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
        torch.manual_seed(1)
        AutoModel.from_config(AutoConfig.from_pretrained(llama, **wider)).save_pretrained(tmp_path)
        load_tokenizer(resolve(str(llama))).save_pretrained(tmp_path)
        return tmp_path

    return folder


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-4), slow("bfloat16", 0.03)])
@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "shared"])
@pytest.mark.parametrize("short", [4, 64])  # on either side of the windows: where the two kernels part
def test_the_same_states_in_every_kernel(
    folder_of: Callable[[str], Path],
    device: str,
    dtype: str,
    bound: float,
    family: str,
    short: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packed_attention, "SHORT_WINDOW", short)
    more = {"batch_tokens": 400, "max_tokens": 24, "device": device, "dtype": dtype, "resident": True}
    laid, padded = (source_of(folder_of(family), end_to_end=way, **more) for way in (True, False))
    assert laid.end_to_end
    documents = list(enumerate(sentences(60, seed=3, longest=40)))
    _, ours = by_key(laid, documents)
    _, theirs = by_key(padded, documents)
    for layer in ours:
        a, b = ours[layer]["states"], theirs[layer]["states"]
        apart = torch.linalg.vector_norm(a - b, dim=1) / torch.linalg.vector_norm(b, dim=1)
        assert float(apart.quantile(0.99)) < bound, layer


def test_words_and_pairs_of_stacks_are_padded(small_model: Any) -> None:
    assert not source_of(small_model("bert"), end_to_end=True, kind="word").end_to_end


@pytest.fixture
def anatomy(small_model: Any) -> Anatomy:
    return Anatomy.of(load_model(resolve(str(small_model("gpt2"))), dtype="float32", device="cpu"))


def test_a_model_that_attends_beyond_its_window_is_detected(
    anatomy: Anatomy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert can_pack(anatomy, 0, 24)

    def everywhere(q: Tensor, k: Tensor, v: Tensor, spans: Any, causal: bool, scale: float | None) -> Tensor:
        a, b, c = (part.transpose(1, 2) for part in (q, k, v))
        found = torch.nn.functional.scaled_dot_product_attention(a, b, c, is_causal=causal, scale=scale)
        return found.transpose(1, 2)

    monkeypatch.setattr(packed_attention, "_attend_one_by_one", everywhere)
    assert not can_pack(anatomy, 0, 24)


def test_a_model_that_ignores_position_ids_is_detected(anatomy: Anatomy, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = anatomy.model.forward
    monkeypatch.setattr(anatomy.model, "forward", lambda position_ids=None, **more: forward(**more))
    assert not can_pack(anatomy, 0, 24)
    assert not can_pack(anatomy, 1, 24)


def test_a_model_with_local_attention_is_padded(anatomy: Anatomy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anatomy.model.config, "sliding_window", 16, raising=False)
    assert can_pack(anatomy, 0, 16)
    assert not can_pack(anatomy, 0, 17)


def test_the_attention_implementation_is_restored(anatomy: Anatomy) -> None:
    before = anatomy.model.config._attn_implementation
    assert can_pack(anatomy, 0, 24)
    assert anatomy.model.config._attn_implementation == before
    with pytest.raises(RuntimeError, match="broken"), packed_attention.use_packed_attention(anatomy.model, None):  # type: ignore[arg-type]
        raise RuntimeError("broken")
    assert anatomy.model.config._attn_implementation == before
    assert packed_attention._CURRENT_SPANS == []


def test_positions_of_roberta_start_after_the_padding_id(small_model: Any) -> None:
    anatomy = Anatomy.of(load_model(resolve(str(small_model("roberta"))), dtype="float32", device="cpu"))
    begin = first_position_id(anatomy.model.config)
    assert begin > 0
    assert can_pack(anatomy, begin, 24)
    assert not can_pack(anatomy, 0, 24)


@given(some.lists(some.integers(1, 40), min_size=1, max_size=200), some.integers(1, 300))
def test_batches_are_even_and_within_the_limit(sizes: list[int], budget: int) -> None:
    lengths = np.array(sizes)
    bounds = packed_bounds(lengths, budget)
    assert [start for start, _ in bounds] == [0, *(stop for _, stop in bounds[:-1])]
    assert bounds[-1][1] == len(sizes)
    held = [int(lengths[start:stop].sum()) for start, stop in bounds]
    assert all(size <= budget or stop - start == 1 for size, (start, stop) in zip(held, bounds, strict=True))
    if budget >= 2 * max(sizes):
        assert len(bounds) <= -(-sum(sizes) // (budget - max(sizes) + 1))


def test_no_batch_has_more_windows_than_a_gpu_can_launch() -> None:
    bounds = packed_bounds(np.full(200_000, 2), 10**6)
    assert all(stop - start <= MOST_WINDOWS for start, stop in bounds)
    assert all(a[1] == b[0] for a, b in pairwise(bounds))


SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "pad_token_id": 0,
}
BY_THEIR_BATCH: dict[str, dict[str, Any]] = {
    "phi3": {
        "original_max_position_embeddings": 16,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [1.0, 4.0, 16.0, 32.0],
            "original_max_position_embeddings": 16,
        },
    },
    "llama4_text": {
        "attn_temperature_tuning": True,
        "floor_scale": 64,
        "no_rope_layers": [1, 0],
        "layer_types": ["full_attention"] * 2,
        "moe_layers": [],
        "head_dim": 8,
    },
    "deepseek_v32": {
        "index_topk": 16,
        "index_head_dim": 16,
        "index_n_heads": 2,
        "head_dim": 8,
        "first_k_dense_replace": 2,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 8,
    },
}
"""Models whose states of a window may depend on the other windows of its batch."""


@pytest.mark.parametrize("way", ["packed", "padded"])
@pytest.mark.parametrize("family", BY_THEIR_BATCH)
def test_a_window_has_the_same_states_alone_and_in_a_batch(small_model: Any, family: str, way: str) -> None:
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(small_model("llama"))
    config = AutoConfig.for_model(family, vocab_size=len(tokenizer), **SIZES, **BY_THEIR_BATCH[family])
    torch.manual_seed(0)
    model = AutoModel.from_config(config, attn_implementation="sdpa").eval()
    documents = list(enumerate(sentences(24, seed=3, longest=20)))

    def read(batch_tokens: int) -> dict[int, dict[str, Tensor]]:
        source = TextSource(
            model, tokenizer, corpus_key=77, end_to_end=way == "packed", batch_tokens=batch_tokens, max_tokens=48
        )
        assert not source.end_to_end
        batches, found = by_key(source, documents)
        assert (max(len(batch.ids) for batch in batches) > 1) == (batch_tokens > 1)
        return found

    alone, together = read(1), read(512)
    for layer in alone:
        torch.testing.assert_close(together[layer]["states"], alone[layer]["states"], rtol=1e-3, atol=1e-3)
