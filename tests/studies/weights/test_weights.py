"""The laboratory from end to end on tiny models: tables, the verb, every exhibit, errors for bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tests import small_models
from typer.testing import CliRunner

import theodolite
from theodolite.cli.app import app
from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.exhibits.bert_spaces.weights import replace_missing_glyphs
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose
from theodolite.studies.laboratory import Findings, make_facts, open_laboratory
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData
from theodolite.studies.weights.model_tables import ModelTables
from theodolite.studies.weights.weights import measure_weights

EXHIBITS = "fig10 fig12 table2 table3 table4 table5 vocabulary weights segments".split()
SETTINGS = {"above": 0.2, "most": 4, "keep_special": False, "keep_unused": False, "projections": False, "seed": 0}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {family: small_models.make(family, root / family) for family in ("bert", "llama")}


@pytest.fixture(scope="module")
def folders(models: dict[str, Path]) -> dict[str, Path]:
    for family, model in models.items():
        theodolite.weights(model, out=model.parent / f"{family}-out", most=4, projections=False)
    return {family: model.parent / f"{family}-out" for family, model in models.items()}


@pytest.fixture(scope="module")
def bert(folders: dict[str, Path]) -> Findings:
    return open_laboratory(folders["bert"])


def test_statistics_of_every_pair_of_tables(bert: Findings, models: dict[str, Path]) -> None:
    network, _ = small_models.load(models["bert"])
    embeddings = network.embeddings
    words = embeddings.word_embeddings.weight.detach().double().numpy()
    positions = embeddings.position_embeddings.weight.detach().double().numpy()
    pairs = bert.tables["pairs"].set_index(["left", "right", "metric"])
    dots = [float(x @ y) for x in words for y in positions]
    row = pairs.loc[("words", "positions", "dot")]
    assert row["n"] == len(dots) == 125 * 64
    assert row["mean"] == pytest.approx(np.mean(dots), rel=1e-10)
    assert row["sd"] == pytest.approx(np.std(dots), rel=1e-10)
    norms = [float(np.sqrt(x @ x)) for x in positions]
    assert pairs.loc[("positions", "", "norm"), "largest"] == pytest.approx(max(norms), rel=1e-12)
    roles = ("words", "positions", "segments")
    expected = {(a, b) for at, a in enumerate(roles) for b in roles[at:]}
    assert expected <= set(zip(bert.tables["pairs"]["left"], bert.tables["pairs"]["right"], strict=True))
    counts = bert.tables["histograms"].groupby(["left", "right", "metric"])["count"].sum()
    assert (counts == pairs["n"].reindex(counts.index)).all()


def test_special_tokens_are_in_no_extreme_pair_of_words_but_may_be_close(bert: Findings) -> None:
    extremes, units = bert.tables["extremes"], bert.tables["tokens"].set_index("id")
    rows = extremes[extremes["left"] == "words"]["left_row"]
    assert not units.loc[rows, "special"].any()
    assert len(bert.tables["close"]) == min(bert.facts["found"]["beyond"], 1000) > 0
    assert (bert.tables["close"]["cosine"].abs() > 0.2).all()
    assert bert.tables["close"]["special"].any()


def test_close_pairs_have_norms_and_distances(bert: Findings, models: dict[str, Path]) -> None:
    network, _ = small_models.load(models["bert"])
    row = bert.tables["close"].iloc[0]
    x = network.embeddings.word_embeddings.weight[row["id"]].detach().double()
    y = network.embeddings.position_embeddings.weight[row["position"]].detach().double()
    assert row["largest_difference"] == pytest.approx(float((x - y).abs().max()), rel=1e-12)
    assert row["distance"] == pytest.approx(float((x - y).norm()), rel=1e-12)
    assert row["cosine"] == pytest.approx(float(x @ y / x.norm() / y.norm()), rel=1e-12)
    assert (row["token_norm"], row["position_norm"]) == pytest.approx(
        (float(x.norm()), float(y.norm())), rel=1e-12
    )


def test_segments_compared_with_other_tables(bert: Findings, models: dict[str, Path]) -> None:
    network, _ = small_models.load(models["bert"])
    one, two = network.embeddings.token_type_embeddings.weight.detach().double()
    row = bert.tables["segments"].iloc[0]
    assert row["cosine"] == pytest.approx(float(one @ two / one.norm() / two.norm()), rel=1e-12)
    assert row["distance"] == pytest.approx(float((one - two).norm()), rel=1e-12)
    positions = network.embeddings.position_embeddings.weight.detach().double()
    cosines = (positions @ two / positions.norm(dim=1) / two.norm()).numpy()
    row = bert.tables["segments_against"].query("segment == 1 and against == 'positions'").iloc[0]
    assert (row["mean"], row["sd"]) == pytest.approx((cosines.mean(), cosines.std()), rel=1e-10)
    assert row["largest_row"] == cosines.argmax()
    assert row["beyond"] == (abs(cosines) > 0.2).sum()


def test_words_and_positions_of_different_widths_have_no_pairs() -> None:
    tokenizer = small_models.TOKENIZERS["bert"]()
    tables = ModelTables.of(small_models.MODELS["bert"](len(tokenizer)).eval(), tokenizer)
    narrow = replace(tables, words=tables.words[:, :16].contiguous())
    facts = make_facts("weights", {"name": "narrow"}, **SETTINGS)
    pairs = measure_weights(narrow, facts)["pairs"]
    assert pairs.query("left == 'words' and right == 'positions'").empty
    assert not pairs.query("left == 'positions' and right == 'segments'").empty
    assert "Rows of words have 16 dimensions, those of positions 32" in " ".join(facts["found"]["notes"])
    assert facts["found"]["beyond"] is None


def planted_tail() -> SurveyData:
    """Positions that turn smoothly, and a tail of noise."""
    tokenizer = small_models.TOKENIZERS["bert"]()
    tables = ModelTables.of(small_models.MODELS["bert"](len(tokenizer)).eval(), tokenizer)
    at = np.arange(192)[:, None] / (10.0 * 1.3 ** np.arange(16))
    positions = np.concatenate([np.sin(at), np.cos(at)], axis=1)
    positions += 0.05 * np.random.default_rng(0).normal(size=positions.shape)
    positions[128:] = np.random.default_rng(1).normal(size=(64, 32)) * 0.3
    facts = make_facts("weights", {"name": "planted"}, **SETTINGS)
    made = measure_weights(replace(tables, positions=torch.from_numpy(positions).float()), facts)
    return SurveyData(facts, made)


def test_fig14_omits_a_planted_tail() -> None:
    survey = planted_tail()
    tail = survey.facts["found"]["untrained_from"]
    assert tail == pytest.approx(128, abs=4)
    plate = make(find("bert-spaces/fig14"), [survey])
    rows = plate.data[(plate.data["left"] == "trained positions") & (plate.data["metric"] == "cosine")]
    assert rows["count"].sum() == tail * (tail - 1) // 2
    assert f"positions from {tail} on are untrained and excluded" in plate.caption
    ten = make(find("bert-spaces/fig10"), [survey]).data.query("left == 'positions' and metric == 'cosine'")
    assert ten["count"].sum() == 192 * 191 // 2


def test_fig14_is_not_drawn_where_it_repeats_fig10(folders: dict[str, Path]) -> None:
    untrained = [read_survey_data(folder, ()) for folder in folders.values()]
    with pytest.raises(InputError, match="so the figure would repeat bert-spaces/fig10"):
        make(find("bert-spaces/fig14"), untrained)
    plate = make(find("bert-spaces/fig14"), [planted_tail(), *untrained])
    assert "(no untrained positions: as in fig10)" in plate.caption
    assert set(plate.data["survey"]) == {"planted"}


def test_untrained_tokens_are_not_listed(models: dict[str, Path]) -> None:
    """Tokens that never occurred have nearly the vector of a special token, and would be the most similar."""
    network, tokenizer = small_models.load(models["bert"])
    words = network.embeddings.word_embeddings.weight.detach().clone()
    glitches = [40, 41, 42, 43]
    words[glitches] = words[tokenizer.mask_token_id] + 1e-3 * torch.randn(
        4, words.shape[1], generator=torch.Generator().manual_seed(0)
    )
    tables = replace(ModelTables.of(network, tokenizer), words=words)
    found = {}
    for kept in (False, True):
        facts = make_facts("weights", {"name": "glitches"}, **(SETTINGS | {"keep_unused": kept}))
        found[kept] = SurveyData(facts, measure_weights(tables, facts))
    pairs = {
        kept: survey.tables["extremes"].query("right == 'words' and metric == 'cosine' and which == 'largest'")
        for kept, survey in found.items()
    }
    assert {*pairs[True]["left_row"], *pairs[True]["right_row"]} <= set(glitches)
    assert not {*pairs[False]["left_row"], *pairs[False]["right_row"]} & set(glitches)
    assert found[False].facts["found"]["untrained_tokens"] == tables.units["name"].iloc[glitches].tolist()
    assert (
        "4 tokens that look untrained are not listed either"
        in make(find("bert-spaces/table2"), [found[False]]).caption
    )
    assert "untrained" not in make(find("bert-spaces/table2"), [found[True]]).caption


def test_the_vocabulary_table_shows_whole_tokens(folders: dict[str, Path]) -> None:
    survey = read_survey_data(folders["bert"], ())
    long = " ".join(f"[unused{number}99]" for number in range(6))
    survey.tables["vocabulary"] = survey.tables["vocabulary"].assign(examples=long)
    plate = make(find("bert-spaces/vocabulary"), [survey])
    assert plate.shown is not None
    shown = set(" ".join(plate.shown["examples"]).split())
    assert shown <= {*long.split(), "…"}
    assert {text.get_text() for text in compose(plate).axes[0].texts} >= set(
        plate.shown["examples"]
    )  # not cut again


@pytest.mark.parametrize("name", EXHIBITS)
def test_every_exhibit_is_drawn(folders: dict[str, Path], name: str) -> None:
    plate = make(find(f"bert-spaces/{name}"), [read_survey_data(folder, ()) for folder in folders.values()])
    figure = compose(plate)
    figure.canvas.draw()
    assert len(plate.data)
    names = {str(value) for column in ("survey", "model") if column in plate.data for value in plate.data[column]}
    assert any(value.endswith("bert") for value in names)


def test_panels_show_the_histograms(folders: dict[str, Path]) -> None:
    plate = make(find("bert-spaces/fig10"), [read_survey_data(folders["bert"], ())])
    axes = compose(plate).axes
    assert [ax.get_xlabel() for ax in axes[:4]][3] == "cosine of pairs"
    bins = plate.data.query("left == 'words' and metric == 'cosine'")
    outline = next(p for p in axes[3].patches if p.get_label() == "words")
    assert outline.get_data().values == pytest.approx(bins["count"] / bins["count"].max())  # type: ignore[attr-defined]


def test_models_without_a_table_are_omitted_or_rejected(folders: dict[str, Path]) -> None:
    both = [read_survey_data(folder, ()) for folder in folders.values()]
    assert "(no table of segments)" in make(find("bert-spaces/table5"), both).caption
    with pytest.raises(InputError, match="needs models with a table of segments"):
        make(find("bert-spaces/table5"), both[1:])


def test_the_verb(models: dict[str, Path], tmp_path: Path) -> None:
    run = CliRunner().invoke
    out = tmp_path / "out"
    command = ["weights", str(models["bert"]), "--out", str(out), "--no-projections", "--quiet"]
    done = run(app, [*command, "--with", str(models["llama"]), "--json"])
    assert done.exit_code == 0, done.output
    output = json.loads(done.stdout)
    assert output["found"]["tables"]["positions"]["shape"] == [64, 32]
    assert {row["metric"] for row in output["pairs"]} >= {"norm", "dot", "cosine", "distance"}
    found = open_laboratory(out)
    assert set(found.tables["vocabulary"]["model"]) == {str(models["bert"]), str(models["llama"])}
    assert len(found.tables["overlap"]) == 6
    assert isinstance(run(app, command).exception, InputError)  # it already contains results
    plain = run(app, [*command, "--overwrite"])
    assert "token-position pairs with |cosine| > 0.2" in plain.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--above", "1.5"], "--above must be a cosine of at least 0 and below 1 (got 1.5)"),
        (["--most", "0"], "--most must be at least 1 (got 0)"),
    ],
)
def test_bad_settings(models: dict[str, Path], tmp_path: Path, options: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["weights", str(models["bert"]), "--out", str(tmp_path / "o"), *options])
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)


def test_characters_without_a_glyph_are_drawn_by_code_point() -> None:
    assert replace_missing_glyphs("na\u00efve \u6238") == "na\u00efve U+6238"


def test_results_are_repeatable(models: dict[str, Path], bert: Findings) -> None:
    again = theodolite.weights(models["bert"], most=4, projections=False)
    for name, table in bert.tables.items():
        pd.testing.assert_frame_equal(table, again.tables[name], check_dtype=False)


def test_tables_without_numbers_are_reported(models: dict[str, Path]) -> None:
    network, tokenizer = small_models.load(models["bert"])
    tables = ModelTables.of(network, tokenizer)
    warned: list[str] = []

    class Recording(Listener):
        def warn(self, text: str) -> None:
            warned.append(text)

    words = tables.words.clone()
    words[5:9] = torch.nan
    facts = make_facts("weights", None, **SETTINGS)
    measure_weights(replace(tables, words=words), facts, Recording())
    expected = (
        f"4 of {len(words)} rows of {tables.names['words']} contain NaN or infinite numbers and were left out"
    )
    assert warned == [expected]
    assert expected in facts["found"]["notes"]
    with pytest.raises(
        InputError, match=rf"All {len(words)} rows of the word table \(.*\) contain NaN or infinite"
    ):
        measure_weights(replace(tables, words=torch.full_like(words, torch.nan)), facts, Recording())


def test_quick_measures_pairs_of_some_rows(
    bert: Findings, models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("theodolite.studies.weights.weights.QUICK_ROWS", 40)
    found = theodolite.weights(models["bert"], most=4, projections=False, quick=True)
    complete, pairs = (one.tables["pairs"].set_index(["left", "right", "metric"]) for one in (bert, found))
    assert pairs.loc[("words", "words", "cosine"), "n"] == 40 * 39 / 2
    assert pairs.loc[("words", "positions", "dot"), "n"] == 40 * 40
    assert pairs.loc[("words", "", "norm"), "n"] == complete.loc[("words", "", "norm"), "n"] == 125
    cosine = ("words", "words", "cosine")
    assert pairs.loc[cosine, "mean"] == pytest.approx(complete.loc[cosine, "mean"], abs=0.05)
    assert pairs.loc[cosine, "largest"] <= complete.loc[cosine, "largest"]
    assert found.facts["settings"]["quick"] is True
    assert (
        "pairs of words: of 40 random rows of 125; extreme and close pairs are those of these rows"
        in (found.facts["found"]["notes"])
    )
    again = theodolite.weights(models["bert"], most=4, projections=False, quick=True)
    pd.testing.assert_frame_equal(again.tables["extremes"], found.tables["extremes"])
    result = CliRunner().invoke(
        app, ["weights", str(models["bert"]), "--quick", "--no-projections", "--out", str(tmp_path / "q")]
    )
    assert result.exit_code == 0, result.output
    assert "of 40 random rows of 125" in result.stdout
