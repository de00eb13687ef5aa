from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tests.listeners import RecordingListener
from tests.planted_words import DIM, clusters, plant
from tests.small_models import load

import theodolite
from theodolite.errors import InputError
from theodolite.studies.laboratory import Findings, open_laboratory
from theodolite.studies.probe import classifiers, probe
from theodolite.studies.probe.classifiers import PROBES, fit_probe
from theodolite.studies.probe.selection import (
    DISPLAYED,
    REPEATED_TOKEN,
    SEVERAL_CLASSES,
    SEVERAL_TOKENS,
    SPECIAL,
    SURPLUS,
    UNKNOWN,
    marks_spaces,
    tokenize_words,
)
from theodolite.studies.probe.vectors import read_layer_vectors

CLASSES, COUNT, FOLDS = 3, 30, 3
SHOW = ["bear", "Bear", "rogue", "zzz"]
CHANCE = 0.15  # about four standard errors of a share of 90 at a third, 0.05 each, less what folds share


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifiers, "BOOSTING_ROUNDS", 12)
    monkeypatch.setattr(classifiers, "HIDDEN_UNITS", 16)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[tuple[str, str]]]:
    rows, labels = clusters(CLASSES, COUNT, apart=2.0)
    rows |= {"bear": rows["aax"] * 1.0, "rogue": rows["bax"].copy(), "nil": np.zeros(DIM)}
    rows["rogue"][3] = 3000.0
    return plant(tmp_path_factory.mktemp("planted"), rows), labels


@pytest.fixture(scope="module")
def found(planted: tuple[str, list[tuple[str, str]]]) -> Findings:
    model, labels = planted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifiers, "BOOSTING_ROUNDS", 12)
        patch.setattr(classifiers, "HIDDEN_UNITS", 16)
        return theodolite.probe(model, labels, layer=["table", -1], folds=FOLDS, show=SHOW)


@pytest.fixture
def one_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit the quickest of the classifiers only, where the words are what is tested."""
    for name in reversed(list(PROBES)):  # put back in the opposite order, so that the order of PROBES stays
        if name != "no hidden layer":
            monkeypatch.delitem(PROBES, name)


def test_planted_classes_are_found_and_shuffled_ones_are_not(found: Findings) -> None:
    table = found.tables["probes"]
    assert table["layer_name"].drop_duplicates().tolist() == ["input table", "block 2"]
    assert table["layer"].isna().tolist() == [True] * 3 + [False] * 3
    assert (table["accuracy"][:3] > 0.95).all()
    assert table["control"].to_numpy() == pytest.approx(np.full(6, 1 / 3), abs=CHANCE)
    assert table["selectivity"].to_numpy() == pytest.approx(table["accuracy"] - table["control"])
    assert set(table["baseline"]) == {1 / 3}
    assert (table["control_fit"] > 0.8).all()  # every probe here could learn most labels by heart


def test_the_tables_agree_with_each_other(found: Findings) -> None:
    scores, by_fold, confusions = (found.tables[name] for name in ("probes", "folds", "confusions"))
    for row in scores.to_dict("records"):
        same = (by_fold["layer_name"] == row["layer_name"]) & (by_fold["probe"] == row["probe"])
        for task, column in (("classes", "accuracy"), ("control", "control")):
            mine = by_fold[same & (by_fold["task"] == task)]
            assert len(mine) == FOLDS
            assert mine["accuracy"].mean() == pytest.approx(row[column])
        met = confusions[(confusions["layer_name"] == row["layer_name"]) & (confusions["probe"] == row["probe"])]
        assert met["words"].sum() == row["words"] == CLASSES * COUNT
        right = met[met["label"] == met["predicted"]]["words"].sum()
        assert right / row["words"] == pytest.approx(row["accuracy"])  # folds are of one size


def test_confidences_are_shares_and_equal_token_ids_are_one_word(found: Findings) -> None:
    table = found.tables["confidence"]
    for (_, _, word), rows in table.groupby(["layer_name", "probe", "word"]):
        if word == "zzz":
            assert rows["confidence"].isna().all()
            assert set(rows["undefined"]) == {UNKNOWN}
        else:
            assert rows["confidence"].sum() == pytest.approx(1.0)
            assert (rows["confidence_sd"] >= 0).all()
    of = {word: rows["confidence"].tolist() for word, rows in table[table["layer"].isna()].groupby("word")}
    assert of["bear"] == of["Bear"]
    wide = table[table["layer"].isna() & (table["word"] == "bear")]
    assert wide.loc[wide.groupby("probe")["confidence"].idxmax(), "label"].tolist() == ["class 0"] * 3


def test_the_folder_can_be_opened(found: Findings, tmp_path: Path) -> None:
    again = open_laboratory(found.save(tmp_path / "probe"))
    pd.testing.assert_frame_equal(again.tables["probes"], found.tables["probes"])
    assert again.facts["counts"]["probed"] == CLASSES * COUNT
    assert again.facts["settings"]["seed"] == 0


def test_the_same_seed_gives_the_same_numbers(planted: tuple[str, list[tuple[str, str]]]) -> None:
    model, labels = planted
    one, two = (theodolite.probe(model, labels, folds=2, most=10, seed=4, show=["bear"]) for _ in range(2))
    for name, table in one.tables.items():
        pd.testing.assert_frame_equal(table, two.tables[name], check_exact=True)


def test_random_labels_are_scored_near_chance(planted: tuple[str, list[tuple[str, str]]]) -> None:
    model, labels = planted
    dealt = np.random.default_rng(3).permutation([label for _, label in labels])
    pairs = [(word, str(label)) for (word, _), label in zip(labels, dealt, strict=True)]
    table = theodolite.probe(model, pairs, folds=FOLDS).tables["probes"]
    assert table["accuracy"].to_numpy() == pytest.approx(np.full(3, 1 / 3), abs=CHANCE)
    assert table["selectivity"].to_numpy() == pytest.approx(np.zeros(3), abs=2 * CHANCE)


def test_displayed_words_are_never_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words with vectors of class 0 but listed as class 1, each at its own place: a probe that has seen them
    says 1, one that has not says 0."""
    rows, labels = clusters(2, 30, apart=2.0)
    liars = [word for word, _ in labels[:4]]
    for number, word in enumerate(liars):
        rows[word] = rows[word] + 40 * np.eye(DIM)[number] * 0.1
    labelled = [(word, "class 1" if word in liars else label) for word, label in labels]
    trained: list[np.ndarray] = []

    def watched(probe: str, x: np.ndarray, of: np.ndarray, seed: int) -> classifiers.FittedProbe:
        trained.append(x)
        return fit_probe(probe, x, of, seed)

    for module in (probe, classifiers):
        monkeypatch.setattr(module, "fit_probe", watched)
    # The uncased model reads both spellings alike, so displaying the one must hold out the other.
    found = theodolite.probe(plant(tmp_path, rows), labelled, show=[word.upper() for word in liars], folds=FOLDS)
    held = np.array([rows[word] for word in liars], dtype=np.float32).astype(np.float64)
    assert len(trained) == len(PROBES) * (2 * FOLDS + 1)
    for x in trained:
        assert not (x[:, None] == held).all(axis=2).any()
    sure = found.tables["confidence"].query("label == 'class 0'")
    assert (sure["confidence"] > 0.5).all()
    assert found.facts["counts"]["left_out"][DISPLAYED] == 4
    # The wrong way, trained on all: the hidden layer repeats its training labels.
    x = np.array([rows[word] for word, _ in labelled])
    wrong = fit_probe("one hidden layer", x, np.array([int(label[-1]) for _, label in labelled]), 0)
    assert (wrong.confidence(held)[:, 0] < 0.5).all()


