"""theodolite compare: several surveys on one set of axes, as pictures and as numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.shared import slow
from tests.synthetic_surveys import make_layer_names, make_layer_survey

import theodolite as package
from theodolite.errors import InputError
from theodolite.exhibits.compare import compare, measures_of
from theodolite.exhibits.saving import compose
from theodolite.measures.columns import find_column
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData
from theodolite.text import short_path


@pytest.fixture(scope="module")
def surveys(tmp_path_factory: pytest.TempPathFactory, model: Path, corpus: Path) -> list[Path]:
    root = tmp_path_factory.mktemp("surveys")
    for name, limit in (("one", 40), ("two", 60)):
        package.survey(model, corpus, out=root / name, sample_size=64, limit=limit)
    return [root / "one", root / "two"]


@pytest.mark.parametrize("ending", ["png", slow("svg"), slow("pdf"), "csv", "md", "json"])
def test_the_file_extension_selects_the_format(theodolite, surveys, tmp_path, ending):
    out = tmp_path / f"a.{ending}"
    ran = theodolite("compare", *surveys, "--measure", "mean_cosine", "--out", out)
    assert (ran.code, ran.out) == (0, f"compare: {out}\n")
    heads = {
        "png": b"\x89PNG",
        "svg": b"<?xml",
        "pdf": b"%PDF",
        "csv": b"survey,",
        "md": b"| survey",
        "json": b"{",
    }
    assert out.read_bytes().startswith(heads[ending])


def test_other_causes_of_differences_are_named(theodolite, surveys, corpus, tmp_path):
    """The terminal and the caption state what the report states about the same surveys."""
    out = tmp_path / "a.json"
    ran = theodolite("compare", *surveys, "--measure", "mean_cosine", "--out", out)
    caution = (
        f"The surveys use different documents of {corpus} (40 and 60). Part of a difference may come from the "
        "corpus."
    )
    assert ran.err == f"warning: {caution}\n"
    assert json.loads(out.read_text("utf-8"))["caption"].endswith(caution)
    assert package.compare(surveys, "mean_cosine").caption.endswith(caution)
    alone = theodolite("compare", surveys[0], surveys[0], "--measure", "mean_cosine", "--out", out)
    assert (alone.code, alone.err) == (0, "")


def test_numbers_equal_the_tables(theodolite, surveys, tmp_path):
    out = tmp_path / "a.csv"
    measures = [part for name in ("twonn", "mean_norm", "norm_of_mean", "n") for part in ("--measure", name)]
    assert theodolite("compare", *surveys, *measures, "--population", "without-first", "--out", out).code == 0
    found = pd.read_csv(out)
    assert list(dict.fromkeys(found["survey"])) == [
        f"{short_path(_model(surveys[0]), 2)} ({name})" for name in ("one", "two")
    ]
    tables = [pd.read_parquet(folder / "layers.parquet") for folder in surveys]
    rows = pd.concat([table[table["population"] == "without-first"].sort_values("layer") for table in tables])
    for name in ("mean_norm", "norm_of_mean"):  # the norm of the mean, under both names
        assert found[name].to_numpy() == pytest.approx(np.sqrt(rows["m"].to_numpy()))
    assert found["twonn"].to_numpy() == pytest.approx(rows["twonn"].to_numpy(), nan_ok=True)
    assert found["n"].tolist() == rows["n"].tolist()
    assert found["depth"].max() == 1


def test_a_folder_receives_figures_and_numbers(theodolite, surveys, tmp_path):
    out = tmp_path / "new"
    ran = theodolite("compare", *surveys, "--depth", "layer", "--out", out)
    assert ran.code == 0
    assert sorted(path.name for path in out.iterdir()) == ["compare.csv", "compare.png", "compare.svg"]
    shown = pd.read_csv(out / "compare.csv").columns
    assert {"mean_cosine", "norm_of_mean", "anisotropy_svd", "effective_rank", "iso_score", "twonn"} <= set(shown)
    as_json = tmp_path / "a.json"
    theodolite("compare", *surveys, "--out", as_json)
    assert json.loads(as_json.read_text("utf-8"))["exhibit"] == "compare"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--measure", "mean_cosin"], "no column 'mean_cosin' in the table of layers. Did you mean 'mean_cosine'"),
        (["--measure", "zzz"], "There are "),
        (["--measure", "layer_name"], "--measure 'layer_name' is not a number"),
        (["--population", "none"], "--population 'none': the survey"),
        (["--depth", "deep"], "--depth 'deep' is not one of layer, normalised"),
        (
            ["--out", "a.jpg"],
            "must end in one of csv, md, tex, json, png, svg, pdf; a name without a suffix is a folder",
        ),
        (["nowhere"], "nowhere is not a folder"),
    ],
)
def test_user_errors_are_one_sentence(theodolite, surveys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    out = [] if "--out" in arguments else ["--out", "a.png"]
    ran = theodolite("compare", surveys[0], *arguments, *out)
    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert not list(tmp_path.iterdir())


def test_one_panel_per_measure_and_one_line_per_survey() -> None:
    one, two = (
        make_layer_survey("one", seed=1),
        make_layer_survey("two", make_layer_names(9, final_norm=True), seed=2),
    )
    figure = compose(plate := compare([one, two], ["mean_cosine", "anisotropy_svd"]))
    for ax, name in zip(figure.axes, ("mean_cosine", "anisotropy_svd"), strict=True):
        assert " ".join(ax.get_title().split()) == find_column(name).title
        lines = [line.get_xydata() for line in ax.lines if line.get_linestyle() != "None"]
        for line, survey in zip(lines, (one, two), strict=True):
            rows = survey.layers.query("population == 'all'")
            assert line[:, 1] == pytest.approx(rows[name].to_numpy())
        assert lines[1][:, 0] == pytest.approx(np.arange(11) / 9)
    assert "Depth is 0 at the embeddings and 1 at the last block." in plate.caption
    by_number = compose(compare([one, two], ["mean_cosine"], Choice(depth="layer")))
    assert by_number.axes[0].lines[0].get_xdata().tolist() == list(range(7))


def test_a_wide_range_has_a_logarithmic_axis() -> None:
    figure = compose(compare([make_layer_survey(m=[10.0**k for k in range(7)])], ["m", "mean_cosine"]))
    assert [ax.get_yscale() for ax in figure.axes] == ["log", "linear"]
    figure = compose(compare([make_layer_survey(m=[0.0, *(10.0**k for k in range(6))])], ["m"]))
    assert figure.axes[0].get_yscale() == "linear"


def test_a_measure_missing_from_one_survey_is_reported() -> None:
    old, new = make_layer_survey("old"), make_layer_survey("new", hubness=[1.0] * 7)
    plate = compare([old, new], ["hubness"])
    assert "hubness is not in the survey of old." in plate.caption
    assert plate.data.query("survey == 'old'")["hubness"].isna().all()
    assert "hubness" in measures_of([old, new])


def test_by_default_the_available_measures_are_shown() -> None:
    plate = compare([make_layer_survey()])
    assert [name for name in ("mean_cosine", "norm_of_mean", "anisotropy_svd", "twonn") if name in plate.data] == [
        "mean_cosine",
        "norm_of_mean",
        "anisotropy_svd",
    ]
    single = make_layer_survey(
        "single", ["vectors"], measured=True, m=[None], mean_cosine=[None], anisotropy_svd=[None]
    )
    figure = compose(compare([single]))
    assert figure.axes[0].texts[0].get_text() == "undefined at every layer"
    with pytest.raises(InputError, match="at least one survey"):
        compare([])


def test_surveys_of_one_model_have_different_labels() -> None:
    one = make_layer_survey("same")
    twins = [SurveyData(one.facts, one.tables, Path(name)) for name in ("a/step-1", "a/step-2")]
    assert list(dict.fromkeys(compare(twins).data["survey"])) == ["same (step-1)", "same (step-2)"]
    alike = [SurveyData(one.facts, one.tables, Path(name)) for name in ("a/x", "b/x")]
    assert len(set(compare(alike).data["survey"])) == 2


def _model(folder: Path) -> str:
    return str(json.loads((folder / "survey.json").read_text())["model"]["name"])


def test_a_path_that_is_not_a_survey_is_rejected(theodolite, tmp_path):
    from theodolite.studies.laboratory import Findings, make_facts

    Findings(make_facts("weights", {"name": "m"}), {"rows": pd.DataFrame({"x": [1]})}).save(tmp_path / "lab")
    ran = theodolite("compare", tmp_path / "lab", "--out", tmp_path / "c.png")
    assert ran.code == 2
    assert "is a folder of `theodolite weights`" in ran.err
