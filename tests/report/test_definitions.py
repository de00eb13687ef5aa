"""Every link of a finding or a measure leads to a definition that is on the page."""

import re
from collections.abc import Callable

import pytest

from theodolite.measures.formula import formulas
from theodolite.report import Tables
from theodolite.report.catalogue import GROUPS, anchor, formulas_of, measures
from theodolite.report.definitions import definitions
from theodolite.report.findings import findings
from theodolite.report.opening import opening

Make = Callable[..., Tables]


def links(source: str) -> set[str]:
    return set(re.findall(r'href="#(definition-[^"]*)"', source))


def ids(source: str) -> list[str]:
    return re.findall(r'id="(definition-[^"]*)"', source)


@pytest.mark.parametrize(
    "said", [{}, {"mean_cosine": "mean-cosine/sampled-pairs"}, {"mean_cosine": "of-tomorrow/2"}, None]
)
def test_links_lead_to_a_definition(make_tables: Make, said: dict[str, str] | None) -> None:
    surveys = [make_tables("a", layers=3, units=20), make_tables("b", layers=3, units=20)]
    # The second is of another version, which defined a column otherwise or in a way that this one does not know.
    surveys[1].facts["formulas"] = None if said is None else {"layers": said}
    known = formulas_of(surveys)
    told = {one.formula for tables in surveys for one in findings(tables)}
    there = ids(definitions(known, told))
    assert len(there) == len(set(there))
    pointed = {link for place, tables in enumerate(surveys) for link in links(opening(tables, place, 3))}
    pointed |= {str(entry[3])[1:] for group in measures(surveys, known) for entry in group["columns"] if entry[3]}  # type: ignore[attr-defined]
    assert pointed
    assert pointed <= set(there)


def test_every_measure_that_is_offered_is_there_and_defined_or_counted(make_tables: Make) -> None:
    tables = make_tables(layers=3, units=20)
    offered = [entry for group in measures([tables], formulas_of([tables])) for entry in group["columns"]]  # type: ignore[attr-defined]
    assert {column for column, *_ in offered} <= set(tables.layers.columns)
    assert [column for column, _, _, link, _ in offered if not link] == [
        "norm_max",
        "massive",
        "zero",
        "nonfinite",
    ]
    assert all(label for _, label, *_ in offered)


def test_no_measure_is_named_twice() -> None:
    columns = [column for group in GROUPS.values() for column in group]
    assert len(columns) == len(set(columns))


def test_anchors_keep_formulas_apart() -> None:
    assert len({anchor(formula) for formula in formulas()}) == len(formulas())


def test_a_definition_tells_formula_columns_and_citation() -> None:
    shown = definitions({"mean_cosine": "mean-cosine/all-pairs", "<b>": "mean-cosine/all-pairs"}, ["qmv/all"])
    assert "Columns: <code>&lt;b&gt;</code>, <code>mean_cosine</code>." in shown
    assert ids(shown) == ["definition-mean-cosine-all-pairs", "definition-qmv-all"]
    assert shown.count("Cost: ") == 2
    assert definitions({"x": "of-tomorrow/2"}) == ""
