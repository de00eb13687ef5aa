"""Populations of laboratories: sinks are left out by default, and a position that outweighs the rest is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import small_models
from tests.small_models import load, sentences

import theodolite
from theodolite.errors import InputError
from theodolite.studies.pooling import embed_sentences, embed_with_reader, find_cls, find_sinks
from theodolite.studies.sentences import SentenceReader

TEXTS = sentences(12, seed=5, longest=9)
CLOSE = 1e-4  # float32 states of padded batches against sentences by themselves, relative to the largest


@pytest.fixture(scope="module")
def with_sinks(tmp_path_factory: pytest.TempPathFactory, small_model: Callable[[str], Path]) -> Path:
    """A decoder whose first position is massive in the blocks, and ordinary after the final norm."""
    model, tokenizer = load(small_model("gpt2"))
    with torch.no_grad():
        model.wpe.weight[0] *= 2000
    folder = tmp_path_factory.mktemp("sinks") / "model"
    small_models.save(model, tokenizer, folder)
    return folder


def reader_of(folder: Path, layers: str | None = None) -> SentenceReader:
    return SentenceReader(*load(folder), layers=layers)


def means_by_hand(folder: Path, texts: list[str], first: int) -> np.ndarray:
    """Mean of the states after the final norm, from position `first` on."""
    model, tokenizer = load(folder)
    rows = []
    for text in texts:
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        rows.append(states[first:].double().mean(0).numpy())
    return np.array(rows)


def test_sinks_are_left_out_by_default_at_every_layer(with_sinks: Path) -> None:
    """Also after the final norm, where the position is not massive, and if only that layer is asked for."""
    embedded = embed_with_reader(reader_of(with_sinks, "-1"), TEXTS, "mean")
    assert (embedded.population, embedded.sinks) == ("without-sinks", len(TEXTS))
    assert embedded.warnings == []
    (found,) = (vectors.numpy() for vectors in embedded.vectors.values())
    expected = means_by_hand(with_sinks, TEXTS, first=1)
    assert found == pytest.approx(expected, abs=CLOSE * np.abs(expected).max())


@pytest.mark.parametrize(("population", "first"), [("all", 0), ("without-massive", 0), ("without-first", 1)])
def test_populations_are_those_of_a_survey(with_sinks: Path, population: str, first: int) -> None:
    found = embed_sentences(*load(with_sinks), TEXTS, "-1", "mean", population=population)
    expected = means_by_hand(with_sinks, TEXTS, first)  # after the final norm no position is massive
    assert next(iter(found.values())).numpy() == pytest.approx(expected, abs=CLOSE * np.abs(expected).max())


def test_a_position_with_most_of_the_squared_length_is_named(with_sinks: Path) -> None:
    (warning,) = embed_with_reader(reader_of(with_sinks, "0-3"), TEXTS, "mean", population="all").warnings
    assert warning.startswith("Position 0 has 100% of the squared length of the pooled states at embeddings (and")
    assert "use --population without-sinks" in warning
    (warning,) = embed_with_reader(reader_of(with_sinks), TEXTS, "first").warnings
    assert "--pooling first: the position that is taken is a sink" in warning
    assert "in 100% of the sentences" in warning


def test_a_model_without_sinks_is_pooled_over_all_positions(small_model: Callable[[str], Path]) -> None:
    embedded = embed_with_reader(reader_of(small_model("bert")), TEXTS, "mean")
    assert (embedded.population, embedded.sinks, embedded.warnings) == ("all", 0, [])


def test_a_sentence_of_sinks_only_is_rejected(with_sinks: Path) -> None:
    with pytest.raises(InputError, match=r"Sentence 2 \('a'\) has no position in the population without-sinks"):
        embed_with_reader(reader_of(with_sinks), [TEXTS[0], "a"], "mean")


def test_cls_is_the_classification_token(small_model: Callable[[str], Path]) -> None:
    model, tokenizer = load(small_model("bert"))
    found = embed_sentences(model, tokenizer, TEXTS, "-1", "cls")
    for layer, vectors in embed_sentences(model, tokenizer, TEXTS, "-1", "first").items():
        assert torch.equal(found[layer], vectors)
    assert find_cls(load(small_model("roberta"))[1]) == "first"
    for family in ("gpt2", "llama"):
        with pytest.raises(InputError, match="--pooling cls: this tokenizer adds no classification token"):
            find_cls(load(small_model(family))[1])
    with pytest.raises(InputError, match="--drop-special excludes"):
        embed_sentences(model, tokenizer, TEXTS, "-1", "cls", special=False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pooling": "first", "population": "without-sinks"}, "has no effect with --pooling first"),
        ({"population": "without-sink"}, "--population 'without-sink' is not one of all, without-first"),
    ],
)
def test_wrong_options_are_rejected_before_a_model_is_loaded(options: dict[str, str], words: str) -> None:
    for laboratory, given in (
        (theodolite.contrast, {"a": [["x", "y"]]}),
        (theodolite.groups, {"a": ["x"], "b": ["y"]}),
        (theodolite.clouds, [["a"], ["b"]]),
    ):
        with pytest.raises(InputError, match=words):
            laboratory("no-such-model", given, **options)  # type: ignore[operator]


def test_all_laboratories_pool_alike(with_sinks: Path) -> None:
    """One default, mean without sinks: the directions do not depend on the position that outweighs the others."""
    pairs = {"a": [TEXTS[i : i + 2] for i in (0, 2, 4)], "b": [TEXTS[i : i + 2] for i in (6, 8, 10)]}
    contrast = theodolite.contrast(with_sinks, pairs, random_swaps=0, layers="2")
    groups = theodolite.groups(with_sinks, {"a": TEXTS[:6], "b": TEXTS[6:]}, controls=0, permutations=9)
    documents = [sentences(25, seed=seed, longest=9) for seed in (1, 2)]
    clouds = theodolite.clouds(with_sinks, documents, limit=25, projections="none", permutations=19)
    for found in (contrast, groups, clouds):
        settings = found.facts["settings"]
        assert (settings["pooling"], settings["population"]) == ("mean", "without-sinks")
        assert found.facts["populations"] == ["without-sinks"]
        assert found.facts["positions"]["sinks"] > 0
    everything = theodolite.contrast(with_sinks, pairs, random_swaps=0, layers="2", population="all")
    assert any("of the squared length" in warning for warning in everything.facts["warnings"])
    cosines = [found.tables["cosines"]["cosine"].item() for found in (contrast, everything)]
    assert abs(cosines[0] - cosines[1]) > 0.1


def test_sinks_by_loops() -> None:
    norms = np.random.default_rng(0).uniform(1, 2, (4, 9))
    norms[2, 5] = norms[0, 3] = 40
    norms[1, 1] = np.nan
    expected = [
        any(layer[at] > 10 * sorted(x for x in layer if x == x)[(sum(layer == layer) - 1) // 2] for layer in norms)
        for at in range(9)
    ]
    assert find_sinks(norms).tolist() == expected
    assert sum(expected) == 2
