"""Drift and sharpness by block against plain transformers, document by document."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.small_models import FAMILIES, blocks_of, load, make, sentences

from theodolite.studies.series.attention import MEASURES, SHARP, measure_attention, select_documents

TEXTS = list(enumerate(sentences(5, seed=3, longest=7)))
ROUNDING = 1e-5
"""Relative: both sides are float32 models summed in float64; scaled dot products differ in order of summation."""


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    folder = make(request.param, tmp_path_factory.mktemp("attending") / request.param)
    return request.param, folder


def naive_cosine(vectors: np.ndarray) -> float:
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    pairs = [unit[i] @ unit[j] for i in range(len(unit)) for j in range(len(unit)) if i != j]
    return float(np.mean(pairs))


def largest_logit(model, family: str, q: torch.Tensor, k: torch.Tensor, width: int, first: int) -> float:
    """The largest q.k / sqrt(width) of a query and a key that it sees, after rotation. (positions, dim) each"""
    q, k = (part.unflatten(-1, (-1, width)).transpose(0, 1) for part in (q, k))  # (heads, positions, width)
    if family == "llama":
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        rotation = model.base_model.rotary_emb(q, torch.arange(q.shape[1])[None])
        q, k = (part[0] for part in apply_rotary_pos_emb(q[None], k[None], *rotation))
    k = k.repeat_interleave(len(q) // len(k), dim=0)
    logits = q.double() @ k.double().transpose(1, 2) / width**0.5
    if family in ("gpt2", "llama"):
        logits = logits.masked_fill(torch.ones(logits.shape[-2:]).triu(1).bool(), -torch.inf)
    return float(logits[:, first:].max())


def plain(family: str, folder, first: int) -> list[dict[str, float]]:
    """What each block does, read with nothing of ours: hidden states, weights and projections by name."""
    model, tokenizer = load(folder)
    model.set_attn_implementation("eager")
    states, weights, queries, keys, logits = ({} for _ in range(5))
    for _, text in TEXTS:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            output = model(input_ids=ids, output_attentions=True, output_hidden_states=True)
            for number, block in enumerate(blocks_of(model, family)):
                state = output.hidden_states[number][0]
                if family in ("bert", "roberta"):
                    q, k = (getattr(block.attention.self, name)(state) for name in ("query", "key"))
                elif family == "gpt2":
                    q, k, _ = block.attn.c_attn(block.ln_1(state)).chunk(3, dim=-1)
                else:
                    normed = block.input_layernorm(state)
                    q, k = block.self_attn.q_proj(normed), block.self_attn.k_proj(normed)
                width = q.shape[-1] // model.config.num_attention_heads
                states.setdefault(number, []).append(state[first:])
                weights.setdefault(number, []).append(output.attentions[number][0])
                queries.setdefault(number, []).append(q[first:].unflatten(-1, (-1, width)))
                keys.setdefault(number, []).append(k[first:].unflatten(-1, (-1, width)))
                logits.setdefault(number, []).append(largest_logit(model, family, q, k, width, first))
    found = []
    for number in states:
        state = torch.cat(states[number]).double().numpy()
        numbers = {
            "state_norm": np.linalg.norm(state, axis=1).mean(),
            "state_mean_norm": np.linalg.norm(state.mean(axis=0)),
            "state_cosine": naive_cosine(state),
        }
        for name, held in (("query", queries), ("key", keys)):
            heads = torch.cat(held[number]).double().numpy().transpose(1, 0, 2)
            numbers[f"{name}_norm"] = np.linalg.norm(heads, axis=-1).mean()
            numbers[f"{name}_mean_norm"] = np.mean([np.linalg.norm(head.mean(axis=0)) for head in heads])
            numbers[f"{name}_cosine"] = np.mean([naive_cosine(head) for head in heads])
        highest, entropies, shares = [], [], []
        for document in weights[number]:
            for head in document.double().numpy():
                for at, row in list(enumerate(head))[first:]:
                    seen = row[: at + 1] if family in ("gpt2", "llama") else row
                    entropy = -sum(w * np.log(w) for w in seen if w > 0)
                    highest.append(seen.max())
                    entropies.append(entropy)
                    shares += [entropy / np.log(len(seen))] if len(seen) > 1 else []
        numbers["logit_max"] = max(logits[number])
        numbers |= dict(zip(SHARP, map(np.mean, (highest, entropies, shares)), strict=True))
        found.append(numbers)
    return found


@pytest.mark.parametrize("population", ["all", "without-first"])
def test_every_block_equals_transformers(family, population: str) -> None:
    name, folder = family
    table, _ = measure_attention(*load(folder), TEXTS)
    rows = table[table["population"] == population].to_dict("records")
    expected = plain(name, folder, first=int(population != "all"))
    assert len(rows) == len(expected)
    for row, block in zip(rows, expected, strict=True):
        assert row["undefined"] is None
        assert {column: row[column] for column in block} == pytest.approx(block, rel=ROUNDING, abs=1e-7)
        assert all(row[f"{measure}_se"] >= 0 for measure in MEASURES)
        assert row["documents"] == 5


def test_rows_by_length_add_up_to_all_of_them(family) -> None:
    name, folder = family
    table, rows = measure_attention(*load(folder), TEXTS)
    for layer, part in rows.groupby("layer"):
        whole = table[(table["layer"] == layer) & (table["population"] == "all")].iloc[0]
        assert part["rows"].sum() == whole["positions"]
        mean = (part["rows"] * part["attention_max"]).sum() / part["rows"].sum()
        assert mean == pytest.approx(whole["attention_max"])
        assert (part["length_high"] == 2 * part["length_low"] - 1).all()
    if name in ("gpt2", "llama"):
        ones = rows[rows["length_low"] == 1]
        assert (ones["rows"] == 5).all()  # the first row of a document sees only itself
        assert ones["attention_max"].to_numpy() == pytest.approx(1.0)
        assert ones["attention_entropy"].to_numpy() == pytest.approx(0.0)
        assert ones["attention_entropy_share"].isna().all()


def test_padding_would_have_changed_the_numbers(family) -> None:
    """The tempting way, the mean over a padded batch, counts rows and entries of padding."""
    _, folder = family
    model, tokenizer = load(folder)
    model.set_attn_implementation("eager")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.convert_ids_to_tokens(0)
    inputs = tokenizer([text for _, text in TEXTS], return_tensors="pt", padding=True)
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        weights = model(**inputs, output_attentions=True).attentions[0]
    table, _ = measure_attention(*load(folder), TEXTS)
    right = table[table["population"] == "all"].iloc[0]["attention_max"]
    assert abs(float(weights.amax(-1).mean()) - right) > 1e-4


def test_one_document_has_no_error_and_none_has_nothing(family) -> None:
    _, folder = family
    table, _ = measure_attention(*load(folder), TEXTS[:1])
    assert table["attention_max"].notna().all()
    assert table["attention_max_se"].isna().all()
    table, rows = measure_attention(*load(folder), [])
    assert table[MEASURES].isna().all().all()
    assert json.loads(table["undefined"].iloc[0])["query_norm"] == "no selected document has two or more tokens"
    assert len(rows) == 0


def test_fused_projections_are_cut_head_by_head(tmp_path) -> None:
    """GPT-NeoX, of which Pythia is: queries, keys and values of one head are adjacent."""
    from transformers import GPTNeoXConfig, GPTNeoXModel

    _, tokenizer = load(make("gpt2", tmp_path / "gpt2"))
    config = GPTNeoXConfig(
        vocab_size=len(tokenizer),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    model = GPTNeoXModel(config).eval()
    table, _ = measure_attention(model, tokenizer, TEXTS)
    part = model.layers[1].attention.query_key_value
    inputs: list[torch.Tensor] = []
    part.register_forward_hook(lambda module, args, output: inputs.append(args[0][0]))
    for _, text in TEXTS:
        with torch.no_grad():
            model(**tokenizer(text, return_tensors="pt"))
    read = torch.cat(inputs).double()
    row = table[(table["layer_name"] == "block 2") & (table["population"] == "all")].iloc[0]
    for kind, place in (("query", 0), ("key", 1)):
        cut = [slice(24 * head + 8 * place, 24 * head + 8 * place + 8) for head in range(3)]
        heads = [(read @ part.weight[one].double().T + part.bias[one].double()).detach().numpy() for one in cut]
        norm = np.mean([np.linalg.norm(head, axis=1).mean() for head in heads])
        assert row[f"{kind}_norm"] == pytest.approx(norm, rel=ROUNDING)
        assert row[f"{kind}_cosine"] == pytest.approx(np.mean([naive_cosine(head) for head in heads]), rel=1e-4)
        wrong = (read @ part.weight[24 * place : 24 * place + 24].double().T).detach().numpy()  # as in GPT-2
        assert abs(np.linalg.norm(wrong.reshape(-1, 8), axis=1).mean() - norm) > 1e-3 * norm


def test_queries_that_are_not_found_are_null_with_the_reason(tmp_path) -> None:
    from transformers import ModernBertConfig, ModernBertModel

    _, tokenizer = load(make("bert", tmp_path / "bert"))
    config = ModernBertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=64, pad_token_id=0, bos_token_id=2, eos_token_id=3,
        cls_token_id=2, sep_token_id=3,
    )  # fmt: skip
    table, _ = measure_attention(ModernBertModel(config).eval(), tokenizer, TEXTS)
    assert table["state_cosine"].notna().all()
    assert table["attention_max"].notna().all()
    assert table[["query_norm", "key_cosine", "input_mean_norm"]].isna().all().all()
    assert "no query and key projections were found" in json.loads(table["undefined"].iloc[0])["query_norm"]


def test_encoder_and_decoder_are_both_read(tmp_path) -> None:
    from transformers import T5Config, T5Model

    _, tokenizer = load(make("bert", tmp_path / "bert"))
    config = T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    table, rows = measure_attention(T5Model(config).eval(), tokenizer, TEXTS)
    names = [f"{stack} block {number}" for stack in ("encoder", "decoder") for number in (1, 2)]
    assert table["layer_name"].drop_duplicates().tolist() == names
    assert table["undefined"].isna().all()
    assert set(rows[rows["length_low"] == 1]["layer_name"]) == set(names[2:])  # only the decoder's rows grow


def test_documents_are_chosen_by_hash_and_not_by_order() -> None:
    documents = [(number, f"text {number}") for number in range(100)]
    few = select_documents(documents, 8)
    assert few == sorted(few)
    assert few == select_documents(documents[::-1], 8)
    assert few != documents[:8]
    assert set(few) <= set(select_documents(documents, 20))
    assert select_documents(documents[:3], 8) == documents[:3]
