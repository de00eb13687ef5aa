"""Contrast: pairs through a model, planted directions, warnings, and files that are not what they should be."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.listeners import RecordingListener
from tests.shared import slow
from tests.small_models import sentences

import theodolite
from theodolite import samples
from theodolite.errors import InputError
from theodolite.measures.laboratories.contrast import association
from theodolite.studies.contrast.contrast import measure_contrast
from theodolite.studies.contrast.directions import (
    FEW,
    HINT,
    NONE,
    OPEN,
    SMALL,
    SURE,
    class_rows,
    cosine_rows,
    random_means,
    resolution_warnings,
    verdict,
)
from theodolite.studies.contrast.pairs import (
    Pairs,
    drop_mirrored,
    pair_warnings,
    pairs_table,
    punctuation,
    read_pairs,
    swap,
)
from theodolite.studies.contrast.swaps import exchanged_words, make_random_swaps
from theodolite.studies.groups.sentences import WORDS
from theodolite.studies.laboratory import open_laboratory

DIM = 40
TEXTS = sentences(60, seed=3, longest=8)


def classes(**sizes: int) -> Pairs:
    return {name: [(f"{name} {i} a.", f"{name} {i} b.") for i in range(n)] for name, n in sizes.items()}


def planted(pairs: Pairs, directions: dict[str, np.ndarray], seed: int = 0) -> np.ndarray:
    """Sentences scattered far apart, each second one moved along its class's direction, with a little noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for name, members in pairs.items():
        for _ in members:
            a = rng.normal(0, 3, DIM)
            rows += [a, a + directions.get(name, np.zeros(DIM)) + rng.normal(0, 0.5, DIM)]
    return np.array(rows)


def random_versions(pairs: Pairs, versions: int = 20, seed: int = 0) -> dict[str, np.ndarray]:
    """Differences of random versions of each class: one random direction each, with a little noise."""
    rng = np.random.default_rng([seed, 99])
    shapes = {name: (versions, len(members), DIM) for name, members in pairs.items()}
    return {n: rng.normal(0, 0.5, (s[0], 1, DIM)) + rng.normal(0, 0.5, s) for n, s in shapes.items()}


def found(vectors: np.ndarray, pairs: Pairs) -> dict[str, dict[str, object]]:
    tables, _ = measure_contrast({0: vectors}, pairs, {0: "here"}, random={0: random_versions(pairs)}, seed=0)
    return {f"{row['class_a']} {row['class_b']}": row for row in tables["cosines"].to_dict("records")}  # type: ignore[misc]


def test_a_planted_bias_is_significant_and_a_null_one_is_not() -> None:
    pairs = classes(gender=12, job=12, colour=12)
    way, other = np.eye(DIM)[0] * 3, np.eye(DIM)[1] * 3
    vectors = planted(pairs, {"gender": way, "job": -0.9 * way + 0.3 * other, "colour": np.eye(DIM)[5] * 3})
    vectors[:, 7] += 3000.0  # a rogue coordinate that all sentences share
    rows = found(vectors, pairs)
    bias = rows["gender job"]
    assert bias["verdict"] == SURE
    assert bias["high"] < -0.7  # type: ignore[operator]
    assert bias["p"] == bias["smallest_p"] == 2.0**-11
    assert bias["reference_p"] <= 0.05  # type: ignore[operator]
    assert {rows["gender colour"]["verdict"], rows["job colour"]["verdict"]} <= {OPEN, SMALL}


def test_classes_without_direction_are_seldom_significant() -> None:
    pairs = classes(a=8, b=8, c=8)
    verdicts = [row["verdict"] for seed in range(20) for row in found(planted(pairs, {}, seed), pairs).values()]
    assert verdicts.count(SURE) + verdicts.count(HINT) <= 6  # 60 tests at 5%, and 2 standard errors


def test_a_class_has_a_direction_or_not() -> None:
    rng = np.random.default_rng(0)
    rows = {
        str(row["class"]): row
        for row in class_rows({"one": rng.normal(0.8, 1, (10, DIM)), "none": rng.normal(0, 1, (10, DIM))})
    }
    assert rows["one"]["p"] == rows["one"]["smallest_p"]
    assert rows["none"]["p"] > 0.05
    assert rows["one"]["agree"] == 1.0
    d = rng.normal(0.8, 1, (6, DIM))
    (row,) = class_rows({"d": d})
    assert row["length_of_mean"] == pytest.approx(np.linalg.norm(d.mean(0)))
    units = d / np.linalg.norm(d, axis=1, keepdims=True)
    assert row["mean_cosine"] == pytest.approx(np.mean([units[i] @ units[j] for i in range(6) for j in range(i)]))


