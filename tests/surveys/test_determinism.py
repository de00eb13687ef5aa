"""The same run gives the same bits; other batches, parts and merges give the same numbers but for rounding."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.shared import slow
from tests.small_models import sentences

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.surveys import text_survey as text_surveys
from theodolite.surveys.api import survey as whole_survey
from theodolite.surveys.merge import merge
from theodolite.tables.unit_sets import NEEDED, SET_COLUMNS

DOCUMENTS = sentences(50, seed=61)
survey = partial(whole_survey, sample_size=256)  # neighbours of more take longer than all the rest

CLOSE = 1e-5
"""A forward pass is not batch-invariant (1e-6); sums in another order add less than that."""
COUNTS = "n types dim units_used zero nonfinite massive twonn_n sample_duplicates".split()
COUNTS += ["text_units_used", "unfiltered_text_units_used"]
PARTS = "q m v v_within v_between".split()
SQUARES = [f"{of}{part}{error}" for of in ("", *NEEDED) for part in PARTS for error in ("", "_se")]
LOOSE = (
    "tradeoff_slope tradeoff_r2 twonn twonn_se twonn_ml twonn_ml_se twonn_keep20 mle_dim mle_dim_se hubness_skew "
    "hubness_skew_se"
).split()
DRAWN = ["q_cv_se", "tradeoff_slope_se", "tradeoff_r2_se", *(name for name in SET_COLUMNS if name.endswith("_se"))]
"""Units are drawn in the order of M, which rounding moves for few: 1e-3 of an error that 200 draws know to 5%."""


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_surveys, "SHARD_CHARS", 1500)


def assert_close(one: Any, other: Any) -> None:
    left, right = one.layers, other.layers
    for column in ("layer", "population", *COUNTS):
        assert left[column].tolist() == right[column].tolist(), column
    q = left["q"].to_numpy()
    for column in left.columns.difference(
        ["layer_name", "undefined", "layer", "population", "library_index", *COUNTS]
    ):
        mine, theirs = left[column].to_numpy(float), right[column].to_numpy(float)
        assert (np.isnan(mine) == np.isnan(theirs)).all(), column
        # Squared lengths by Q; the rest by themselves or 1; fits and nearest neighbours magnify what goes in.
        scale = q if column in SQUARES else 1 + abs(mine)
        limit = 1e-3 if column in DRAWN else 100 * CLOSE if column in LOOSE else CLOSE
        assert np.nanmax(abs(mine - theirs) / scale, initial=0) < limit, column
    keys = ["layer", "population", "unit"]
    mine, theirs = one.tokens.set_index(keys).sort_index(), other.tokens.set_index(keys).sort_index()
    assert mine.index.equals(theirs.index)
    assert (mine["n"] == theirs["n"]).all()
    for column in "qmv":
        assert (abs(mine[column] - theirs[column]) / mine["q"]).max() < CLOSE


@pytest.mark.parametrize("family", ["llama", slow("bert"), slow("roberta"), slow("gpt2")])
def test_twice_the_same_is_equal_bit_for_bit(small_model: Any, family: str, tmp_path: Path) -> None:
    one = survey(small_model(family), DOCUMENTS, out=tmp_path / "one")
    two = survey(small_model(family), DOCUMENTS, out=tmp_path / "two")
    for table in ("layers", "tokens", "units"):
        pd.testing.assert_frame_equal(getattr(one, table), getattr(two, table), check_exact=True)
    assert one.facts["files"] == two.facts["files"]


@cache
def in_batches_of_500(model: Path) -> Any:
    return survey(model, DOCUMENTS, batch_tokens=500)


@pytest.mark.parametrize("batch_tokens", [slow(1), 100, 10**6])
def test_the_size_of_batches_does_not_matter(small_model: Any, batch_tokens: int) -> None:
    assert_close(
        in_batches_of_500(small_model("bert")),
        survey(small_model("bert"), DOCUMENTS, batch_tokens=batch_tokens),
    )


def test_the_size_of_shards_does_not_matter(small_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = survey(small_model("gpt2"), DOCUMENTS, units="word")
    monkeypatch.setattr(text_surveys, "SHARD_CHARS", 10**6)
    assert_close(one, survey(small_model("gpt2"), DOCUMENTS, units="word"))


def test_the_sample_does_not_depend_on_batches(small_model: Any) -> None:
    one = survey(small_model("bert"), DOCUMENTS, sample_size=50, batch_tokens=100)
    two = survey(small_model("bert"), DOCUMENTS, sample_size=50, batch_tokens=10**6)
    for index, fold in one.state.folds.items():
        mine, theirs = fold.sample.state(), two.state.folds[index].sample.state()
        assert mine.keys() == theirs.keys()
        for name, tensor in mine.items():
            if name.endswith("vector"):
                assert torch.allclose(tensor, theirs[name], rtol=CLOSE, atol=CLOSE)
            else:
                assert torch.equal(tensor, theirs[name])


def test_populations_surveyed_separately_equal_those_surveyed_together(small_model: Any) -> None:
    whole = survey(small_model("gpt2"), DOCUMENTS)
    alone = survey(small_model("gpt2"), DOCUMENTS, populations=("all",))
    assert set(alone.layers["population"]) == {"all"}
    mine = alone.layers.drop(columns=["layer_name", "undefined", "population", "massive"])
    theirs = whole.layers.query("population == 'all'").reset_index(drop=True)[mine.columns]
    assert np.allclose(mine.to_numpy(float), theirs.to_numpy(float), rtol=1e-5, atol=1e-7, equal_nan=True)


def test_chosen_layers_equal_those_of_a_survey_of_all_layers(small_model: Any) -> None:
    whole, some = survey(small_model("llama"), DOCUMENTS), survey(small_model("llama"), DOCUMENTS, layers="0,2")
    expected = whole.layers[whole.layers["layer"].isin([0, 2])].reset_index(drop=True)
    pd.testing.assert_frame_equal(some.layers, expected, check_exact=True)


class TestParts:
    @pytest.mark.parametrize(("family", "kind"), [("gpt2", "word"), slow("bert", "id"), slow("llama", "surface")])
    def test_merged_parts_equal_the_complete_survey(
        self, small_model: Any, tmp_path: Path, family: str, kind: str
    ) -> None:
        model = small_model(family)
        whole = survey(model, DOCUMENTS, units=kind, out=tmp_path / "whole")
        folders = [tmp_path / f"part{number}" for number in range(3)]
        for number, folder in enumerate(folders):
            survey(model, DOCUMENTS, units=kind, part=f"{number}/3", out=folder, pilot=tmp_path / "whole")
        merged = merge(folders, out=tmp_path / "merged")
        assert_close(whole, merged)
        assert sorted(merged.state.shards) == sorted(whole.state.shards)
        assert set(merged.units["unit"]) == set(whole.units["unit"])

    def test_other_pilots_shift_sums_exactly_but_change_massive_positions(
        self, small_model: Any, tmp_path: Path
    ) -> None:
        whole = survey(small_model("bert"), DOCUMENTS)
        one = survey(small_model("bert"), DOCUMENTS[:30])
        two = survey(small_model("bert"), DOCUMENTS[30:])
        merged = merge([one, two])
        mine, theirs = (
            one.layers.query("population in ('all', 'without-first')").reset_index(drop=True)
            for one in (merged, whole)
        )
        for column in ("q", "m", "v", "v_within", "v_between", "mean_cosine", "effective_rank"):
            assert np.allclose(mine[column].to_numpy(float), theirs[column].to_numpy(float), rtol=1e-5, atol=1e-5)
        lost = merged.layers.query("population in ('without-massive', 'without-sinks')")
        assert len(lost) == 2 * len(whole.layers) / 4
        assert lost["q"].isna().all()
        assert lost["undefined"].str.contains("use one --pilot").all()

    def test_a_part_counts_once(self, small_model: Any) -> None:
        part = survey(small_model("bert"), DOCUMENTS, part="0/2")
        with pytest.raises(InputError, match="is given twice, or some of its documents are also in another"):
            merge([part, part])


def test_text_unknown_to_the_tokenizer_is_reported(small_model: Any) -> None:
    listener: list[str] = []

    class RecordingListener(Listener):
        def warn(self, text: str) -> None:
            listener.append(text)

    survey(small_model("bert"), ["☃ ☃ ☃ ☃", "☃ ☃"], listener=RecordingListener())
    assert "of the positions are [UNK]" in listener[0]
    listener.clear()
    survey(small_model("bert"), DOCUMENTS, listener=RecordingListener())
    assert not listener
