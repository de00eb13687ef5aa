"""Every chart can be exported as PNG, as SVG and as data."""

import csv
import io
import math
import re
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page
from tests.browser.conftest import Reader, Report, rest

from theodolite.escaping import escape_formula


def saved(page: Page, figure: Locator, kind: str) -> tuple[str, bytes]:
    figure.scroll_into_view_if_needed()
    rest(page, 200)  # what comes into view is drawn, and may move the button
    with page.expect_download() as waiting:
        figure.locator(".exports").get_by_role("button", name=f"as {kind}").click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def table(data: bytes) -> tuple[list[str], list[list[str]]]:
    text = data.decode("utf-8")
    assert text.endswith("\r\n")
    head, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert all(len(row) == len(head) for row in rows)
    return head, rows


@pytest.mark.slow
@pytest.mark.parametrize("which", ["one", "two"])
def test_every_chart_exports(reader: Reader, which: str, request: pytest.FixtureRequest) -> None:
    report: Report = request.getfixturevalue(which)
    # Of the second page what the first does not have.
    page = reader(report.path, *(() if which == "one" else ("side-by-side", "steps")), built=which == "one")
    page.evaluate("theodolite.choose({ token: 1 })")
    rest(page, 300)
    names = []
    for figure in page.locator("section[data-part] figure.chart-frame").all():
        if not figure.is_visible():
            continue
        figure.scroll_into_view_if_needed()
        if figure.locator(".exports").is_hidden():
            assert figure.locator(".none").inner_text()
            continue
        name, png = saved(page, figure, "png")
        names.append(name.removesuffix(".png"))
        width, height = struct.unpack(">II", png[16:24])
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        assert (width, height) >= (600, 400), name
        _, svg = saved(page, figure, "svg")
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "script" not in {one.tag.rpartition("}")[2] for one in root.iter()}
        head, rows = table(saved(page, figure, "csv")[1])
        assert len(head) == len(set(head)) >= 2, name
        assert rows, name
        assert not re.search(r"NaN|Infinity|undefined|\[object", str(rows)), name
    assert len(names) == len(set(names)) >= (8 if which == "one" else 3)


def test_exported_profile_data_equals_the_table(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles")
    page.locator("#profiles").get_by_label("Measure").select_option("twonn")
    name, data = saved(page, page.locator("#profiles figure"), "csv")
    assert name.endswith("-profile.csv")
    head, rows = table(data)
    assert head.pop(0) == "survey"  # taken away, it has to say of what it is
    assert {row.pop(0) for row in rows} == {page.evaluate("theodolite.survey().name")}
    assert head == ["layer", "layer_name", "population", "twonn", "twonn_se"]
    layers = one.surveys[0].layers.sort_values("layer")
    expected = [
        row
        for name in ("all", "without-first", "without-massive")
        for row in layers[layers["population"] == name][head].to_numpy().tolist()
    ]
    assert [[int(row[0]), *row[1:3]] for row in rows] == [row[:3] for row in expected]
    np.testing.assert_array_equal(
        np.array([row[3:] for row in rows], dtype=np.float32),
        np.array([row[3:] for row in expected], dtype=np.float32),
    )


@pytest.mark.slow
def test_undefined_values_are_empty_cells(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles")
    page.locator("#profiles").get_by_label("Measure").select_option("tradeoff_r2")
    head, cells = table(saved(page, page.locator("#profiles figure"), "csv")[1])
    rows = [dict(zip(head, row, strict=True)) for row in cells]
    assert [row["tradeoff_r2"] for row in rows if row["layer"] == "0"] == ["", "", ""]
    assert all(math.isfinite(float(row["tradeoff_r2"])) for row in rows if row["layer"] != "0")


@pytest.mark.slow
def test_tokens_are_unchanged_in_csv(reader: Reader, one: Report) -> None:
    page = reader(one.path, "token-map")
    page.get_by_label("Minimum n").fill("1")
    page.evaluate("theodolite.choose({ layer: 5 })")
    head, rows = table(saved(page, page.locator("#token-map figure").first, "csv")[1])
    shown = page.evaluate("theodolite.survey().units.text")
    found = {row[head.index("token")]: dict(zip(head, row, strict=True)) for row in rows}
    assert {"<script>alert(1)</script>", "\"'><img␣src=x␣onerror=alert(2)>", "\U0001f600", "(empty)", "↵"} <= set(
        found
    )
    assert set(found) <= set(shown)
    tables = one.surveys[0]
    layer_rows = tables.tokens[(tables.tokens["layer"] == 5) & (tables.tokens["population"] == "all")]
    unit = tables.units["unit"][tables.units["text"] == "##ing"].iloc[0]
    row = layer_rows[layer_rows["unit"] == unit].iloc[0]
    # Three bytes a number.
    assert [float(found["##ing"][name]) for name in ("n", "m", "v")] == pytest.approx(
        [row["n"], row["m"], row["v"]], rel=2.0**-16
    )


@pytest.mark.slow
def test_tokens_in_csv_join_with_the_table_of_units(reader: Reader, one: Report) -> None:
    page = reader(one.path, "token-map")
    page.get_by_label("Minimum n").fill("1")
    head, rows = table(saved(page, page.locator("#token-map figure").first, "csv")[1])
    units = one.surveys[0].units
    ordinary = [unit for unit, text in zip(units["unit"], units["text"], strict=True) if text.startswith("word")]
    found = {row[head.index("unit")]: row[head.index("token")] for row in rows}
    assert len(found) == len(rows) == len(units)
    assert len(ordinary) > 400
    assert [found[unit] for unit in ordinary] == units["text"][units["unit"].isin(ordinary)].tolist()
    # The text is not the key: it would not join.
    assert not set(found.values()) & set(ordinary)
    # A key that a spreadsheet would run has an apostrophe, as in other csv files.
    page.evaluate("theodolite.survey().units.key[5] = '=1+1'")
    head, rows = table(saved(page, page.locator("#token-map figure").first, "csv")[1])
    keys = {row[head.index("unit")] for row in rows}
    assert escape_formula("=1+1") == "'=1+1"
    assert "'=1+1" in keys
    assert "=1+1" not in keys


def test_tokens_are_no_formulas_in_csv(reader: Reader, one: Report) -> None:
    page = reader(one.path)
    tokens = ["=1+1", "@-@", "+cmd", "-", "-1.5", "the", '="a"']
    with page.expect_download() as waiting:
        page.evaluate(
            "tokens => theodolite.saveTable('t', [], { columns: ['token'], rows: tokens.map((x) => [x]) })", tokens
        )
    _, rows = table(Path(waiting.value.path()).read_bytes())
    assert [row[0] for row in rows] == [escape_formula(token) for token in tokens]
    assert [row[0] for row in rows][:3] == ["'=1+1", "'@-@", "'+cmd"]


@pytest.mark.slow
def test_the_token_list_names_its_survey(reader: Reader, two: Report) -> None:
    page = reader(two.path, "token-map")
    status = page.locator(".token-table [role=status]", has_text=" of ")
    status.wait_for()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="at this layer as csv").click()
    head, rows = table(Path(waiting.value.path()).read_bytes())
    name = page.evaluate("theodolite.survey().name")
    assert waiting.value.suggested_filename == re.sub(r"[^\w.-]+", "-", f"{name}-tokens.csv")
    assert {row[head.index("survey")] for row in rows} == {name}
    assert status.inner_text().endswith(f" of {len(rows)}")  # all of them, not a page
