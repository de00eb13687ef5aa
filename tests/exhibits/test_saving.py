"""Every exhibit in every format, of ordinary, empty and one-layer surveys; errors; atomic writes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest
from tests.exhibits.formats import take_turns
from tests.shared import slow
from tests.synthetic_surveys import SyntheticSurvey, make_survey, remove_units

from theodolite.errors import InputError, TheodoliteError
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import check_data_path, check_ending, save, save_data
from theodolite.storage.atomic import write_atomically
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData

BEGINS = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF-"}
LARGE = {"fig7", "fig11", "fig14", "fig22"}  # one model's block is enough
FIGURES = "fig2 fig4 fig5 fig6 fig7 fig9 fig10 fig11 fig14 fig17 fig18 fig19 fig20 fig22".split()
UNITLESS = {"fig9", "fits", "table1", "table3"}  # tables show undefined numbers; lengths are of documents
HERE = [find(f"norm-variance/{number}") for number in (*FIGURES, "fits", "table1", "table3")]


def surveys_for(found: Exhibit, *made: SyntheticSurvey, empty: bool = False) -> list[SurveyData]:
    kind = "word" if found.id == "fig22" else "id"
    surveys = [remove_units(each) if empty else each.survey for each in made]
    return [SurveyData(survey.facts | {"units": kind}, survey.tables) for survey in surveys]


def drawn(found: Exhibit, *made: SyntheticSurvey, empty: bool = False, choice: Choice | None = None) -> Plate:
    return make(found, surveys_for(found, *made, empty=empty), choice)


@pytest.mark.parametrize(("found", "ending"), take_turns(HERE, BEGINS))
def test_every_exhibit_in_every_format(found: Exhibit, ending: str, tmp_path: Path) -> None:
    two = [
        make_survey("bert", layers=1 if found.id in LARGE else 2),
        make_survey("gpt2", layers=3, final_norm=True, scale=9.0),
    ]
    plate = drawn(found, *two[: 1 if found.id in LARGE else 2])
    out = tmp_path / f"made.{ending}"
    save(found, plate, out)
    assert out.read_bytes().startswith(BEGINS[ending])
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    "found",
    [pytest.param(each, marks=() if each.id in ("fig2", "fig9", "fits") else pytest.mark.slow) for each in HERE],
    ids=lambda found: found.id,
)
def test_surveys_with_one_layer_are_drawn(found: Exhibit, tmp_path: Path) -> None:
    out = tmp_path / "made.png"
    save(found, drawn(found, make_survey(layers=1)), out)
    assert out.read_bytes().startswith(BEGINS["png"])
    if found.id in UNITLESS:
        save(found, drawn(found, make_survey(layers=1), empty=True), out)


@pytest.mark.parametrize("found", [each for each in HERE if each.id not in UNITLESS], ids=lambda found: found.id)
def test_surveys_without_units_are_rejected(found: Exhibit) -> None:
    with pytest.raises(InputError, match=r"nothing to draw\. tiny on notes\.txt: (no|fewer than three) units"):
        drawn(found, make_survey(layers=1), empty=True)


@pytest.mark.parametrize("number", ["fig2", slow("fig5"), slow("fig17")])
@pytest.mark.parametrize("choice", [Choice(variant="unbiased"), Choice("without-first", filter="all")])
def test_input_beyond_the_paper_is_drawn(number: str, choice: Choice, tmp_path: Path) -> None:
    found = find(f"norm-variance/{number}")
    save(found, drawn(found, make_survey(), choice=choice), tmp_path / "made.png")


def test_the_same_numbers_make_the_same_file(tmp_path: Path) -> None:
    found = find("norm-variance/fig6")
    for ending in ("svg", "pdf"):
        files = [tmp_path / f"{number}.{ending}" for number in (1, 2)]
        for out in files:
            save(found, drawn(found, make_survey()), out)
        assert files[0].read_bytes() == files[1].read_bytes()


def test_a_table_as_data(tmp_path: Path) -> None:
    found = find("norm-variance/table3")
    plate = drawn(found, make_survey("a|b"))
    for ending in ("csv", "md", "json"):
        save(found, plate, tmp_path / f"made.{ending}")
    assert pd.read_csv(tmp_path / "made.csv").equals(plate.data)
    caption = json.loads((tmp_path / "made.json").read_text("utf-8"))
    assert caption["exhibit"] == "norm-variance/table3"
    assert caption["rows"][0]["types"] == 60
    lines = (tmp_path / "made.md").read_text("utf-8").splitlines()
    assert lines[0] == "| Model | Units | \\|T\\| | \\|X\\| | frequent | special |"
    assert lines[1] == "| --- | --- | ---: | ---: | ---: | ---: |"
    assert lines[2].startswith("| a\\|b | id | 60 |")
    assert lines[-1].startswith("\\|T\\|: number of units. \\|X\\|: number of vectors.")


def test_names_are_neither_html_nor_formulas(tmp_path: Path) -> None:
    """A model folder can have any name; a renderer must not run it, and neither must a spreadsheet."""
    found = find("norm-variance/table3")
    for ending in ("csv", "md"):
        save(found, drawn(found, make_survey("<img src=x onerror=alert(9)>")), tmp_path / f"html.{ending}")
        save(found, drawn(found, make_survey("=HYPERLINK(1)")), tmp_path / f"formula.{ending}")
    text = (tmp_path / "html.md").read_text("utf-8")
    assert "<" not in text
    assert "| &lt;img src=x onerror=alert(9)&gt; |" in text
    assert pd.read_csv(tmp_path / "formula.csv").iloc[:, 0].unique().tolist() == ["'=HYPERLINK(1)"]


def test_undefined_numbers_are_null(tmp_path: Path) -> None:
    found = find("norm-variance/fits")
    save(found, drawn(found, make_survey(layers=2), empty=True), tmp_path / "made.json")
    row = json.loads((tmp_path / "made.json").read_text("utf-8"))["rows"][0]
    assert row["slope"] is None
    assert row["reason"] == "fewer than three units"
    save(found, drawn(found, make_survey(layers=2), empty=True), tmp_path / "made.md")
    assert r"| – | \[–, –\] | – |" in (tmp_path / "made.md").read_text("utf-8")


def test_the_numbers_of_a_figure_are_available(tmp_path: Path) -> None:
    plate = drawn(find("norm-variance/fig4"), make_survey())
    save_data(plate.data, tmp_path / "made.csv")
    read = pd.read_csv(tmp_path / "made.csv")
    assert read["slope"].to_numpy() == pytest.approx(plate.data["slope"].to_numpy())


def test_file_extensions_are_checked() -> None:
    figure, table = find("norm-variance/fig2"), find("norm-variance/table1")
    assert check_ending(figure, Path("a.PDF")) == "pdf"
    assert check_ending(table, Path("a.md")) == "md"
    with pytest.raises(
        InputError, match=r"fig2 is a figure, so the name must end in one of png, svg, pdf; use --data FILE\.csv"
    ):
        check_ending(figure, Path("a.csv"))
    with pytest.raises(
        InputError, match="table1 is a table, so the name must end in one of csv, md, tex, json, png, svg, pdf"
    ):
        check_ending(table, Path("a.docx"))
    with pytest.raises(InputError, match="the name must end in one of"):
        check_ending(figure, Path("nothing"))
    with pytest.raises(InputError, match=r"--data a\.txt: the name must end in \.csv"):
        check_data_path(Path("a.txt"))


def test_a_file_is_complete_or_unchanged(tmp_path: Path) -> None:
    out = tmp_path / "new" / "made.csv"
    write_atomically(out, lambda path: Path(path).write_text("first"))  # type: ignore[arg-type, return-value]

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("no space")

    with pytest.raises(TheodoliteError, match=r"made\.csv could not be written: no space"):
        write_atomically(out, fail)
    assert out.read_text() == "first"
    assert [path.name for path in out.parent.iterdir()] == ["made.csv"]


def test_a_name_in_another_script_gives_no_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    found = find("norm-variance/table1")
    save(found, drawn(found, make_survey("模型")), tmp_path / "made.png")
    save(found, drawn(found, make_survey("模型\ud800")), tmp_path / "made.md")
    assert not [each for each in recwarn if "Glyph" in str(each.message)]
    assert io.BytesIO((tmp_path / "made.png").read_bytes()).read(4) == b"\x89PNG"
