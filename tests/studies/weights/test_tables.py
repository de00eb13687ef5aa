"""Tables found by how they are read, in families that keep them differently; vocabularies; parameters by part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests import small_models

from theodolite.errors import InputError
from theodolite.studies.weights.mean_embedding import mean_extremes, token_table
from theodolite.studies.weights.model_tables import ModelTables
from theodolite.studies.weights.parameters import parameter_table, parts_table
from theodolite.studies.weights.vocabulary import (
    summarise_vocabulary,
    token_units,
    vocabulary_overlap,
    vocabulary_table,
)


@pytest.fixture(scope="module")
def found() -> dict[str, ModelTables]:
    tables = {}
    for family in small_models.FAMILIES:
        tokenizer = small_models.TOKENIZERS[family]()
        torch.manual_seed(0)
        tables[family] = ModelTables.of(small_models.MODELS[family](len(tokenizer)).eval(), tokenizer)
    return tables


def bare(kind: str) -> Any:
    """A tiny model of a family that is not in the other tests."""
    import transformers as t

    common = {"vocab_size": 300}
    if kind == "opt":
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "ffn_dim": 32, "num_attention_heads": 4}
        return t.OPTModel(t.OPTConfig(**common, **sizes, max_position_embeddings=64, word_embed_proj_dim=16))
    if kind == "bart":
        sizes = dict.fromkeys(["encoder_layers", "decoder_layers"], 1)
        sizes |= dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], 2)
        sizes |= dict.fromkeys(["d_model", "encoder_ffn_dim", "decoder_ffn_dim"], 32)
        return t.BartModel(t.BartConfig(**common, **sizes, max_position_embeddings=64))
    if kind == "t5":
        return t.T5Model(t.T5Config(**common, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4))
    return t.BloomModel(t.BloomConfig(**common, hidden_size=32, n_layer=1, n_head=4))


def test_bert_has_three_tables(found: dict[str, ModelTables]) -> None:
    tables, model = found["bert"], found["bert"].model
    assert {role: tuple(table.shape) for role, table in tables.by_role().items()} == {
        "words": (125, 32),
        "positions": (64, 32),
        "segments": (2, 32),
    }
    assert torch.equal(tables.words, model.embeddings.word_embeddings.weight)  # type: ignore[union-attr, arg-type]
    assert tables.notes == ()


def test_rows_that_no_token_reads_are_dropped_with_a_note(found: dict[str, ModelTables]) -> None:
    """Not by the model's name: OPT adds its offset within the module, RoBERTa outside it."""
    weight = found["roberta"].model.embeddings.position_embeddings.weight  # type: ignore[union-attr]
    for tables, whole in (
        (found["roberta"], weight),
        *((ModelTables.of(bare(k).eval()), None) for k in ("opt", "bart")),
    ):
        assert tables.dropped == 2
        assert tables.positions is not None
        assert len(tables.positions) == 64
        assert "The first 2 rows of the position table are not used by any token" in tables.notes[0]
        if whole is not None:
            assert torch.equal(tables.positions, whole[2:])  # type: ignore[index, arg-type]
    assert found["gpt2"].dropped == 0


@pytest.mark.parametrize(("kind", "expected"), [("t5", "relative bias"), ("bloom", "ALiBi")])
def test_models_without_a_position_table_have_a_note(kind: str, expected: str) -> None:
    tables = ModelTables.of(bare(kind).eval())
    assert tables.positions is None
    assert tables.position_kind == expected
    assert "has no position table: it" in tables.notes[0]


def test_rotary_models_have_a_note(found: dict[str, ModelTables]) -> None:
    assert found["llama"].position_kind == "rotary"
    assert "RoPE" in found["llama"].notes[0]


def test_both_tables_of_an_encoder_decoder_are_named() -> None:
    assert any("decoder.embed_positions.weight" in note for note in ModelTables.of(bare("bart").eval()).notes)


