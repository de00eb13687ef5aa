"""Every exhibit in every format, of plain, empty and one-layer surveys; refusals; files written whole."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest
from tests.made_up import MadeUp, emptied, made_up

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import check_data, check_ending, save, save_data, write_beside
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed

BEGINS = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF-"}
LARGE = {"fig7", "fig11", "fig14", "fig22"}  # one model's block is enough
FIGURES = "fig2 fig4 fig5 fig6 fig7 fig9 fig10 fig11 fig14 fig17 fig18 fig19 fig20 fig22".split()
UNITLESS = {"fig9", "fits", "table1", "table3"}  # tables tell what is undefined; lengths are of documents
HERE = [find(f"norm-variance/{number}") for number in (*FIGURES, "fits", "table1", "table3")]


def surveys_for(found: Exhibit, *made: MadeUp, empty: bool = False) -> list[Surveyed]:
    kind = "word" if found.id == "fig22" else "id"
    surveys = [emptied(each) if empty else each.survey for each in made]
    return [Surveyed(survey.facts | {"units": kind}, survey.tables) for survey in surveys]


def drawn(found: Exhibit, *made: MadeUp, empty: bool = False, choice: Choice | None = None) -> Plate:
    return make(found, surveys_for(found, *made, empty=empty), choice)


@pytest.mark.parametrize("found", HERE, ids=lambda found: found.id)
def test_every_exhibit_in_every_format(found: Exhibit, tmp_path: Path) -> None:
    two = [
        made_up("bert", layers=1 if found.id in LARGE else 2),
        made_up("gpt2", layers=3, final_norm=True, scale=9.0),
    ]
    plate = drawn(found, *two[: 1 if found.id in LARGE else 2])
    for ending, begin in BEGINS.items():
        out = tmp_path / f"made.{ending}"
        save(found, plate, out)
        assert out.read_bytes().startswith(begin)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.pdf", "made.png", "made.svg"]


@pytest.mark.parametrize("found", HERE, ids=lambda found: found.id)
def test_surveys_with_one_layer_are_drawn_and_those_without_units_refused(found: Exhibit, tmp_path: Path) -> None:
    out = tmp_path / "made.png"
    save(found, drawn(found, made_up(layers=1)), out)
    assert out.read_bytes().startswith(BEGINS["png"])
    if found.id in UNITLESS:
        save(found, drawn(found, made_up(layers=1), empty=True), out)
        return
    with pytest.raises(InputError, match=r"nothing to draw\. tiny on notes\.txt: (no|fewer than three) units"):
        drawn(found, made_up(layers=1), empty=True)


@pytest.mark.parametrize("number", ["fig2", "fig5", "fig17"])
@pytest.mark.parametrize("choice", [Choice(variant="unbiased"), Choice("without-first", filter="all")])
def test_what_the_paper_could_not_draw(number: str, choice: Choice, tmp_path: Path) -> None:
    found = find(f"norm-variance/{number}")
    save(found, drawn(found, made_up(), choice=choice), tmp_path / "made.png")


def test_the_same_numbers_make_the_same_file(tmp_path: Path) -> None:
    found = find("norm-variance/fig6")
    for ending in ("svg", "pdf"):
        files = [tmp_path / f"{number}.{ending}" for number in (1, 2)]
        for out in files:
            save(found, drawn(found, made_up()), out)
        assert files[0].read_bytes() == files[1].read_bytes()


def test_a_table_as_data(tmp_path: Path) -> None:
    found = find("norm-variance/table3")
    plate = drawn(found, made_up("a|b"))
    for ending in ("csv", "md", "json"):
        save(found, plate, tmp_path / f"made.{ending}")
    assert pd.read_csv(tmp_path / "made.csv").equals(plate.data)
    told = json.loads((tmp_path / "made.json").read_text("utf-8"))
    assert told["exhibit"] == "norm-variance/table3"
    assert told["rows"][0]["types"] == 60
    lines = (tmp_path / "made.md").read_text("utf-8").splitlines()
    assert lines[0] == "| Model | Units | \\|T\\| | \\|X\\| | frequent | special |"
    assert lines[1] == "| --- | --- | ---: | ---: | ---: | ---: |"
    assert lines[2].startswith("| a\\|b | id | 60 |")
    assert lines[-1].startswith("|T| units and |X| vectors")


def test_undefined_numbers_are_null(tmp_path: Path) -> None:
    found = find("norm-variance/fits")
    save(found, drawn(found, made_up(layers=2), empty=True), tmp_path / "made.json")
    row = json.loads((tmp_path / "made.json").read_text("utf-8"))["rows"][0]
    assert row["slope"] is None
    assert row["reason"] == "fewer than three units"
    save(found, drawn(found, made_up(layers=2), empty=True), tmp_path / "made.md")
    assert "| – | [–, –] | – |" in (tmp_path / "made.md").read_text("utf-8")


def test_the_numbers_of_a_figure_can_be_had(tmp_path: Path) -> None:
    plate = drawn(find("norm-variance/fig4"), made_up())
    save_data(plate.data, tmp_path / "made.csv")
    read = pd.read_csv(tmp_path / "made.csv")
    assert read["slope"].to_numpy() == pytest.approx(plate.data["slope"].to_numpy())


def test_endings_are_checked() -> None:
    figure, table = find("norm-variance/fig2"), find("norm-variance/table1")
    assert check_ending(figure, Path("a.PDF")) == "pdf"
    assert check_ending(table, Path("a.md")) == "md"
    with pytest.raises(
        InputError, match=r"fig2 is a figure, so the ending is one of png, svg, pdf; --data FILE\.csv"
    ):
        check_ending(figure, Path("a.csv"))
    with pytest.raises(
        InputError, match="table1 is a table, so the ending is one of csv, md, json, png, svg, pdf"
    ):
        check_ending(table, Path("a.docx"))
    with pytest.raises(InputError, match="the ending is one of"):
        check_ending(figure, Path("nothing"))
    with pytest.raises(InputError, match=r"--data a\.txt: wanted a name that ends in \.csv"):
        check_data(Path("a.txt"))


def test_a_file_is_whole_or_what_it_was(tmp_path: Path) -> None:
    out = tmp_path / "new" / "made.csv"
    write_beside(out, lambda path: Path(path).write_text("first"))  # type: ignore[arg-type, return-value]

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write_beside(out, fail)
    assert out.read_text() == "first"
    assert [path.name for path in out.parent.iterdir()] == ["made.csv"]


def test_a_name_in_another_script_is_no_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    found = find("norm-variance/table1")
    save(found, drawn(found, made_up("模型")), tmp_path / "made.png")
    save(found, drawn(found, made_up("模型\ud800")), tmp_path / "made.md")
    assert not [each for each in recwarn if "Glyph" in str(each.message)]
    assert io.BytesIO((tmp_path / "made.png").read_bytes()).read(4) == b"\x89PNG"