def test_a_rogue_coordinate_hides_nothing(tmp_path: Path) -> None:
    rows, labels = clusters(2, 20, apart=2.0)
    for row in rows.values():
        row[3] += 3000.0
    found = theodolite.probe(plant(tmp_path, rows), labels, folds=2)
    assert (found.tables["probes"]["accuracy"] > 0.95).all()
    assert (found.tables["probes"]["unconverged"] == 0).all()


def test_features_are_standardised_by_the_training_words_only() -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.normal(3, 5, size=(40, 6)), np.repeat([0, 1], 20)
    scaler = fit_probe("no hidden layer", x[:30], labels[:30], 0).pipeline[0]
    assert scaler.mean_ == pytest.approx(x[:30].mean(axis=0))
    assert scaler.scale_ == pytest.approx(x[:30].std(axis=0))


@pytest.mark.usefixtures("one_probe")
def test_words_that_cannot_be_probed_are_counted_by_reason(planted: tuple[str, list[tuple[str, str]]]) -> None:
    model, labels = planted
    more = [
        ("bear", "class 0"),
        ("Bear", "class 1"),  # the same token: one word of two classes
        ("quiz", "class 0"),  # q ##u ##i ##z
        ("it's", "class 1"),
        ("東京", "class 1"),
        ("zzz", "class 1"),
        ("[CLS]", "class 2"),
        ("AAX", "class 0"),
        labels[0],
        ("nil", "class 2"),
    ]
    listener = RecordingListener()
    found = theodolite.probe(model, [*labels, *more], folds=2, listener=listener)
    assert found.facts["counts"]["left_out"] == {
        SEVERAL_CLASSES: 2,
        SEVERAL_TOKENS: 3,
        UNKNOWN: 1,
        SPECIAL: 1,
        REPEATED_TOKEN: 2,
        SURPLUS: 1,
    }
    table = found.tables["words"].set_index("word")
    assert table.loc["quiz", "reason"] == SEVERAL_TOKENS
    assert any("omitted" in line for line in listener.said)