def test_one_pair_and_equal_sentences_are_undefined_with_a_reason() -> None:
    pairs = classes(one=1, many=6, still=3)
    vectors = planted(pairs, {"many": np.ones(DIM)})
    vectors[14:] = vectors[14:15]  # both sentences of every pair of `still` are one
    rows = found(vectors, pairs)
    assert rows["one many"]["verdict"] == FEW
    assert rows["one many"]["smallest_p"] == 1.0
    assert np.isnan(rows["one many"]["low"])  # type: ignore[call-overload]
    assert rows["one many"]["reason"] == "one pair cannot be resampled"
    assert np.isnan(rows["one many"]["p"])  # type: ignore[call-overload]
    assert rows["many still"]["verdict"] == NONE
    assert rows["many still"]["reason"] == "a mean difference of 0 has no direction"
    tables, _ = measure_contrast({0: vectors}, pairs, {0: "here"})
    still = tables["classes"].set_index("class").loc["still"]
    assert (still["zero"], still["reason"]) == (3, "every difference is 0")
    assert np.isnan(still["p"])
    one = tables["classes"].set_index("class").loc["one"]
    assert np.isnan(one["p"])
    assert one["reason"] == "one pair cannot be resampled"


def test_a_single_class_has_no_cosines() -> None:
    pairs = classes(alone=4)
    tables, _ = measure_contrast({0: planted(pairs, {})}, pairs, {0: "here"})
    assert len(tables["cosines"]) == 0
    assert len(tables["classes"]) == 1


def test_random_versions_exchange_other_words_in_the_same_templates() -> None:
    pairs = {
        "job": [("The Doctor ran.", "The Nurse ran."), ("A doctor, she said.", "A nurse, she said.")],
        "dots": [("It is.", "It is")],
    }
    made = make_random_swaps(pairs, 40, seed=3)  # type: ignore[arg-type]
    assert made == make_random_swaps(pairs, 40, seed=3)  # type: ignore[arg-type]
    assert made["dots"] == []  # no word is exchanged
    assert len(made["job"]) == 40
    for first, second in made["job"]:
        (left,), (right,) = exchanged_words(*first)
        assert exchanged_words(*second) == ([left], [right])  # the same words in both templates
        assert left != right
        assert first == (f"The {left.capitalize()} ran.", f"The {right.capitalize()} ran.")
        assert {left, right} <= set(WORDS)
    assert len({exchanged_words(*first)[0][0] for first, _ in made["job"]}) > 20


def test_unrelated_words_are_significant_by_flips_and_not_against_random_words() -> None:
    """Each class exchanges one pair of words in ten templates; the space has few dimensions, as real ones have."""
    rng = np.random.default_rng(1)
    names = [f"class {number}" for number in range(20)]
    spread = np.r_[np.ones(10), np.full(DIM - 10, 0.05)]

    def draw(*shape: int) -> np.ndarray:
        return (rng.normal(size=(*shape, 1, DIM)) + rng.normal(0, 0.3, (*shape, 10, DIM))) * spread

    differences = {name: draw() for name in names}
    random = {name: random_means(draw(30), seed=number) for number, name in enumerate(names)}
    rows, cosines = cosine_rows(differences, random)
    assert len(rows) == 190
    assert len(cosines) == 190 * 900
    share = np.mean([[row["p"] <= 0.05, row["reference_p"] <= 0.05] for row in rows], axis=0)
    assert share[0] > 0.7
    assert 0.01 <= share[1] <= 0.1
    assert sum(row["verdict"] == SURE for row in rows) <= 1
    for row in rows:
        assert row["reference_p_holm"] >= row["reference_p"]
    planted_rows, _ = cosine_rows(
        {"a": differences[names[0]], "b": 2 * differences[names[0]] + 0.1},
        {"a": random[names[0]], "b": random[names[1]]},
    )
    assert planted_rows[0]["verdict"] == SURE
    alone, _ = cosine_rows({"a": differences[names[0]], "b": 2 * differences[names[0]] + 0.1})
    assert alone[0]["verdict"] == HINT  # never sure without a reference


def test_seat_and_weat_stand_beside_the_cosine() -> None:
    pairs = classes(gender=8, job=8)
    way = np.eye(DIM)[0] * 3
    vectors = planted(pairs, {"gender": way, "job": way})
    words = {name: (np.eye(DIM)[2:5] + 3, np.eye(DIM)[5:8] - 1) for name in pairs}
    tables, _ = measure_contrast({0: vectors}, pairs, {0: "here"}, words=words)
    (row,) = tables["cosines"].to_dict("records")
    gender, job = (vectors[:16], vectors[16:])
    assert row["seat"] == association(gender[::2], gender[1::2], job[::2], job[1::2]).effect > 0
    assert row["weat"] == association(*words["gender"], *words["job"]).effect > 1
    assert row["weat_p"] == 0.1  # 2 of the 20 ways to divide six words