def test_a_model_without_words_is_rejected() -> None:
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = ViTModel(ViTConfig(image_size=8, patch_size=4, **sizes))
    with pytest.raises(InputError, match="has no table of token embeddings"):
        ModelTables.of(model)


def test_bfloat16_is_carried_over_exactly() -> None:
    tokenizer = small_models.TOKENIZERS["gpt2"]()
    model = small_models.MODELS["gpt2"](len(tokenizer)).eval().to(torch.bfloat16)
    assert torch.equal(ModelTables.of(model, tokenizer).words.bfloat16(), model.wte.weight)


def test_kinds_of_tokens(found: dict[str, ModelTables]) -> None:
    kinds = found["bert"].units.set_index("unit")["kind"]
    expected = {"[CLS]": "special", "[UNK]": "special", "a": "character, start", "##a": "character, continuation"}
    expected |= {"mountain": "start", "##or": "continuation"}
    assert {unit: kinds[unit] for unit in expected} == expected
    rows = found["roberta"].units.set_index("unit")["kind"]
    assert rows["Ġthe"] == "start"
    assert rows["<mask>"] == "special"
    assert "continuation" in set(rows)


def test_rows_beyond_the_tokenizer_are_unused() -> None:
    tokenizer = small_models.TOKENIZERS["bert"]()
    units = token_units(tokenizer, 130)
    assert len(units) == 130
    assert units["unused"].tolist() == [False] * 125 + [True] * 5
    assert units["unit"].is_unique


@pytest.mark.parametrize(
    ("token", "unused"),
    [("[unused17]", True), ("<|reserved_special_token_3|>", True), ("<extra_id_0>", True), ("unused", False)],
)
def test_unused_by_spelling(token: str, unused: bool) -> None:
    from theodolite.studies.weights.vocabulary import UNUSED

    assert (UNUSED.fullmatch(token) is not None) is unused


def test_the_vocabulary_table_counts_every_token_once(found: dict[str, ModelTables]) -> None:
    for tables in found.values():
        table = vocabulary_table(tables.units, "m")
        assert table["tokens"].sum() == len(tables.units)
        assert table["share"].sum() == pytest.approx(1)
        for row in table.to_dict("records"):
            run = tables.units["kind"].iloc[row["run_first"] : row["run_last"] + 1]
            assert set(run) == {row["kind"]}
    summary = summarise_vocabulary(found["bert"].units)
    assert summary["continuations"] == sum(unit.startswith("##") for unit in found["bert"].units["unit"])
    assert summary["alphanumeric_as_spelled"] == sum(unit.isalnum() for unit in found["bert"].units["unit"])


def test_overlap_ignores_marks(found: dict[str, ModelTables]) -> None:
    """`the` and `Ġthe` both begin a word; comparing spellings would find hardly any token in both."""
    bert, roberta = found["bert"].units, found["roberta"].units
    table = vocabulary_overlap(bert, roberta).set_index(["of", "case"])
    of = ("starts", "as read")
    starts = {u for u in bert["unit"] if not u.startswith(("##", "["))}
    theirs = {t[1:] for t, s in zip(roberta["text"], roberta["unit"], strict=True) if s.startswith("Ġ")}
    fragments = {t for t in theirs if "\\x" in t}
    assert table.loc[of, "both"] == len(starts & (theirs - fragments)) > 10
    assert len(starts & set(roberta["unit"])) != table.loc[of, "both"]
    same = vocabulary_overlap(bert, bert)
    assert (same["jaccard"] == 1).all()
    assert (same["only_one"] == "").all()


def test_every_parameter_is_in_one_part(found: dict[str, ModelTables]) -> None:
    for family, tables in found.items():
        model = tables.model
        table = parameter_table(model, tables.names)
        assert table["parameters"].sum() == sum(p.numel() for p in model.parameters())
        whole = parts_table(table).set_index(["part", "detail"])
        assert whole["share"].sum() == pytest.approx(1)
        assert whole.loc[("word table", ""), "parameters"] == tables.words.numel()
        facts = small_models.FACTS[family]
        inside = sum(p.numel() for p in small_models.blocks_of(model, family).parameters())
        blocks = whole.loc[["attention", "feed-forward", "norm"]]
        assert blocks["parameters"].sum() == inside
        assert (blocks["blocks"] == facts.blocks).all()
        assert (blocks["a_block"] * facts.blocks == blocks["parameters"]).all()
        assert ("final norm" in whole.index.get_level_values(0)) is facts.final_norm


