"""Every link of a finding or a measure leads to a definition that is on the page."""

import re
from collections.abc import Callable

import pytest

from theodolite.measures.formula import formulas
from theodolite.report import Tables
from theodolite.report.cards import render_findings
from theodolite.report.catalogue import MENU, definition_link, find_formulas, list_measures, render_definitions
from theodolite.report.findings import collect_findings

Make = Callable[..., Tables]


def links(source: str) -> set[str]:
    return set(re.findall(r'href="#(definition-[^"]*)"', source))


def ids(source: str) -> list[str]:
    return re.findall(r'id="(definition-[^"]*)"', source)


@pytest.mark.parametrize(
    "said", [{}, {"mean_cosine": "mean-cosine/sampled-pairs"}, {"mean_cosine": "of-tomorrow/2"}, None]
)
def test_links_point_to_a_definition(make_tables: Make, said: dict[str, str] | None) -> None:
    surveys = [make_tables("a", layers=3, units=20), make_tables("b", layers=3, units=20)]
    # The second is of another version, which defined a column otherwise or in a way that this one does not know.
    surveys[1].facts["formulas"] = None if said is None else {"layers": said}
    known = find_formulas(surveys)
    formulas_used = {one.formula for tables in surveys for one in collect_findings(tables)}
    anchors = ids(render_definitions(known, formulas_used))
    assert len(anchors) == len(set(anchors))
    pointed = {link for place, tables in enumerate(surveys) for link in links(render_findings(tables, place, 3))}
    pointed |= {
        str(entry[3])[1:] for group in list_measures(surveys, known) for entry in group["columns"] if entry[3]
    }  # type: ignore[attr-defined]
    assert pointed
    assert pointed <= set(anchors)


def test_every_offered_measure_exists_and_is_defined_or_counted(make_tables: Make) -> None:
    tables = make_tables(layers=3, units=20)
    offered = [entry for group in list_measures([tables], find_formulas([tables])) for entry in group["columns"]]  # type: ignore[attr-defined]
    assert {column for column, *_ in offered} <= set(tables.layers.columns)
    assert [column for column, _, _, link, *_ in offered if not link] == [
        "norm_max",
        "zero",
        "nonfinite",
        "massive",
    ]
    assert all(label for _, label, *_ in offered)


def test_no_measure_is_named_twice() -> None:
    columns = [column for columns in MENU.values() for column in columns]
    assert len(columns) == len(set(columns))


def test_anchors_of_formulas_are_unique() -> None:
    assert len({definition_link(formula) for formula in formulas()}) == len(formulas())


def test_a_definition_has_formula_columns_and_citation() -> None:
    shown = render_definitions(
        {"mean_cosine": "mean-cosine/all-pairs", "<b>": "mean-cosine/all-pairs"}, ["qmv/all"]
    )
    assert "Columns: <code>&lt;b&gt;</code>, <code>mean_cosine</code>." in shown
    assert ids(shown) == ["definition-mean-cosine-all-pairs", "definition-qmv-all"]
    assert shown.count("Cost: ") == 2
    assert render_definitions({"x": "of-tomorrow/2"}) == ""
