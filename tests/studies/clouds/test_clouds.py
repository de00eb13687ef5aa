"""Clouds: planted ones are apart, equal ones are not, and what length alone does is gone at matched length."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tests.small_models import load, sentences

import theodolite
from theodolite.errors import InputError
from theodolite.studies.clouds.clouds import measure_clouds
from theodolite.studies.clouds.comparison import (
    TOO_FEW,
    bin_edges,
    histogram_rows,
    pair_values,
    separation_rows,
    summary_rows,
)
from theodolite.studies.clouds.documents import common_length, draw_documents, truncate_texts
from theodolite.studies.clouds.surface import plain_text, surface_features
from theodolite.studies.embeddings_2d import parse_methods, project_2d
from theodolite.studies.laboratory import open_laboratory

WORDS = "river valley ridge summit station signal angle triangle country distance measure mountain".split()


def texts(count: int, low: int, high: int, seed: int) -> list[str]:
    """Documents of the same words, alike in all but how many they have."""
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(low, high))) for _ in range(count)]


def test_planted_clouds_are_separate_and_equal_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    clouds = {name: rng.normal(size=(60, 10)) for name in ("a", "b", "far")}
    clouds["far"][:, 0] += 3.0
    for x in clouds.values():
        x[:, 4] += 3000.0  # a rogue coordinate
    tokens = {name: [20] * 60 for name in clouds}
    rows = {(r["corpus_a"], r["corpus_b"]): r for r in separation_rows(clouds, tokens, permutations=199)}
    for pair in (("a", "far"), ("b", "far")):
        assert rows[pair]["accuracy"] > 0.85
        assert rows[pair]["accuracy_low"] > 0.75
        assert rows[pair]["accuracy_p"] == rows[pair]["energy_p"] == rows[pair]["smallest_p"] == 1 / 200
        assert rows[pair]["accuracy_p_holm"] == 3 / 200
    assert rows["a", "b"]["accuracy_p"] > 0.05
    assert rows["a", "b"]["energy_p"] > 0.05
    assert rows["a", "b"]["length_accuracy"] == 0.5  # all are as long: a coin


def test_too_few_and_not_finite_have_a_reason() -> None:
    few = {"a": np.zeros((3, 4)), "b": np.ones((50, 4))}
    (row,) = separation_rows(few, {"a": [1] * 3, "b": [1] * 50})
    assert row["reason"] == TOO_FEW
    assert np.isnan(row["accuracy"])
    odd = {"a": np.full((20, 4), np.nan), "b": np.ones((20, 4))}
    (row,) = separation_rows(odd, {"a": [1] * 20, "b": [1] * 20})
    assert row["reason"] == "a vector is not finite"


def test_distributions_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(1)
    clouds = {"a": rng.normal(size=(5, 3)), "b": rng.normal(size=(4, 3))}
    clouds["b"][2] = 0.0  # a zero vector has no cosine
    found = pair_values(clouds)
    a, b = clouds["a"], clouds["b"]
    expected = [np.linalg.norm(x - y) for x, y in combinations(a, 2)]
    assert np.allclose(np.sort(found["distance", "a", "a"]), np.sort(expected))
    assert len(found["distance", "a", "b"]) == 20
    assert np.allclose(np.sort(found["dot", "a", "a"]), np.sort([x @ y for x, y in combinations(a, 2)]))
    assert np.allclose(np.sort(found["dot", "a", "b"]), np.sort([x @ y for x in a for y in b]))
    cosines = [x @ y / np.linalg.norm(x) / np.linalg.norm(y) for x in a for y in b[[0, 1, 3]]]
    assert np.allclose(np.sort(found["cosine", "a", "b"]), np.sort(cosines))
    summaries = {(r["metric"], r["corpus_a"], r["corpus_b"]): r for r in summary_rows(found)}
    assert summaries["cosine", "a", "b"]["negative"] == pytest.approx(np.mean(np.array(cosines) < 0))
    assert summaries["norm", "b", "b"]["smallest"] == 0.0
    edges = {metric: bin_edges(metric, [v for k, v in found.items() if k[0] == metric]) for metric in ("norm",)}
    rows = histogram_rows({k: v for k, v in found.items() if k[0] == "norm"}, edges)
    assert sum(row["count"] for row in rows) == 9
    assert sum(row["share"] for row in rows) == pytest.approx(2)


def test_an_empty_cloud_is_null_not_a_crash() -> None:
    nothing = {"a": np.empty((0, 3)), "b": np.empty((0, 3))}
    states = {"as-is": {0: {"a": np.ones((30, 3)), "b": np.ones((30, 3))}}, "matched": {0: nothing}}
    tokens = {"as-is": {"a": [5] * 30, "b": [5] * 30}, "matched": {"a": [], "b": []}}
    tables = measure_clouds(states, tokens, {0: "here"}, permutations=19)
    row = tables["separations"].set_index("lengths").loc["matched"]
    assert np.isnan(row["accuracy"])
    same = tables["separations"].set_index("lengths").loc["as-is"]
    assert (same["accuracy"], same["accuracy_p"]) == (0.5, 1.0)


def test_documents_are_truncated_to_tokens(small_model: Callable[[str], Path]) -> None:
    for family in ("bert", "gpt2"):
        tokenizer = load(small_model(family))[1]
        given = sentences(30, seed=2)
        for tokens in (1, 4, 10):
            for text, (short, count) in zip(given, truncate_texts(tokenizer, given, tokens), strict=True):
                whole = tokenizer(text, add_special_tokens=False)["input_ids"]
                assert text.startswith(short)
                assert count == len(tokenizer(short, add_special_tokens=False)["input_ids"])
                if len(whole) < tokens:
                    assert short == text
    assert common_length([[1, 2, 3], [9, 9, 9]]) == 2


def test_effects_of_length_vanish_at_matched_length(small_model: Callable[[str], Path]) -> None:
    short, long = texts(120, 6, 10, seed=1), texts(120, 16, 24, seed=2)
    made = theodolite.clouds(
        small_model("bert"), [short, long], limit=120, pooling="max", projections="none", permutations=199
    )
    rows = made.tables["separations"].set_index("lengths")
    assert rows.loc["as-is", "accuracy_low"] > 0.6  # a random model reflects length, though weakly
    assert rows.loc["as-is", "accuracy_p"] == 1 / 200
    assert rows.loc["as-is", "length_accuracy"] > 0.85
    assert rows.loc["matched", "tokens_a"] == rows.loc["matched", "tokens_b"]
    assert rows.loc["matched", "length_accuracy"] == 0.5
    assert rows.loc["matched", "accuracy_p"] > 0.05
    assert rows.loc["matched", "energy_p"] > 0.05
    tokens = made.tables["documents"].query("lengths == 'matched'")["tokens"]
    assert tokens.nunique() == 1


def test_other_words_stay_separate_at_matched_length_and_the_folder_opens(
    small_model: Callable[[str], Path], tmp_path: Path
) -> None:
    plain = sentences(60, seed=4)
    made = theodolite.clouds(
        small_model("bert"), [texts(60, 8, 14, seed=3), plain], limit=60, projections="pca", permutations=99
    )
    rows = made.tables["separations"].set_index("lengths")
    assert rows.loc["matched", "accuracy_low"] > 0.55
    assert rows.loc["matched", "accuracy_p"] == 0.01
    made.save(tmp_path / "out")
    back = open_laboratory(tmp_path / "out")
    assert back.facts["corpus"]["documents"] == 120
    assert set(back.tables["places"]["method"]) == {"pca"}
    assert len(back.tables["places"].query("lengths == 'as-is'")) == 120


def test_capitals_and_punctuation_are_controlled_for(small_model: Callable[[str], Path]) -> None:
    """The same words, in one corpus as titles with marks: the model sees it, and so do counts of capitals."""
    plain = texts(80, 8, 14, seed=5)
    titled = [f"{text.title()}!" for text in texts(80, 8, 14, seed=6)]
    made = theodolite.clouds(
        small_model("gpt2"), [plain, titled], limit=80, projections="none", permutations=99, max_tokens=60
    )
    rows = made.tables["separations"].set_index("lengths")
    assert rows.loc["matched", "accuracy_p"] == 0.01
    assert rows.loc["matched", "casing_accuracy"] == 1.0
    assert rows.loc["as-is", "punctuation_accuracy"] > 0.9  # the last mark of a long document may be cut off
    assert rows.loc["as-is", "unknown_accuracy"] == 0.5
    assert rows.loc["plain", "casing_accuracy"] == 0.5
    assert rows.loc["plain", "accuracy_p"] > 0.05
    assert rows.loc["plain", "energy_p"] > 0.05


def test_unknown_words_are_controlled_for() -> None:
    assert plain_text("A <unk>, 12 @-@ inch [UNK] Gun .") == "a 12 inch gun"
    features = surface_features(["A <unk> b.", "a b"], [0.25, 0.0])
    assert features["unknown"].tolist() == [[0.25, 1 / 3], [0.0, 0.0]]
    assert features["casing"][:, 1].tolist() == [0.5, 0.0]
    rng = np.random.default_rng(0)
    clouds = {name: rng.normal(size=(30, 4)) for name in ("a", "b")}
    surface = {
        name: surface_features(["the <unk> river" if name == "a" else "the river"] * 30, [0.0] * 30)
        for name in clouds
    }
    (row,) = separation_rows(clouds, {name: [3] * 30 for name in clouds}, surface=surface, permutations=19)
    assert row["unknown_accuracy"] == 1.0
    assert row["casing_accuracy"] == row["length_accuracy"] == 0.5


def test_documents_of_a_file_or_a_block_are_one_source(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for part in range(6):
            path = tmp_path / f"{name}{part}.txt"
            path.write_text("\n".join(texts(10, 5, 9, seed=part + 10 * (name == "b"))), encoding="utf-8")
    globs = [str(tmp_path / "a*.txt"), str(tmp_path / "b*.txt")]
    for sample in draw_documents(globs, 60):  # by default, for several .txt files
        assert [number // 10 for number in sample.numbers] == list(sample.sources)
    by_document = draw_documents(globs, 60, sources=1)[0]
    assert len(set(by_document.sources)) == len(by_document.texts)
    blocks = draw_documents([texts(40, 5, 9, 1), texts(40, 5, 9, 2)], 40, sources="4")[0]
    assert [number // 4 for number in blocks.numbers] == list(blocks.sources)
    with pytest.raises(InputError, match=r"--sources file: CORPUS .* is not several files"):
        draw_documents([texts(40, 5, 9, 1), texts(40, 5, 9, 2)], 40, sources="file")
    with pytest.raises(InputError, match="--sources must be file or a number of consecutive documents"):
        draw_documents(globs, 60, sources="line")
    rng = np.random.default_rng(0)
    clouds = {name: rng.normal(size=(40, 3)) for name in ("a", "b")}
    few = {name: np.arange(40) // 10 for name in clouds}
    (row,) = separation_rows(clouds, {name: [3] * 40 for name in clouds}, sources=few)
    assert (row["reason"], row["sources_a"]) == ("fewer than 5 sources of a corpus", 4)


def test_documents_equal_after_truncation_count_once(small_model: Callable[[str], Path]) -> None:
    """Cut to one length they would be the same vector, in training and in test."""
    same = [f"the river the valley the ridge the summit {WORDS[i % 12]} {WORDS[i // 12]}" for i in range(60)]
    made = theodolite.clouds(
        small_model("bert"), [same, texts(60, 8, 14, seed=3)], limit=60, max_tokens=8, projections="none"
    )
    documents = made.tables["documents"]
    assert documents.groupby(["lengths", "corpus"]).size()["as-is", "list of 60 (1)"] < 60
    smallest = made.tables["summaries"].query("metric == 'distance' and corpus_a == corpus_b")["smallest"]
    assert not (smallest == 0).any()


def test_documents_too_short_to_match_give_a_warning(small_model: Callable[[str], Path]) -> None:
    letters = [chr(97 + i) + chr(97 + j) for i in range(5) for j in range(6)]
    made = theodolite.clouds(
        small_model("gpt2"), [list("abcdefghijklmnopqrstuvwxyz"), letters], limit=30, projections="none"
    )
    assert "there are no results at matched length" in made.facts["warnings"][0]
    rows = made.tables["separations"].set_index("lengths")
    assert rows.loc["matched", "reason"] == TOO_FEW


def test_a_draw_is_seeded_spread_and_without_repeats() -> None:
    given = [f"document {i}" for i in range(500)] + ["document 7"] * 50
    others = [f"other {i}" for i in range(40)]
    first, second = draw_documents([given, others], 100, seed=1)
    assert draw_documents([given, others], 100, seed=1)[0] == first
    assert draw_documents([given, others], 100, seed=2)[0] != first
    assert len(set(first.texts)) == 100
    assert (first.read, first.repeated) == (550, 50)
    assert 200 < np.mean(first.numbers) < 300  # from all of the corpus, not its beginning
    assert [given[number] for number in first.numbers] == list(first.texts)
    assert len(second.texts) == 40
    drawn_first = draw_documents([given, others], 100, first=True)[0]
    assert sorted(drawn_first.numbers) == list(range(100))


@pytest.mark.parametrize(
    ("corpora", "limit", "words"),
    [
        ([["one"] * 30, texts(30, 4, 9, 1)], 50, "has 1 different documents; at least 20 are required"),
        ([texts(30, 4, 9, 1)], 50, r"at least two corpora are required to compare them \(got 1\)"),
        ([texts(30, 4, 9, 1), texts(30, 4, 9, 1)], 50, "the same corpus was given twice"),
        (
            [texts(30, 4, 9, 1), texts(30, 4, 9, 2)],
            5,
            r"--limit must be between 20 and 5,000 documents per corpus \(got 5\)",
        ),
    ],
)
def test_unsuitable_corpora_are_rejected(corpora: list[list[str]], limit: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        draw_documents(corpora, limit)


def test_one_file_named_twice_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(texts(30, 4, 9, 1)))
    with pytest.raises(InputError, match=r"notes\.txt': the same corpus was given twice"):
        draw_documents([path, path], 50)


def test_options_are_checked_before_a_model_is_loaded() -> None:
    for options, words in (
        ({"projections": "pca,map"}, "--projections 'map' is not one of pca, tsne, umap, none"),
        ({"max_tokens": 1}, "--max-tokens must be at least 3"),
        ({"permutations": 5}, "--permutations must be between 19 and 99,999"),
        ({"pooling": "middle"}, "--pooling 'middle' is not one of"),
        ({"limit": 2}, "--limit must be"),
    ):
        with pytest.raises(InputError, match=words):
            theodolite.clouds("no-such-model", [["a"], ["b"]], **options)  # type: ignore[arg-type]


def test_projections_are_repeatable() -> None:
    pytest.importorskip("sklearn")
    x = np.random.default_rng(0).normal(size=(40, 6))
    x[:20] += 4
    for method in ("pca", "tsne"):
        places, shares = project_2d(x, method, seed=1)
        assert places.shape == (40, 2)
        assert np.array_equal(places, project_2d(x, method, seed=1)[0])
        apart = np.linalg.norm(places[:20].mean(0) - places[20:].mean(0))
        assert apart > 2 * places[:20].std()
        assert len(shares) == (2 if method == "pca" else 0)
    assert parse_methods("none") == []
