"""Surveys in which rare units have no vector, surveys without units, and finished surveys without sums."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.shared import slow
from tests.small_models import sentences

import theodolite
from theodolite.engines.progress import Listener
from theodolite.errors import InputError, TheodoliteError
from theodolite.models.layers import Layer
from theodolite.statistics.rare_units import choose_units
from theodolite.studies.norm_variance.token_sets import select_tokens
from theodolite.studies.rare_units import describe_rare_units
from theodolite.studies.survey_data import SurveyData
from theodolite.surveys import folder, memory
from theodolite.surveys import run as runs
from theodolite.surveys.api import survey as whole_survey
from theodolite.surveys.unit_counts import UnitCounts

survey = partial(whole_survey, sample_size=64)  # neighbours of more take longer than all the rest
DOCUMENTS = sentences(150, seed=19)
MANY = 40
"""A min_count with which many units of these documents have no vector."""
EXACT = ["n", "types", "q", "m", "v", "mean_cosine", "anisotropy_svd", "units_used", "filtered_v_within"]


@pytest.fixture(autouse=True)
def _few_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample few rare units, so that a small corpus has units without a vector."""
    monkeypatch.setattr("theodolite.statistics.rare_units.MIN_SAMPLED", 2)
    monkeypatch.setitem(choose_units.__kwdefaults__, "sampled", 10)


def data_of(found: theodolite.Survey) -> SurveyData:
    return SurveyData(found.facts, {name: getattr(found, name) for name in ("layers", "tokens", "units")})