def test_a_verdict_needs_interval_adjusted_p_and_more_than_random() -> None:
    row = {
        "cosine": 0.5,
        "low": 0.3,
        "high": 0.7,
        "p": 0.002,
        "p_holm": 0.02,
        "smallest_p": 0.002,
        "reference_p": 0.001,
        "reference_p_holm": 0.01,
    }
    assert verdict(row) == SURE
    assert verdict(row | {"p_holm": 0.2}) == HINT
    assert verdict(row | {"reference_p_holm": 0.2}) == HINT
    assert verdict(row | {"reference_p": 0.4}) == SMALL
    assert verdict(row | {"word_low": -0.1, "word_high": 0.9}) == OPEN
    assert verdict(row | {"low": -0.1}) == OPEN
    assert verdict(row | {"p": 0.2, "p_holm": 1.0}) == OPEN
    assert verdict(row | {"smallest_p": 0.25}) == FEW
    few = {"p": 0.004, "smallest_p": 0.004, "n_a": 9, "n_b": 9}
    (warning,) = resolution_warnings([few] * 21)
    assert "With 9 pairs in a class the smallest possible p is 0.004, and 0.084 after Holm's adjustment" in warning
    assert resolution_warnings([few]) == []
    # By Holm's method the largest p of 21 is not multiplied; by Bonferroni's it would be 0.84.
    many = {"p": 0.001, "smallest_p": 0.0001, "n_a": 15, "n_b": 15}
    assert resolution_warnings([many] * 20 + [{"p": 0.04, "smallest_p": 0.04, "n_a": 6, "n_b": 15}]) == []


def test_warnings_about_punctuation_length_and_repeats() -> None:
    pairs = {
        "x": [("She came.", "He came"), ("A cat, a dog.", "A dog."), ("Same.", "Same."), ("She came.", "He came")],
        "y": [("The old door.", "The new door."), ("An old cup.", "A new cup.")],
        "z": [("It is hot.", "It is cold."), ("A hot day.", "A cold day.")],
    }
    table = pairs_table(pairs, [3, 2, 6, 3, 2, 2, 3, 2, *[4] * 8])
    warnings = "\n".join(pair_warnings(table))
    assert "3 of 8 pairs differ in punctuation" in warnings
    assert "1 of 8 pairs differ in their number of words: x 1" in warnings
    assert "3 of 8 pairs differ in their number of tokens: x 3" in warnings
    assert "1 of 8 pairs contain the same sentence twice" in warnings
    assert "1 of 8 pairs occur more than once" in warnings
    assert "All pairs of these classes change the same words: z (hot > cold)." in warnings
    assert pair_warnings(pairs_table({"y": pairs["y"]}, [4] * 4)) == []
    assert punctuation("»Nein«, said I.") == "»«,."
    assert swap("A b c", "a c d") == "b > d"


def test_a_reversed_class_is_omitted() -> None:
    pairs = {"up": [("a", "b"), ("c", "d")], "down": [("d", "c"), ("b", "a")], "again": [("c", "d"), ("a", "b")]}
    kept, warnings = drop_mirrored(pairs)  # type: ignore[arg-type]
    assert list(kept) == ["up"]
    assert warnings == [
        "The class down was omitted: it reverses the class up.",
        "The class again was omitted: it repeats the class up.",
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "contains no classes of pairs"),
        ([1], "contains no classes of pairs"),
        ({"a": []}, "the class 'a' is empty; add pairs or remove the class"),
        ({"a": "text"}, "the class 'a' is not a list of pairs"),
        ({"a": [["one"]]}, "pair 1 of 'a' must consist of two sentences"),
        ({"a": [["x", "y"], ["one", " "]]}, "pair 2 of 'a' must consist of two sentences"),
        ({"a": [["one", 2]]}, "pair 1 of 'a' must consist of two sentences"),
    ],
)
def test_a_file_without_pairs_is_rejected(given: object, words: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(given))
    with pytest.raises(InputError, match=words):
        read_pairs(path)


def test_files_that_are_not_valid_json_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "pairs.json"
    with pytest.raises(InputError, match="does not exist"):
        read_pairs(path)
    path.write_text("{")
    with pytest.raises(InputError, match="is not valid JSON"):
        read_pairs(path)
    path.write_bytes(b'{"\xff": []}')
    with pytest.raises(InputError, match="is not UTF-8"):
        read_pairs(path)
    path.write_text('{"a": [["x", "y"]], "a": [["z", "w"]]}')
    with pytest.raises(InputError, match="the class 'a' occurs twice"):
        read_pairs(path)


def text_pairs() -> dict[str, Sequence[Sequence[str]]]:
    return {name: [TEXTS[i : i + 2] for i in range(start, start + 12, 2)] for name, start in (("a", 0), ("b", 12))}