def test_parts_of_attention(found: dict[str, ModelTables]) -> None:
    sizes = parts_table(parameter_table(found["bert"].model, found["bert"].names)).set_index("detail")["a_block"]
    assert [int(sizes[part]) for part in ("query", "key", "value", "output")] == [32 * 32 + 32] * 4
    llama = parts_table(parameter_table(found["llama"].model, {})).set_index("detail")["a_block"]
    assert [int(llama[part]) for part in ("query", "key", "value", "output")] == [
        48 * 48,
        48 * 24,
        48 * 24,
        48 * 48,
    ]
    gpt2 = parts_table(parameter_table(found["gpt2"].model, {})).set_index("detail")["a_block"]
    assert int(gpt2["query, key and value"]) == 3 * 32 * 32 + 3 * 32
    t5 = parameter_table(bare("t5"), {})
    assert {"query", "key", "value", "output"} <= set(t5["detail"])


def test_tokens_compared_with_the_mean(found: dict[str, ModelTables]) -> None:
    tables = found["bert"]
    x = tables.words.double().numpy()
    mean = np.array([sum(column) / len(x) for column in x.T])
    table = token_table(tables)
    for row in (1, 60, 124):
        dot = sum(x[row] * mean)
        norm = np.sqrt(sum(x[row] ** 2))
        assert table.loc[row, "dot"] == pytest.approx(dot, rel=1e-12)
        assert table.loc[row, "cosine"] == pytest.approx(dot / norm / np.sqrt(sum(mean**2)), rel=1e-12)
        assert table.loc[row, "distance"] == pytest.approx(np.sqrt(sum((x[row] - mean) ** 2)), rel=1e-12)
        assert table.loc[row, "norm"] == pytest.approx(norm, rel=1e-12)
    words = table[table["word"]]
    assert set(words["unit"]) == {u for u in tables.units["unit"] if u.isascii() and u.isalpha() and len(u) > 2}
    extremes = mean_extremes(table).set_index(["metric", "which"])
    assert extremes.loc[("abs_dot", "largest"), "abs_dot"] == words["dot"].abs().max()
    assert extremes.loc[("norm", "smallest"), "norm"] == words["norm"].min()
    assert len(extremes) == 12


def test_a_zero_row_has_no_cosine_to_the_mean(found: dict[str, ModelTables]) -> None:
    from dataclasses import replace

    words = found["bert"].words.clone()
    words[7] = 0  # as row 0, the padding, is
    words[8, 0] = torch.nan
    table = token_table(replace(found["bert"], words=words))
    assert np.isnan(table.loc[7, "cosine"])
    assert table.loc[7, "norm"] == 0
    assert table.loc[8, ["norm", "distance", "cosine", "dot"]].isna().all()
    assert table.drop(index=[0, 7, 8])["cosine"].notna().all()


def test_real_models() -> None:
    from theodolite.corpora.catalogue.entries import MODELS
    from theodolite.corpora.catalogue.lookup import is_cached

    if not is_cached(MODELS["minilm-l6"]):
        pytest.skip("minilm-l6 is not in the cache")
    from theodolite.models.checkpoint import load_model, load_tokenizer, resolve

    checkpoint = resolve("minilm-l6")
    model = load_model(checkpoint, dtype="float32", device="cpu")
    tables = ModelTables.of(model, load_tokenizer(checkpoint))
    assert [tuple(table.shape) for table in tables.by_role().values()] == [(30522, 384), (512, 384), (2, 384)]
    counts = tables.units["kind"].value_counts()
    assert counts["unused"] == 994
    assert counts["special"] == 5
