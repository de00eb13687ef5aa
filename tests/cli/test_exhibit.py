"""theodolite exhibit and exhibits, on surveys of a small model and of a real one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

import theodolite as package
from theodolite.exhibits.registry import all_exhibits


@pytest.fixture
def surveyed(finished: Path) -> Path:
    return finished


def test_exhibits_are_listed_with_what_they_need(theodolite):
    listed = json.loads(theodolite("exhibits", "--json").out)
    assert [row["name"] for row in listed] == list(all_exhibits())
    assert all(row["needs"] and row["title"] and row["kind"] in ("figure", "table") for row in listed)
    by_name = {row["name"]: row for row in listed}
    assert by_name["norm-variance/fig22"]["needs"] == "surveys made with `--units word`"
    assert by_name["norm-variance/fig11"]["options"] == [
        "--layer",
        "--population",
        "--variant",
        "--filter",
        "--specials",
    ]
    assert "norm-variance/fig2 " in theodolite("exhibits").out


def test_a_figure_and_its_numbers(theodolite, surveyed, tmp_path):
    out, data = tmp_path / "new" / "fig2.png", tmp_path / "fig2.csv"
    ran = theodolite("exhibit", "norm-variance/fig2", surveyed, "--layer", 1, "--out", out, "--data", data)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"norm-variance/fig2: {out}\ndata: {data}\n"
    assert out.read_bytes().startswith(b"\x89PNG")
    tokens = pd.read_parquet(surveyed / "tokens.parquet").query("layer == 1 and population == 'all'")
    drawn = pd.read_csv(data)
    assert drawn["m"].to_numpy() == pytest.approx(tokens["m"].to_numpy())
    assert drawn["v"].to_numpy() == pytest.approx(tokens["v"].to_numpy())
    assert drawn["layer"].eq(1).all()


def test_without_a_caption_the_picture_is_lower_and_the_caption_printed(theodolite, surveyed, tmp_path):
    with_one, without = tmp_path / "with.png", tmp_path / "without.png"
    ran = theodolite("exhibit", "norm-variance/fig9", surveyed, "--out", with_one)
    assert "caption: " not in ran.out
    ran = theodolite("exhibit", "norm-variance/fig9", surveyed, "--out", without, "--no-caption")
    assert ran.code == 0
    assert re.fullmatch(rf"norm-variance/fig9: {re.escape(str(without))}\ncaption: .*documents.*\n", ran.out)
    (wide, high), (same, lower) = size(with_one), size(without)
    assert (wide, high > lower) == (same, True)


def test_without_a_caption_a_table_ends_with_its_rows(theodolite, surveyed, tmp_path):
    out = tmp_path / "table3.md"
    assert theodolite("exhibit", "norm-variance/table3", surveyed, "--out", out, "--no-caption").code == 0
    assert out.read_text("utf-8").endswith("|\n")


def size(png: Path) -> tuple[int, int]:
    with Image.open(png) as image:
        return image.size


def test_a_table_of_two_surveys(theodolite, surveyed, tmp_path):
    out = tmp_path / "table3.json"
    ran = theodolite("exhibit", "norm-variance/table3", surveyed, surveyed, "--out", out)
    assert ran.code == 0
    rows = json.loads(out.read_text("utf-8"))["rows"]
    layers = pd.read_parquet(surveyed / "layers.parquet").query("layer == 0 and population == 'all'")
    assert [(row["types"], row["vectors"]) for row in rows] == 2 * [(layers["types"].item(), layers["n"].item())]


def test_every_choice_reaches_the_drawing(theodolite, surveyed, tmp_path):
    options = ["--population", "without-first", "--variant", "unbiased", "--filter", "all", "--specials", "kept"]
    data = tmp_path / "made.csv"
    ran = theodolite(
        "exhibit", "norm-variance/fig17", surveyed, *options, "--out", tmp_path / "a.svg", "--data", data
    )
    assert ran.code == 0
    row = pd.read_csv(data).iloc[0]
    assert row[["population", "variant", "filter", "specials"]].tolist() == [
        "without-first",
        "unbiased",
        "all",
        "kept",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["norm-variance/fig02", "{}", "--out", "a.png"], "Did you mean 'norm-variance/fig2'"),
        (["norm-variance/fig2", "{}", "--out", "a.jpg"], "the name must end in one of png, svg, pdf"),
        (["norm-variance/fig2", "{}", "--out", "a.png", "--data", "a.txt"], "the name must end in .csv"),
        (["norm-variance/fig2", "{}", "--out", "a.png", "--layer", "99"], "--layer 99: the survey of"),
        (["norm-variance/fig2", "{}", "--out", "a.png", "--variant", "b"], "--variant 'b' is not one of"),
        (
            ["norm-variance/fig2", "{}", "--out", "a.png", "--population", "none"],
            "--population 'none': the survey",
        ),
        (["norm-variance/fig22", "{}", "--out", "a.png"], "--units word --out DIR`"),
        (["norm-variance/fig4", "nowhere", "--out", "a.png"], "nowhere is not a folder"),
        (["norm-variance/fig4", "{}"], "--out is missing; give a file, such as --out fig4.png."),
        (["norm-variance/fig4", "{}", "--out", "a.png", "--format", "svg"], "--format requires a paper"),
        (
            ["fig4", "{}"],
            "Add the paper: 'anisotropy-inherent/fig4', 'dynamics/fig4' or 'norm-variance/fig4'.",
        ),
        (
            ["{}", "norm-variance/fig4"],
            "is a folder; the name of the exhibit comes first: `theodolite exhibit",
        ),
        (["norm-variance/fig3"], "in the paper it is an illustration of the sets of vectors"),
        (["norm-varience", "{}"], "Did you mean 'norm-variance'"),
    ],
)
def test_user_errors_are_one_sentence(theodolite, surveyed, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    ran = theodolite("exhibit", *(argument.format(surveyed) for argument in arguments))
    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert not list(tmp_path.iterdir())


def test_a_small_survey_is_rejected_and_the_suggested_command_works(theodolite, model, tmp_path):
    few, out = tmp_path / "few", tmp_path / "fig4.png"
    package.survey(model, ["a cat sat", "a dog ran after the cat"], out=few, sample_size=64)
    ran = theodolite("exhibit", "norm-variance/fig4", few, "--out", out)
    assert ran.code == 2
    assert "fewer than three units with 1 <= log10 n <= 5" in ran.err
    assert "--filter all" in ran.err
    assert "Traceback" not in ran.err
    assert not out.exists()
    assert theodolite("exhibit", "norm-variance/fig4", few, "--filter", "all", "--out", out).code == 0
    assert out.exists()


@pytest.mark.slow
@pytest.mark.weights
def test_real_weights_trade_norm_for_variance(theodolite, tmp_path):
    out = tmp_path / "minilm"
    package.survey("minilm-l6", "chitchat", limit=12, out=out, layers="0,2,6", sample_size=64)
    data = tmp_path / "fig4.csv"
    ran = theodolite("exhibit", "norm-variance/fig4", out, "--out", tmp_path / "fig4.pdf", "--data", data)
    assert ran.code == 0
    table = pd.read_csv(data).set_index("layer")
    # In the middle Q varies least and V falls with M; the embeddings and the last block are further from that.
    assert table["q_cv"].idxmin() == 2
    assert table["slope"].idxmin() == 2
    assert table.loc[2, "slope_high"] < 0
    assert table["slope"].to_numpy() == pytest.approx(table["identity"].to_numpy(), rel=1e-6)
