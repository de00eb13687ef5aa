"""The tables of a trace against loops over tokens and layers with transformers' own hidden_states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests import encoder_decoders
from tests.small_models import load, save, sentences

from theodolite.errors import InputError
from theodolite.studies.laboratory import Findings, open_laboratory
from theodolite.studies.sentences import SentenceReader
from theodolite.studies.trace.comparison import align
from theodolite.studies.trace.trace import trace, trace_sentences

ONE, OTHER = "the mountain was in the river.", "the mountain was in the angle."
ORDINARY = sentences(8, seed=11)
# Sentences go through the model in one padded batch here and alone in the oracle: float32 rounding.
BATCHED = 2e-5


def states_of(folder: Path, text: str) -> tuple[list[int], np.ndarray]:
    """Return ids and hidden states of a single sentence. -> (layers, tokens, dim)"""
    model, tokenizer = load(folder)
    encoded = tokenizer(text, return_tensors="pt")
    encoded.pop("token_type_ids", None)
    with torch.no_grad():
        states = model(**encoded, output_hidden_states=True).hidden_states
    return encoded["input_ids"][0].tolist(), torch.cat(states).double().numpy()


@pytest.fixture(scope="module")
def bert(small_model: Callable[[str], Path]) -> Findings:
    return trace(small_model("bert"), [ONE, OTHER], reference=ORDINARY)


def test_paths_equal_a_loop(bert: Findings, small_model: Callable[[str], Path]) -> None:
    path = bert.tables["path"].set_index(["sentence", "layer", "position"]).sort_index()
    for number, text in enumerate((ONE, OTHER)):
        ids, states = states_of(small_model("bert"), text)
        for layer in range(len(states)):
            for position in range(len(ids)):
                row, state = path.loc[number, layer, position], states[layer, position]
                assert row["norm"] == pytest.approx(np.sqrt((state**2).sum()), rel=BATCHED)
                assert row["cosine_first"] == pytest.approx(_cosine(states[0, position], state), abs=BATCHED)
                assert row["cosine_last"] == pytest.approx(_cosine(states[-1, position], state), abs=BATCHED)
                if layer == 0:
                    assert row[["step", "radial", "tangential", "cosine", "angle"]].isna().all()
                    continue
                before = states[layer - 1, position]
                length, outward = np.linalg.norm(state - before), np.linalg.norm(state) - np.linalg.norm(before)
                assert row["step"] == pytest.approx(length, rel=BATCHED)
                assert row["radial"] == pytest.approx(outward, abs=BATCHED * row["norm"])
                assert row["tangential"] == pytest.approx(np.sqrt(length**2 - outward**2), rel=10 * BATCHED)
                assert row["cosine"] == pytest.approx(_cosine(before, state), abs=BATCHED)
                expected = np.degrees(np.arccos(_cosine(before, state)))
                assert row["angle"] == pytest.approx(expected, abs=np.degrees(BATCHED))


def test_moves_are_means_over_text(bert: Findings) -> None:
    path, moves = bert.tables["path"], bert.tables["moves"]
    inside = path[(path["sentence"] == 0) & ~path["special"] & (path["layer"] == 2)]
    row = moves[(moves["sentence"] == 0) & (moves["layer"] == 2)].iloc[0]
    assert row["tokens"] == len(inside)
    assert row["step"] == pytest.approx(inside["step"].mean())
    assert row["radial_share"] == pytest.approx((inside["radial"] ** 2).sum() / (inside["step"] ** 2).sum())
    assert -1 <= row["shared_direction"] <= 1


def test_two_sentences_are_compared_token_by_token(bert: Findings, small_model: Callable[[str], Path]) -> None:
    (ids, one), (others, other) = (states_of(small_model("bert"), text) for text in (ONE, OTHER))
    compared = bert.tables["compared"]
    pairs = align(ids, others)
    assert len(compared) == len(pairs) * len(one)
    for row in compared.itertuples():
        x, y = one[row.layer, row.position], other[row.layer, row.position_other]
        assert row.distance == pytest.approx(np.linalg.norm(x - y), abs=BATCHED * np.linalg.norm(x))
        assert row.cosine == pytest.approx(_cosine(x, y), abs=BATCHED)
        assert row.same == (ids[row.position] == others[row.position_other])


def test_the_reference_is_pairs_of_different_and_of_same_tokens(
    bert: Findings, small_model: Callable[[str], Path]
) -> None:
    _, tokenizer = load(small_model("bert"))
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    tokens = []
    for number, text in enumerate(ORDINARY):
        ids, states = states_of(small_model("bert"), text)
        tokens += [(i, number, states[2, p]) for p, i in enumerate(ids) if i not in special]
    different = [np.linalg.norm(x - y) for n, (i, _, x) in enumerate(tokens) for j, _, y in tokens[:n] if i != j]
    same = [
        np.linalg.norm(x - y) for n, (i, a, x) in enumerate(tokens) for j, b, y in tokens[:n] if i == j and a != b
    ]
    reference = bert.tables["reference"]
    for kind, expected in (("different", different), ("same", same)):
        row = reference[(reference["layer"] == 2) & (reference["kind"] == kind)].iloc[0]
        assert row["pairs"] == len(expected)
        assert row["distance_low"] == pytest.approx(np.quantile(expected, 0.05), rel=1e-4)
        assert row["distance_median"] == pytest.approx(np.median(expected), rel=1e-4)
    compared = bert.tables["compared"]
    for row in compared[compared["layer"] == 2].itertuples():
        assert row.nearer_different == pytest.approx(np.mean([d < row.distance for d in different]), abs=2e-3)
        assert row.parted == (row.nearer_different >= 0.05)


def test_tokens_before_a_difference_are_equal_in_a_causal_model(small_model: Callable[[str], Path]) -> None:
    found = trace(small_model("gpt2"), [ONE, OTHER], reference=ORDINARY)
    ids = [part["id"].tolist() for _, part in found.tables["tokens"].groupby("sentence")]
    first = next(place for place, (one, other) in enumerate(zip(*ids, strict=False)) if one != other)
    compared = found.tables["compared"]
    before = compared[compared["position"] < first]
    assert len(before) == first * 5
    assert before["distance"].max() < 1e-4
    assert found.tables["partings"].set_index("position").loc[: first - 1, "parted_at"].isna().all()


def test_a_planted_divergence_is_found_at_its_layer(tmp_path: Path, small_model: Callable[[str], Path]) -> None:
    """A model of which only the second block mixes tokens: shared tokens are equal before and differ after it."""
    model, tokenizer = load(small_model("bert"))
    for number, block in enumerate(model.encoder.layer):
        if number != 1:
            torch.nn.init.zeros_(block.attention.output.dense.weight)
        else:
            torch.nn.init.normal_(block.attention.output.dense.weight, std=20.0)
            torch.nn.init.normal_(block.attention.self.value.weight, std=5.0)
    save(model, tokenizer, tmp_path / "planted")
    found = trace(tmp_path / "planted", [ONE, OTHER], reference=ORDINARY)
    compared = found.tables["compared"]
    shared = compared[compared["same"]]
    assert shared[shared["layer"] < 2]["distance"].max() < 1e-4
    assert shared[shared["layer"] == 2]["distance"].min() > 1e-2
    assert set(found.tables["partings"].query("same")["parted_at"].dropna()) <= {2, 3}


def test_sentences_that_tokenize_differently_are_aligned() -> None:
    assert [(a, b) for a, b, _ in align([1, 5, 6, 7], [1, 9, 6, 7])] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert [(a, b, same) for a, b, same in align([1, 2, 3], [1, 8, 9, 3])] == [(0, 0, True), (2, 3, True)]
    assert align([1], [2]) == [(0, 0, False)]
    assert align([], [1]) == []


def test_sentences_without_common_tokens_share_none(small_model: Callable[[str], Path]) -> None:
    found = trace(small_model("gpt2"), ["the mountain", "river"], reference=ORDINARY)
    assert not found.tables["compared"]["same"].any()
    assert found.tables["projection"]["x"].notna().all()


def test_projections_are_with_and_without_the_last_layer(bert: Findings) -> None:
    points, shares = bert.tables["projection"], bert.tables["shares"]
    last = points["layer"].max()
    assert set(points[points["layers"] == "without-last"]["layer"]) == set(range(last))
    assert set(points[points["layers"] == "all"]["layer"]) == set(range(last + 1))
    every = points[(points["layers"] == "all") & (points["tokens"] == "all")]
    assert every[["x", "y", "z"]].mean().to_numpy() == pytest.approx(np.zeros(3), abs=1e-9)  # centred
    assert ((shares["share"] >= 0) & (shares["share"] <= 1)).all()
    assert bert.tables["tokens"]["chosen"].sum() == 2


def test_chosen_tokens_are_projected_by_themselves(small_model: Callable[[str], Path]) -> None:
    found = trace(small_model("bert"), ONE, tokens=["MOUNTAIN"])
    chosen = found.tables["tokens"].query("chosen")
    assert chosen["token"].tolist() == ["mountain"]
    points = found.tables["projection"]
    assert len(points[(points["tokens"] == "chosen") & (points["layers"] == "all")]) == 4
    assert "compared" not in found.tables


def test_an_encoder_decoder_has_paths_in_both_stacks(tmp_path: Path) -> None:
    folder = encoder_decoders.saved("T5", tmp_path / "t5")
    found = trace(folder, [ONE, OTHER], reference=ORDINARY[:3])
    assert list(found.tables["path"]["stack"].unique()) == ["encoder", "decoder"]
    tokens = found.tables["tokens"]
    starts = tokens[(tokens["stack"] == "decoder") & (tokens["position"] == 0)]
    assert (starts["id"] == 1).all()  # what the decoder begins with
    assert starts["special"].all()
    first = found.tables["path"].groupby("stack")["layer"].min()
    steps = found.tables["path"].set_index(["stack", "layer"])["step"]
    assert all(steps.loc[(stack, layer)].isna().all() for stack, layer in first.items())


def test_a_character_model_is_traced_where_it_has_all_characters() -> None:
    model, tokenizer = encoder_decoders.canine()
    tokenizer._unicode_vocab_size = 0xE010  # up to its special characters; more take seconds
    found = trace_sentences(SentenceReader(model, tokenizer), ["a river here"], [])
    assert "downsampled" not in set(found.tables["path"]["stack"])
    assert any("downsampled" in name for name in found.facts["settings"]["layers_left_out"])


def test_one_token_is_enough(small_model: Callable[[str], Path]) -> None:
    found = trace(small_model("gpt2"), ["t", "a"], reference=["t", "a"])
    assert found.tables["moves"]["shared_direction"].isna().all()
    assert found.tables["path"]["norm"].gt(0).all()
    assert found.tables["reference"].query("kind == 'same'")["distance_low"].isna().all()


def test_a_massive_first_position_is_marked_and_kept_out_of_the_means(
    tmp_path: Path, small_model: Callable[[str], Path]
) -> None:
    model, tokenizer = load(small_model("gpt2"))
    with torch.no_grad():
        model.wpe.weight[0] *= 150
    save(model, tokenizer, tmp_path / "massive")
    found = trace(tmp_path / "massive", [ONE, OTHER], reference=ORDINARY)
    assert found.tables["tokens"].query("massive")["position"].tolist() == [0, 0]
    path, moves = found.tables["path"], found.tables["moves"]
    assert moves.query("layer == 0")["norm"].max() < 0.2 * path.query("layer == 0")["norm"].max()
    points = found.tables["projection"]
    assert 0 not in set(points[points["tokens"] == "without-massive"]["position"])
    assert 0 in set(points[points["tokens"] == "all"]["position"])


def test_findings_are_saved_and_opened(tmp_path: Path, small_model: Callable[[str], Path]) -> None:
    found = trace(small_model("llama"), [ONE, OTHER], reference=ORDINARY[:3], out=tmp_path / "t")
    again = open_laboratory(tmp_path / "t")
    for name, table in found.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table)
    with pytest.raises(InputError, match="give --overwrite"):
        trace(small_model("llama"), ONE, out=tmp_path / "t")


@pytest.mark.parametrize(
    ("texts", "more", "words"),
    [
        ([], {}, "SENTENCE: give one sentence, or two to compare"),
        ([ONE, "  "], {}, "Sentence 2 is empty; expected at least one word"),
        ([ONE] * 65, {}, "expected at most 64 sentences .got 65"),
        ([ONE], {"layers": "9"}, "--layers names layer 9, which does not exist"),
        ([ONE], {"tokens": ["zebra"]}, "--token 'zebra' is not a token of these sentences. Their tokens: "),
        ([ONE, OTHER], {"reference": [" "]}, "--reference contains no sentence"),
        ([ONE], {"dtype": "int8"}, "--dtype 'int8' is not one of"),
        ([ONE], {"device": "abacus"}, "--device 'abacus' is not a device"),
    ],
)
def test_invalid_input_is_rejected(
    small_model: Callable[[str], Path], texts: list[str], more: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        trace(small_model("bert"), texts, **more)


def _cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def test_a_lone_surrogate_is_replaced_as_by_the_tokenizer(
    tmp_path: Path, small_model: Callable[[str], Path]
) -> None:
    """Written as it came, laboratory.json could not be read again."""
    made = trace(
        small_model("bert"), ["the \udce9 river", ONE], reference=["a \ud83d", *ORDINARY], out=tmp_path / "t"
    )
    settings = open_laboratory(tmp_path / "t").facts["settings"]
    assert settings == made.facts["settings"]
    assert settings["sentences"] == ["the \ufffd river", ONE]
    assert settings["reference"][0] == "a \ufffd"