@pytest.mark.parametrize("pooling", [slow("first"), "mean", slow("last"), "max"])
def test_differences_are_second_minus_first(small_model: Callable[[str], Path], pooling: str) -> None:
    from tests.small_models import load

    folder = small_model("bert")
    made = theodolite.contrast(folder, text_pairs(), pooling=pooling)
    model, tokenizer = load(folder)
    expected = []
    for text in TEXTS[:2]:
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[-1][0]
        pool = {"first": states[0], "last": states[-1], "mean": states.mean(0), "max": states.amax(0)}
        expected.append(pool[pooling])
    # float32 states in batches against one sentence at a time
    assert torch.allclose(made.vectors["differences"][-1, 0], expected[1] - expected[0], atol=1e-5)
    assert len(made.facts["layers"]) == made.tables["classes"]["layer"].nunique()


def test_the_folder_opens_and_the_first_state_of_bert_has_no_direction(
    small_model: Callable[[str], Path], tmp_path: Path
) -> None:
    made = theodolite.contrast(small_model("bert"), text_pairs(), pooling="first", layers="0,-1")
    made.save(tmp_path / "out")
    back = open_laboratory(tmp_path / "out")
    assert back.facts["laboratory"] == "contrast"
    first = back.tables["cosines"].set_index("layer").loc[0]
    assert first["verdict"] == NONE  # [CLS] has seen nothing yet: every difference is 0
    again = theodolite.contrast(small_model("bert"), text_pairs(), pooling="first", layers="0,-1")
    for name, table in made.tables.items():
        assert table.equals(again.tables[name]), name


def test_pooling_a_decoder_at_its_first_token_gives_a_warning(small_model: Callable[[str], Path]) -> None:
    listener = RecordingListener()
    theodolite.contrast(small_model("gpt2"), text_pairs(), pooling="first", layers="-1", listener=listener)
    assert any("this model is causal" in words for words in listener.warned)


def test_matched_omits_pairs_with_different_punctuation(small_model: Callable[[str], Path]) -> None:
    pairs = {"a": [["the river.", "the ridge."], ["a station", "a signal."]], "b": [["it was.", "it is."]]}
    made = theodolite.contrast(small_model("bert"), pairs, matched=True, layers="-1")
    assert made.tables["pairs"]["a"].tolist() == ["the river.", "it was."]
    assert made.facts["corpus"]["left_out"] == 1
    with pytest.raises(InputError, match="--matched omits every pair of 'a'"):
        theodolite.contrast(small_model("bert"), {"a": [["one.", "two"]]}, matched=True)
    with pytest.raises(InputError, match="--pooling 'median' is not one of first, mean, last, max"):
        theodolite.contrast(small_model("bert"), pairs, pooling="median")


THESIS = Path(__file__).parents[4] / "shared" / "data" / "sentence-pairs.json"


@pytest.mark.skipif(not THESIS.is_file(), reason="the thesis' pairs are not here")
def test_the_pairs_of_the_thesis_are_read() -> None:
    kept, warnings = drop_mirrored(read_pairs(THESIS))
    assert len(kept) == 7
    assert len(warnings) == 7  # each class is there a second time, turned around


def test_the_shipped_example_is_valid() -> None:
    pairs = read_pairs(samples.path("pairs.json"))
    assert all(len(members) == 10 for members in pairs.values())
    table = pairs_table(pairs, [0] * 2 * sum(map(len, pairs.values())))
    assert not table[["same", "punctuation_differs", "repeated"]].to_numpy().any()


def test_a_lone_surrogate_is_replaced_as_by_the_tokenizer(
    tmp_path: Path, small_model: Callable[[str], Path]
) -> None:
    given = {"odd \udce9": [["the \ud83d valley", "a valley"], ["the river", "a river"]]}
    theodolite.contrast(small_model("bert"), given).save(tmp_path / "c")
    pairs = open_laboratory(tmp_path / "c").tables["pairs"]
    assert "the \ufffd valley" in pairs.to_numpy(dtype=object)
    assert set(pairs["class"]) == {"odd \\udce9"}


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.skipif(not THESIS.is_file(), reason="the thesis' pairs are not here")
def test_the_first_position_of_a_decoder_is_not_a_bias() -> None:
    """Over all positions the first one decides: two unrelated classes would have a cosine above 0.9."""
    pairs = {name: read_pairs(THESIS)[name] for name in ("female-male", "bright-dim")}
    cosines = {
        population: theodolite.contrast(
            "smollm2-135m", pairs, layers="15", population=population, random_swaps=0
        ).tables["cosines"]["cosine"]
        for population in ("all", None)
    }
    assert cosines["all"].item() > 0.9
    assert abs(cosines[None].item()) < 0.05