def same(one: pd.DataFrame, other: pd.DataFrame, columns: list[str]) -> None:
    for name in columns:
        np.testing.assert_allclose(one[name].astype(float), other[name].astype(float), rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("units", [slow("id"), "word"])
def test_only_m_v_and_their_sums_depend_on_min_count(small_model: Any, units: str) -> None:
    whole = survey(small_model("gpt2"), DOCUMENTS, units=units)
    count = int(whole.tokens.query("layer == 1 and population == 'all'")["n"].quantile(0.6)) + 1
    found = survey(small_model("gpt2"), DOCUMENTS, units=units, min_count=count)
    assert found.facts["settings"]["min_count"] == count
    assert whole.facts["settings"]["min_count"] == 1
    exact = [name for name in EXACT if count <= 10 or not name.startswith(("units_used", "filtered"))]
    same(found.layers, whole.layers, exact)
    key = ["layer", "population", "unit"]
    both = whole.tokens.merge(found.tokens, on=key, suffixes=("", "_found"))
    assert len(both) == len(whole.tokens) == len(found.tokens)
    assert (both["n"] == both["n_found"]).all()
    np.testing.assert_allclose(both["q"], both["q_found"], rtol=1e-9)
    known = both["m_found"].notna()
    assert 0 < (~known).sum() < len(both)
    np.testing.assert_allclose(both["m"][known], both["m_found"][known], rtol=1e-9)
    np.testing.assert_allclose(both["v"][known], both["v_found"][known], rtol=1e-9, atol=1e-12 * both["q"].max())
    assert known[both["n"] == 1].all()  # a single occurrence needs no vector
    share = found.layers["v_within_estimated_share"]
    assert (share > 0).all()
    assert (whole.layers["v_within_estimated_share"] == 0).all()
    error = (found.layers["v_within"] - whole.layers["v_within"]).abs()
    assert (error < 0.05 * whole.layers["v_within"] + 1e-9).all()
    sums = found.coordinates.groupby(["layer", "population"], sort=False)["v_between_i"].sum()
    np.testing.assert_allclose(sums.to_numpy(), found.layers["v_between"], rtol=1e-5, atol=1e-9)


def test_a_tight_memory_gives_the_smallest_min_count_that_fits(small_model: Any) -> None:
    need = survey(small_model("gpt2"), DOCUMENTS).facts
    counted = survey(small_model("gpt2"), DOCUMENTS, memory=need["memory"]["bytes"] - 1).facts["memory"]
    tight = survey(small_model("gpt2"), DOCUMENTS, memory=counted["bytes"] - 1)
    chosen = tight.facts["settings"]["min_count"]
    assert chosen > 1
    assert tight.facts["memory"]["bytes"] < counted["bytes"]
    assert tight.facts["memory"]["units_with_vector"] < tight.facts["counts"]["types"]
    with pytest.raises(InputError, match="This survey needs about"):
        survey(small_model("gpt2"), DOCUMENTS, memory=counted["bytes"] - 1, min_count=1)


def check_units_without_a_vector(found: theodolite.Survey) -> None:
    """Check that units lack a vector, and that their part of V_W is estimated in every population."""
    assert found.facts["memory"]["units_with_vector"] <= found.facts["counts"]["types"] - 20
    assert found.tokens["m"].isna().sum() >= 20
    assert (found.layers["v_within_estimated_share"] > 0).all()


@pytest.mark.slow
def test_parts_merge_to_the_whole(small_model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("theodolite.surveys.text_survey.SHARD_CHARS", 4000)
    model = small_model("gpt2")
    whole = survey(model, DOCUMENTS, min_count=MANY)
    check_units_without_a_vector(whole)
    parts = [survey(model, DOCUMENTS, min_count=MANY, part=f"{i}/2", out=tmp_path / f"{i}") for i in range(2)]
    merged = theodolite.merge([tmp_path / "0", parts[1]])
    for one in (*parts, merged):  # units that do not occur in a part are not counted there
        known = one.tokens.dropna(subset=["m"])
        first = known[(known["layer"] == 0) & (known["population"] == "all")]
        sure = first["unit"][first["n"] > 1].nunique()
        assert sure <= one.facts["counts"]["units_with_vector"] <= len(first) <= one.facts["counts"]["types"]
    assert "in the whole corpus" in describe_rare_units(parts[0].facts, parts[0].layers)
    assert "in the whole corpus" not in describe_rare_units(merged.facts, merged.layers)
    same(merged.layers, whole.layers, ["n", "types", "q", "m", "v", "v_within", "v_between", "v_within_se"])
    pd.testing.assert_frame_equal(merged.tokens, whole.tokens, rtol=1e-6, check_dtype=False)
    other = survey(model, DOCUMENTS[:50], min_count=MANY)
    with pytest.raises(InputError, match="which units have a vector depends on the corpus"):
        theodolite.merge([whole, other])


@pytest.mark.slow
def test_a_resumed_run_is_equal_bit_for_bit(small_model: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr("theodolite.surveys.text_survey.SHARD_CHARS", 4000)
    whole = survey(small_model("gpt2"), DOCUMENTS, min_count=MANY)
    check_units_without_a_vector(whole)

    class Stop(Listener):
        asked = 0

        def stop(self) -> bool:
            self.asked += 1
            return self.asked > 3

    with pytest.raises(TheodoliteError, match="Interrupted"):
        survey(small_model("gpt2"), DOCUMENTS, min_count=MANY, out=tmp_path / "s", listener=Stop())
    again = survey(small_model("gpt2"), DOCUMENTS, out=tmp_path / "s", resume=True)  # takes the recorded one
    assert again.facts["settings"]["min_count"] == MANY
    pd.testing.assert_frame_equal(again.layers, whole.layers)
    pd.testing.assert_frame_equal(again.tokens, whole.tokens)
    opened = theodolite.open(tmp_path / "s")
    assert opened.state.folds[1].rare_units is not None


def test_text_without_units(small_model: Any) -> None:
    whole, found = (survey(small_model("gpt2"), DOCUMENTS[:60], units=units) for units in ("id", "none"))
    same(found.layers, whole.layers, ["n", "q", "m", "v", "mean_cosine", "anisotropy_svd"])
    assert found.layers["v_within"].isna().all()
    assert "belong to no units" in found.layers["undefined"].iloc[0]
    assert len(found.tokens) == 0
    for options in ({"min_count": 2}, {"contextuality": True}):
        with pytest.raises(
            InputError, match=r"requires units, and with --units none .* belong to no units\. Omit"
        ):
            survey(small_model("gpt2"), DOCUMENTS[:60], units="none", **options)


def test_surveys_without_units_say_so(small_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("theodolite.surveys.text_survey.collect_contexts")  # no unit has occurrences to read
    found = survey(small_model("gpt2"), DOCUMENTS[:60], units="none")
    with pytest.raises(InputError, match=r"has no units\. Survey again with --units id\."):
        select_tokens(data_of(found), 1)


def test_only_units_with_m_and_v_are_drawn(small_model: Any) -> None:
    found = data_of(survey(small_model("gpt2"), DOCUMENTS, min_count=MANY, layers="1"))
    often = found.tokens.query("population == 'all' and 10 <= n").set_index("unit")
    assert often["v"].isna().any()
    chosen = [select_tokens(found, 1, seed=seed) for seed in range(5)]
    assert all(len(table) > 1 and table["v"].notna().all() for table in chosen)


def test_a_min_count_that_is_no_number(small_model: Any) -> None:
    with pytest.raises(InputError, match=r"--min-count requires an integer \(got 'three'\)"):
        survey(small_model("gpt2"), DOCUMENTS[:9], min_count="three")
    assert survey(small_model("gpt2"), DOCUMENTS[:9], min_count=np.int64(1)).facts["settings"]["min_count"] == 1


def test_units_without_a_vector_are_reported_only_if_there_are_some(small_model: Any, monkeypatch: Any) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(Listener, "warn", lambda self, message: warnings.append(message))
    repeated = DOCUMENTS[:5] * 3  # every unit occurs at least three times
    found = survey(small_model("gpt2"), repeated, min_count=3)
    assert (found.facts["settings"]["min_count"], warnings) == (3, [])
    survey(small_model("gpt2"), repeated, min_count=MANY)
    assert [message.split(":")[0] for message in warnings] == [f"--min-count {MANY}"]
    columns = "Columns that start with filtered_ or text_, CV, slope and R2 use units with n <"
    assert warnings[0].endswith(f"{columns} {MANY} only where all units of about that n have a vector.")


def test_contextuality_requires_all_vectors(small_model: Any) -> None:
    with pytest.raises(InputError, match="--min-count must be 1"):
        survey(small_model("gpt2"), DOCUMENTS[:9], contextuality=True, min_count=2)


def test_large_sums_are_kept_only_if_asked(small_model: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(runs, "MAX_SUMS", 1000)
    small = survey(small_model("gpt2"), DOCUMENTS[:60], out=tmp_path / "small")
    survey(small_model("gpt2"), DOCUMENTS[60:99], out=tmp_path / "large", keep_sums=True)
    sizes = [(tmp_path / name / "state.safetensors").stat().st_size for name in ("small", "large")]
    assert sizes[0] < 10_000 < sizes[1]
    opened = theodolite.open(tmp_path / "small")
    pd.testing.assert_frame_equal(opened.layers, small.layers)
    assert opened.state.positions == small.state.positions
    for one in (opened, small):  # the survey in memory has freed its sums too
        assert one.state.folds[1].sample.population([0, 1])  # what needs vectors can still be computed
        assert not one.state.has_sums
    assert survey(small_model("gpt2"), DOCUMENTS[:9]).state.has_sums  # without a folder they are kept
    with pytest.raises(InputError, match=r"small has no sums, which merge requires: .*1 GiB\. .*--keep-sums"):
        theodolite.merge([tmp_path / "small", tmp_path / "large"])
    with pytest.raises(InputError, match=r"small has no sums, which what-if requires: .*1 GiB\. "):
        theodolite.what_if(tmp_path / "small")
    assert folder.MAX_SUMS == 2**30
    with pytest.warns(UserWarning, match="the sums of this survey were not kept; use --overwrite to survey again"):
        survey(small_model("gpt2"), DOCUMENTS[:60], out=tmp_path / "small", resume=True, keep_sums=True)


def test_a_part_keeps_its_sums(small_model: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(runs, "MAX_SUMS", 1000)
    part = survey(small_model("gpt2"), DOCUMENTS[:60], part="0/2", out=tmp_path / "part")
    assert part.state.has_sums
    assert theodolite.open(tmp_path / "part").state.has_sums


def test_a_language_model_of_8b_fits_in_64_gb() -> None:
    layers = [Layer(index, f"block {index}", 4096) for index in range(34)]
    n = np.maximum(1, (1e6 / (np.arange(1, 75_001) ** 1.1 * 8)).astype(np.int64))
    none = np.zeros(0, dtype=np.int64)
    counts = UnitCounts(np.arange(75_000), n, special=none, first=none)
    budget = 64 * 10**9
    found = memory.check_memory(
        layers,
        128_256,
        lambda: 75_000,
        budget=budget,
        sample_size=4096,
        populations=4,
        sinks=True,
        held=4 * 4096 * 4096 * 34,
        counts=lambda: counts,
    )
    assert found.kept is not None
    assert 1 < found.kept.min_count <= 10  # all that the papers use remains exact
    assert found.bytes <= budget
    before = counts.min_counts[counts.min_counts.index(found.kept.min_count) - 1]
    assert found.bytes_for(75_000, counts.choose(before)) > budget  # the smallest that fits


def test_the_estimate_has_the_matrices_of_a_decoder_with_sinks(small_model: Any) -> None:
    found = survey(small_model("gpt2"), DOCUMENTS[:60])
    matrices = [len(fold.scatter.products) for fold in found.state.folds.values()]
    layers = [Layer(0, "block", 512)]
    known = {"sample_size": 0, "populations": 4}
    few, many = (memory.estimate_bytes(layers, 0, sinks=sinks, **known) for sinks in (False, True))
    assert many - few == memory.SINK_MATRICES * 8 * 512**2
    assert max(matrices) <= 2 + memory.SINK_MATRICES


def test_numbers_that_are_exact_are_not_reported_as_estimated(small_model: Any, monkeypatch: Any) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(Listener, "warn", lambda self, message: warnings.append(message))
    found = survey(small_model("gpt2"), DOCUMENTS[:20], min_count=2, layers="1")
    row = found.tokens.query("population == 'all'")
    assert found.facts["memory"]["units_with_vector"] < len(row)  # the others occur once
    assert row["v"].notna().all()
    assert (found.layers["v_within_estimated_share"] == 0).all()
    assert warnings == []
