"""Every number of the tables names its formula."""

from __future__ import annotations

import pytest

from theodolite.measures.formula import formula, formula_of_column, formulas
from theodolite.tables.coordinates import COORDINATES
from theodolite.tables.curves import TABLES
from theodolite.tables.tables import LAYERS, TOKENS

NAMES = set("layer layer_name library_index population unit coordinate scale rank group column undefined".split())
COUNTS = set("n types dim twonn_n zero nonfinite massive sample_duplicates sample_near_duplicates".split())
SEEN = set("norm_min norm_max".split())
"""Extremes that were seen: no formula is between them and the states."""
ERRORS = {column for column in LAYERS if column.endswith("_se")}
"""Error bars: described by the `error` of their formula."""


def test_every_column_that_is_a_measure_has_a_formula() -> None:
    for table, columns in {"layers": LAYERS, "tokens": TOKENS, "coordinates": COORDINATES, **TABLES}.items():
        assert set(columns) - NAMES - COUNTS - SEEN <= set(formula_of_column(table)), table
    assert formula_of_column("tokens")["q"] == "qmv/unit"
    assert formula_of_column()["q"] == "qmv/all"


def test_every_error_bar_belongs_to_the_formula_of_its_column() -> None:
    of_column, known = formula_of_column(), formulas()
    for column in ERRORS:
        assert column in known[of_column[column]].error
        number = column.removesuffix("_se")  # a ratio's error may exist without a column of the ratio
        assert of_column.get(number, of_column[column]) == of_column[column]


def test_no_column_has_two_formulas() -> None:
    columns = [column for known in formulas().values() for column in known.columns]
    assert len(columns) == len(set(columns))


def test_every_formula_has_a_description() -> None:
    for id_, known in formulas().items():
        assert known.id == id_
        assert known.definition
        assert known.cost
        assert known.citation
    assert "qmv/unit" in formulas()


def test_formula_ids_are_unique() -> None:
    with pytest.raises(ValueError, match="formula id 'qmv/all' is already registered"):
        formula("qmv/all", definition="", cost="", citation="")(lambda: None)