@pytest.mark.usefixtures("one_probe")
def test_words_of_several_classes_are_displayed_by_default(planted: tuple[str, list[tuple[str, str]]]) -> None:
    model, labels = planted
    found = theodolite.probe(model, [*labels, ("bear", "class 0"), ("bear", "class 1")], folds=2)
    assert found.facts["settings"]["show"] == ["bear"]
    assert set(found.tables["confidence"]["classes"]) == {"class 0, class 1"}


@pytest.mark.usefixtures("one_probe")
def test_classes_are_balanced_and_the_surplus_is_reported(planted: tuple[str, list[tuple[str, str]]]) -> None:
    model, labels = planted
    fewer = [*labels[:30], *labels[30:37], *labels[60:]]
    listener = RecordingListener()
    found = theodolite.probe(model, fewer, folds=2, listener=listener)
    assert found.facts["counts"]["words_a_class"] == 7
    assert found.facts["counts"]["left_out"] == {SURPLUS: 46}
    assert "the smallest class has 7 words" in listener.warned[0]
    assert theodolite.probe(model, labels, folds=2, most=5).facts["counts"]["probed"] == 15


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"words": [("aax", "a"), ("bax", "b")]}, "at least 5 words per class; the class 'a' has 1"),
        ({"words": [(f"a{c}x", "a") for c in "abcdefg"]}, "--words requires two or more classes (got 1)"),
        ({"words": []}, "contains no words"),
        ({"words": None}, "Give either --words FILE.csv or --wordnet CLASSES (got neither)"),
        ({"folds": 1}, "--folds requires 2 or more (got 1)"),
        ({"most": 3}, "one per fold (got 3)"),
        ({"layer": "last"}, "--layer requires table or a number such as 0, 6 or -1 (got 'last')"),
        ({"layer": 9}, "--layer 9 does not exist: this model has layers 0 to 2"),
    ],
)
def test_bad_input_is_rejected(
    planted: tuple[str, list[tuple[str, str]]], change: dict[str, object], words: str
) -> None:
    model, labels = planted
    with pytest.raises(InputError) as labelled:
        theodolite.probe(model, **({"words": labels} | change))  # type: ignore[arg-type]
    assert words in str(labelled.value)


def test_a_class_without_single_tokens_is_rejected(
    planted: tuple[str, list[tuple[str, str]]],
) -> None:
    model, labels = planted
    with pytest.raises(InputError, match=r"'long' has 0 .omitted: several tokens: 6"):
        theodolite.probe(model, [*labels, *((f"q{a}", "long") for a in ("ua", "ub", "uc", "ud", "ue", "uf"))])


def test_unconverged_fits_are_reported(
    planted: tuple[str, list[tuple[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.neural_network import MLPClassifier

    monkeypatch.setitem(
        PROBES, "one hidden layer", lambda seed: MLPClassifier((4,), max_iter=2, random_state=seed)
    )
    listener = RecordingListener()
    found = theodolite.probe(*planted, folds=2, listener=listener)
    assert found.tables["probes"]["unconverged"].tolist() == [0, 4, 0]
    assert listener.warned == ["input table, one hidden layer: 4 of 4 fits did not converge."]


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "roberta"])
def test_states_are_those_of_the_word_without_context(family: str, small_model: Callable[[str], Path]) -> None:
    """Against transformers' own hidden_states, one word at a time, the token looked up in the input."""
    model, tokenizer = load(small_model(family))
    words = [
        word
        for word in tokenize_words(["the", "and", "of", "in", "a"], tokenizer).values()
        if word.token is not None
    ]
    assert len(words) >= 3
    assert marks_spaces(tokenizer) == (family in ("gpt2", "roberta"))
    for layer, x in read_layer_vectors(model, tokenizer, words, [0, 1]):
        for word, row in zip(words, x, strict=True):
            ids = tokenizer(word.text, return_tensors="pt")["input_ids"]
            with torch.no_grad():
                states = model(input_ids=ids, output_hidden_states=True).hidden_states[layer.library_index]
            (at,) = torch.nonzero(ids[0] == word.token).flatten().tolist()
            # One word in a batch of five: a forward pass is not batch-invariant beyond 1e-6 of a vector's length.
            theirs = states[0, at].double().numpy()
            assert np.linalg.norm(row - theirs) < 1e-5 * np.linalg.norm(theirs)


@pytest.mark.usefixtures("one_probe")
def test_a_lone_surrogate_is_replaced_as_by_the_tokenizer(
    planted: tuple[str, list[tuple[str, str]]], tmp_path: Path
) -> None:
    model, labels = planted
    odd = [(word, f"{label} \udce9") for word, label in labels]
    theodolite.probe(model, odd, folds=2, show=["bear \ud83d"]).save(tmp_path / "p")
    found = open_laboratory(tmp_path / "p")
    assert all(name.endswith(" \ufffd") for name in found.facts["classes"])
