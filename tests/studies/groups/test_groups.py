"""Groups of sentences: files, templates, nonsense, and the tables against loops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.small_models import load, sentences

from theodolite import samples
from theodolite.errors import InputError
from theodolite.studies.groups.groups import count_words, groups, measure_groups
from theodolite.studies.groups.sentences import (
    CONTROLS,
    WORDS,
    expand_groups,
    expand_template,
    make_nonsense,
    read_groups,
)
from theodolite.studies.laboratory import Findings, open_laboratory
from theodolite.studies.pooling import embed_sentences

GROUPS = {
    "hills": ["the {mountain|ridge|summit} of the {country|valley}", "a mountain in this country"],
    "tools": ["{measure|angle} the telescope with {his|this} instrument"],
    "alone": ["which was it?"],
}


@pytest.fixture(scope="module")
def found(small_model: Callable[[str], Path]) -> Findings:
    return groups(small_model("bert"), GROUPS, pooling="mean", permutations=99)


def test_templates_expand_to_every_choice() -> None:
    assert expand_template("no template {here}") == ["no template {here}"]
    assert expand_template("{a|b}{c|d|}!") == ["ac!", "ad!", "a!", "bc!", "bd!", "b!"]
    assert len(expand_template("{a|b|c} {a|b|c} {a|b|c}")) == 27
    for wrong in ("{a|{b|c}}", "{a|b", "a|b}"):
        with pytest.raises(InputError, match="has unmatched or nested braces"):
            expand_template(wrong)
    with pytest.raises(InputError, match="expands to 16,384 sentences; at most 10,000"):
        expand_template("{a|b}" * 14)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"x": ["one", "two"], "y": ["three"]}'),
        (
            "b.json",
            '[{"group": "x", "sentence": "one"}, {"group": "y", "sentence": "three"}, '
            '{"group": "x", "sentence": "two"}]',
        ),
        (
            "c.jsonl",
            '{"group": "x", "sentence": "one"}\n\n{"group": "x", "sentence": "two"}\n'
            '{"group": "y", "sentence": "three"}',
        ),
        ("d.csv", "\ufeffgroup,sentence\nx,one\nx,two\ny,three\n"),
    ],
)
def test_groups_are_read_from_every_kind_of_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_groups(tmp_path / name) == {"x": ["one", "two"], "y": ["three"]}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "", "the file name must end in one of json, jsonl, csv"),
        ("a.json", "{", r"is not valid JSON \(line 1: .*\); expected"),
        ("a.json", "3", "contains neither an object nor a list"),
        ("a.json", '{"x": 3}', "group 'x' is not a list"),
        ("a.json", '{"x": "one sentence"}', "group 'x' is not a list; expected"),
        ("a.json", '{"x": [], "y": ["one"]}', "group 'x' is empty; add sentences or remove the group"),
        ("a.json", '{"x": ["one", 3]}', "group 'x': expected"),
        ("a.jsonl", '{"group": "x", "sentence": "one"}\n{"group"', r"is not valid JSON \(line 2: "),
        ("a.jsonl", '{"group": "x"}', "line 1: expected"),
        ("a.csv", "group,text\nx,one\n", "has no column 'sentence'"),
    ],
)
def test_invalid_files_are_rejected(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read_groups(tmp_path / name)


def test_a_missing_file_or_one_not_in_utf8_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_groups(tmp_path / "none.json")
    (tmp_path / "latin.csv").write_bytes(b"group,sentence\nx,caf\xe9\n")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_groups(tmp_path / "latin.csv")


def test_a_duplicate_sentence_counts_once() -> None:
    assert expand_groups({"x": ["a {b|b}", "a b", "c"]}) == ({"x": ["a b", "c"]}, 2)


def test_nonsense_has_the_shape_of_real_sentences() -> None:
    real = ["Don't go, it's 12 o'clock!", "A river."]
    for kind in CONTROLS:
        made = make_nonsense(real, kind, 20, seed=3)
        assert made == make_nonsense(real, kind, 20, seed=3) != make_nonsense(real, kind, 20, seed=4)
        assert len(made) == 20
        assert {sentence.count(" ") for sentence in made} == {4, 1}
        assert all(sentence[0].isupper() and sentence[-1] in "!." for sentence in made)
    words = [
        word.strip(".,!").lower() for word in " ".join(make_nonsense(real, "random words", 9, seed=1)).split()
    ]
    assert set(words) <= set(WORDS)
    characters = make_nonsense(["Hello there."], "random characters", 1, seed=1)[0]
    assert [len(word) for word in characters.split()] == [5, 6]


def test_numbers_by_loops(found: Findings, small_model: Callable[[str], Path]) -> None:
    model, tokenizer = load(small_model("bert"))
    table = found.tables["sentences"]
    vectors = []
    for text in table["sentence"]:
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[2][0]
        vectors.append(states.double().numpy().mean(0))
    for population, keep in (("groups", ~table["nonsense"]), ("with-nonsense", table["nonsense"] >= 0)):
        within, between, turned = [], [], []
        chosen = np.flatnonzero(keep)
        for place, i in enumerate(chosen):
            for j in chosen[:place]:
                apart = np.linalg.norm(vectors[i] - vectors[j])
                same = table["group"][i] == table["group"][j]
                (within if same else between).append(apart)
                if same:
                    lengths = np.linalg.norm(vectors[i]) * np.linalg.norm(vectors[j])
                    turned.append(vectors[i] @ vectors[j] / lengths)
        layers = found.tables["layers"]
        row = layers[(layers["layer"] == 2) & (layers["population"] == population)].iloc[0]
        # float32 vectors of padded batches against sentences alone
        assert row["within_distance"] == pytest.approx(np.mean(within), rel=1e-4)
        assert row["between_distance"] == pytest.approx(np.mean(between), rel=1e-4)
        assert row["within_cosine"] == pytest.approx(np.mean(turned), rel=1e-4)
        everything = np.mean([*within, *between])
        expected = (np.mean(between) - np.mean(within)) / everything
        assert row["separation"] == pytest.approx(expected, rel=1e-3)
        assert row["n"] == len(chosen)
        assert 0.01 <= row["p"] <= 1


def test_every_pair_of_groups_is_measured(found: Findings) -> None:
    pairs = found.tables["pairs"]
    layer_pairs = pairs[pairs["layer"] == 1]
    assert len(layer_pairs) == 15  # 5 groups with themselves and each other
    own = layer_pairs[layer_pairs["group"] == layer_pairs["other"]].set_index("group")
    assert np.isnan(own.loc["alone", "distance"])  # one sentence has no pair
    assert own.loc["hills", "distance"] > 0
    tested = layer_pairs[layer_pairs["group"] != layer_pairs["other"]]
    assert tested["p_holm"].ge(tested["p"]).all()


def test_synonyms_are_closer_than_nonsense_in_bags_of_words(found: Findings) -> None:
    assert count_words(["a b a", "b"]).tolist() == [[2, 1], [0, 1]]
    bag = found.tables["bag_of_words"].set_index("population")
    assert bag.loc["groups", "separation"] > 0.3


def test_the_first_token_before_any_block_is_constant(small_model: Callable[[str], Path]) -> None:
    rows = groups(small_model("bert"), GROUPS, pooling="first", layers="0,1", permutations=9).tables["layers"]
    first = rows[rows["layer"] == 0]
    assert (first["undefined"] == "all vectors are equal").all()
    assert first[["separation", "p", "silhouette", "silhouette_cosine", "share_x"]].isna().all(axis=None)
    assert rows[rows["layer"] == 1]["undefined"].isna().all()


def test_groups_of_one_have_no_silhouette(small_model: Callable[[str], Path]) -> None:
    found = groups(small_model("bert"), {"a": ["the river"], "b": ["a ridge"]}, controls=0, permutations=9)
    for table in ("layers", "bag_of_words"):
        rows = found.tables[table]
        assert rows[["silhouette", "silhouette_cosine", "separation"]].isna().all(axis=None)
        assert rows["undefined"].str.startswith("there are no pairs within a group").all()


def test_groups_without_difference_are_not_separated(small_model: Callable[[str], Path]) -> None:
    """Of 40 nulls 4 have p up to 0.1 in the mean; over 10 have it once in 500 such tests. One null says little."""
    model, tokenizer = load(small_model("bert"))
    texts = sentences(40 * 24, seed=8, longest=6)
    vectors = embed_sentences(model, tokenizer, texts, [3], "mean")[3].double().numpy().reshape(40, 24, -1)
    rows = [measure_groups(null, np.arange(24) % 2, permutations=99, seed=0) for null in vectors]
    assert sum(row["p"] <= 0.1 for row in rows) <= 10
    assert sum(row["p"] >= 0.5 for row in rows) >= 10
    assert abs(np.mean([row["silhouette"] for row in rows])) < 0.03


def test_findings_are_saved_and_opened(tmp_path: Path, small_model: Callable[[str], Path]) -> None:
    (tmp_path / "groups.json").write_text(json.dumps(GROUPS), encoding="utf-8")
    made = groups(small_model("llama"), tmp_path / "groups.json", out=tmp_path / "g", permutations=9)
    again = open_laboratory(tmp_path / "g")
    for name, table in made.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table)
    assert made.facts["settings"]["file"].endswith("groups.json")


def test_a_lone_surrogate_is_replaced_as_by_the_tokenizer(
    tmp_path: Path, small_model: Callable[[str], Path]
) -> None:
    given = {
        "odd \udce9": ["the \ud83d valley", "a valley", "a {\udce9|\udcea}"],
        "hills": ["the ridge", "a ridge"],
    }
    groups(small_model("bert"), given, out=tmp_path / "g", permutations=9)
    found = open_laboratory(tmp_path / "g")
    real = found.tables["sentences"].query("~nonsense")
    assert real["sentence"].tolist()[:3] == ["the \ufffd valley", "a valley", "a \ufffd"]
    assert real["group"].unique().tolist() == ["odd \\udce9", "hills"]
    assert found.facts["settings"]["duplicates_dropped"] == 1  # two characters that no tokenizer distinguishes


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        ({}, {}, r"At least two groups are required to compare them \(got 0\)"),
        ({"x": ["a", "the"]}, {"controls": 0}, r"At least two groups are required to compare them \(got 1\)"),
        ({"x": [""], "y": ["a"]}, {}, "Group 'x' has an empty sentence"),
        ({"x": [], "y": ["a"]}, {}, "Group 'x' has no sentence"),
        ({"x": "a", "y": ["a"]}, {}, "Group 'x' must be a list of sentences"),
        ({"random words": ["a"]}, {}, "'random words' is reserved for a control"),
        (GROUPS, {"pooling": "median"}, "--pooling 'median' is not one of first, mean, last, max"),
        (GROUPS, {"layers": "7"}, "--layers names layer 7, which does not exist"),
        (GROUPS, {"permutations": 0}, r"--permutations must be at least 1 \(got 0\)"),
        (GROUPS, {"controls": -1}, r"--controls must be between 0 and 5,000 .*\(got -1\)"),
        ({"x": ["{a|b}" * 13] * 2, "y": ["a"]}, {}, r"because every pair is measured \(got 8,193\)"),
        ({"x": ["a", "the " * 80], "y": ["a"]}, {}, r"Sentence 2 .* is longer than the 64 tokens"),
    ],
)
def test_invalid_input_is_rejected(
    small_model: Callable[[str], Path], given: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        groups(small_model("bert"), given, **more)


def test_the_shipped_examples_are_groups() -> None:
    shipped, dropped = expand_groups(read_groups(samples.path("groups.json")))
    assert {name: len(texts) for name, texts in shipped.items()} == {
        "rain": 27,
        "supper": 27,
        "train": 27,
        "library": 10,
    }
    assert dropped == 0
