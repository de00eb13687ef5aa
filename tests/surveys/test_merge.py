"""Surveys made separately and merged: nothing counts twice, and the corpus facts are those of one survey."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.small_models import make, sentences

import theodolite
from theodolite.errors import InputError, TheodoliteError
from theodolite.statistics.frame import Frame
from theodolite.surveys import text_survey

TEXTS = sentences(60, seed=4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("bert", tmp_path_factory.mktemp("bert"))


def part(model: Path, number: int, of: int) -> theodolite.Survey:
    return theodolite.survey(str(model), TEXTS, part=f"{number}/{of}", device="cpu", sample_size=64)


@pytest.mark.slow
def test_merged_parts_report_the_same_corpus_as_one_survey(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 500)
    whole = theodolite.survey(str(model), TEXTS, device="cpu", sample_size=64).facts
    parts = [part(model, number, 3) for number in range(3)]
    at_once = theodolite.merge(parts)
    in_turn = theodolite.merge([theodolite.merge(parts[:2]), parts[2]])
    for found in (at_once.facts, in_turn.facts):
        keys = ("name", "sha256", "documents", "characters", "read", "words_histogram")
        assert {key: found["corpus"][key] for key in keys} == {key: whole["corpus"][key] for key in keys}
        assert found["counts"] == whole["counts"]
        assert [one["part"] for one in found["corpus"]["parts"]] == ["0/3", "1/3", "2/3"]


@pytest.mark.slow
def test_words_are_chosen_for_mev_whatever_the_parts(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MEV is over sampled words, here 8 of 130: the whole and its parts, in any order, must choose the same."""
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 500)
    monkeypatch.setattr("theodolite.state.pilot.Frame", partial(Frame, occurrences=(8, 32)))
    given = {"device": "cpu", "sample_size": 64, "units": "word", "contextuality": True}
    whole = theodolite.survey(str(model), TEXTS, **given)
    assert whole.layers["mev_units"].max() <= 8
    parts = [theodolite.survey(str(model), TEXTS, part=f"{number}/3", **given) for number in (2, 0, 1)]
    for merged in (theodolite.merge(parts), theodolite.merge(parts[::-1])):
        for column in ("mev", "mev_units", "mev_chance"):
            expected = whole.layers[column].to_numpy(float)
            assert merged.layers[column].to_numpy(float) == pytest.approx(expected, rel=1e-5, nan_ok=True)


def test_parts_cut_differently_are_rejected(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU shards are larger: the second halves of both are other documents."""
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 500)
    ours, rest = part(model, 0, 3), part(model, 1, 3)
    elsewhere = theodolite.survey(str(model), ["Other text."] * 20, device="cpu", sample_size=64)
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 2000)
    theirs = part(model, 1, 2)
    for several in ([ours, theirs], [theodolite.merge([elsewhere, ours, rest]), theirs]):
        with pytest.raises(InputError, match=r"shards of .* have 2,000 characters, those of another survey 500"):
            theodolite.merge(several)
    assert theodolite.merge([elsewhere, theirs]).facts["counts"]["shards"] > 1  # other text may be cut otherwise


def test_non_finite_vectors_are_counted_over_all_parts() -> None:
    vectors = np.random.default_rng(0).normal(size=(2, 300, 8))
    vectors[1, :7] = np.nan
    merged = theodolite.merge([theodolite.measure(each) for each in vectors])
    assert merged.facts["counts"]["nonfinite"] == 7


def test_a_survey_that_is_an_input_is_not_overwritten(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(2, 300, 8))
    for name, each in zip("ab", vectors, strict=True):
        theodolite.measure(each, out=tmp_path / name)
    with pytest.raises(InputError, match="is one of the surveys to merge"):
        theodolite.merge([tmp_path / "a", tmp_path / "b"], out=tmp_path / "x" / ".." / "a", overwrite=True)
    assert theodolite.open(tmp_path / "a").facts["counts"]["positions"] == 300


def test_no_other_run_writes_to_the_folder_during_a_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(2, 300, 8))
    surveys = [theodolite.measure(each) for each in vectors]

    def another(*_: object, **__: object) -> None:
        theodolite.measure(vectors[0], out=tmp_path / "out", overwrite=True)

    monkeypatch.setattr("theodolite.surveys.merge.write", another)
    with pytest.raises(TheodoliteError, match="another run is writing there"):
        theodolite.merge(surveys, out=tmp_path / "out")
