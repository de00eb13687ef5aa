"""Pages of series and of pictures, alone and beside surveys."""

from __future__ import annotations

import json
import re

import pytest
from tests.report.test_page import Page
from tests.report.test_payload_series import series

from theodolite.errors import InputError
from theodolite.report import Picture, Steps, render
from theodolite.report import page as page_module
from theodolite.report.cards import step_chart

PIXEL = b"\x89PNG not looked into"
HOSTILE = "<script>alert(1)</script> & \"'\u202e\ud800"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "read_plotly", lambda: "/* Plotly */")


def data_of(source: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', source, re.DOTALL)[1])


def parts(source: str) -> list[str]:
    return re.findall(r'data-part="([^"]+)"', source)


def test_a_page_of_one_series():
    source = render([], [series()])
    Page(source)
    assert parts(source) == ["steps"]
    assert data_of(source)["surveys"] == []
    assert [one["name"] for one in data_of(source)["series"]] == ["tiny"]
    assert "tiny was measured at 3 steps of its training, from 0 to 1,000" in source
    assert 'data-measure="mean_cosine" data-series="0"' in source
    for target in re.findall(r'href="#([^"]+)"', source):
        assert f'id="{target}"' in source, target


def test_surveys_series_and_pictures_share_a_page(make_tables):
    source = render(
        [make_tables(), make_tables()], [series()], [Picture("A study", "After Euler.", "image/png", PIXEL)]
    )
    Page(source)
    assert parts(source)[:2] == ["side-by-side", "steps"]
    names = [one["name"] for one in data_of(source)["surveys"]]
    assert len(set(names)) == 2  # two lines with one name could not be distinguished
    assert "2 surveys and 1 series" in source
    assert source.index('id="studies"') < source.index('id="numbers"')


def test_one_survey_has_nothing_side_by_side(make_tables):
    assert not {"side-by-side", "steps"} & set(parts(render([make_tables()])))


def test_a_page_of_pictures_has_no_plotly():
    source = render([], [], [Picture("A study", "After Euler.", "image/svg+xml", b"<svg/>")])
    Page(source)
    assert "/* Plotly */" not in source
    assert 'src="data:image/svg+xml;base64,PHN2Zy8+"' in source
    assert 'data-save="a-study.svg"' in source


def test_names_of_series_and_pictures_are_data():
    made = series()
    source = render([], [Steps(HOSTILE, {}, made.table)], [Picture(HOSTILE, HOSTILE, "image/png", PIXEL)])
    assert Page(source).tags["script"] == 3
    assert "alert(1)</script>" not in source
    source.encode("utf-8")


def test_pictures_that_do_not_fit_are_named(monkeypatch):
    monkeypatch.setattr("theodolite.report.pictures.render_pictures.__defaults__", (100,))
    source = render(
        [], [], [Picture("Small", "", "image/png", PIXEL), Picture("Large", "", "image/png", bytes(99))]
    )
    assert source.count("<img") == 1
    assert "Omitted because the page would be too large: Large." in source


def test_no_input_and_unknown_media_types_are_rejected():
    with pytest.raises(InputError, match="at least one survey"):
        render([])
    with pytest.raises(InputError, match=r"expected image/svg\+xml or image/png, got 'text/html'"):
        Picture("A page", "", "text/html", b"")


def test_the_chart_of_a_finding_names_its_steps():
    chart = step_chart(series().tables, "mean_cosine", "the mean cosine")
    assert chart.x_names == ("0", "10", "1,000")
    assert [place for _, place, _, _ in chart.points()] == ["step 0", "step 10", "step 1,000"]
