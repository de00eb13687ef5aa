from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from theodolite.report import Tables
from theodolite.report.extremes import find_extremes


def test_lists_are_the_ends_of_the_table(tables: Tables) -> None:
    middle, last = find_extremes(tables)
    assert (middle.layer, last.layer, last.layer_name) == (4, 7, "final norm")
    rows = tables.tokens[(tables.tokens["layer"] == 7) & (tables.tokens["population"] == "all")]
    for column in ("m", "v"):
        assert [getattr(u, column) for u in last.lists[f"{column}-high"]] == list(rows[column].nlargest(8))
        assert [getattr(u, column) for u in last.lists[f"{column}-low"]] == list(rows[column].nsmallest(8))


def test_rare_units_are_excluded_and_counted(tables: Tables) -> None:
    rare = tables.tokens.assign(n=[3 if i % 5 else 40 for i in range(len(tables.tokens))])
    middle, _ = find_extremes(replace(tables, tokens=rare))
    assert middle.chosen == "100 of 500 units occur at least 10 times"
    assert {unit.n for units in middle.lists.values() for unit in units} == {40}


def test_units_without_m_and_v_are_counted_but_not_listed(tables: Tables) -> None:
    unknown = [i % 5 == 0 and i % 10 == 0 for i in range(len(tables.tokens))]
    tokens = tables.tokens.assign(n=[3 if i % 5 else 40 for i in range(len(tables.tokens))])
    tokens.loc[unknown, ["m", "v"]] = None
    middle, _ = find_extremes(replace(tables, tokens=tokens))
    assert middle.chosen == "100 of 500 units occur at least 10 times, and 50 of these have M and V"


def test_a_small_corpus_uses_the_most_frequent_units(tables: Tables) -> None:
    few = tables.tokens.assign(n=[1 + 2 * (i % 500 < 20) for i in range(len(tables.tokens))])
    middle, _ = find_extremes(replace(tables, tokens=few))
    assert middle.chosen == (
        "no unit occurs 10 times; these are the 20 most frequent units, with at least 3 occurrences"
    )


def test_a_list_without_frequent_units_says_whether_they_lack_m_and_v(tables: Tables) -> None:
    tokens = tables.tokens.assign(n=[3 if i % 5 else 40 for i in range(len(tables.tokens))])
    tokens.loc[tokens["n"] == 40, ["m", "v"]] = None
    middle, _ = find_extremes(replace(tables, tokens=tokens))
    assert middle.chosen.startswith("no unit that occurs 10 times has M and V; these are the ")


def test_special_units_are_marked_and_missing_texts_are_spelled(tables: Tables) -> None:
    units = tables.units.assign(text=None)
    tokens = tables.tokens.replace({"unit": {tables.units["unit"][0]: "Ġnew"}})
    middle, _ = find_extremes(replace(tables, units=units, tokens=tokens))
    found = {unit.text for some in middle.lists.values() for unit in some}
    assert " new" in found
    special = [unit.text for unit in find_extremes(tables)[0].lists["m-high"] if unit.special]
    assert sorted(special) == ["[CLS]", "[SEP]"]


def test_nothing_to_list(make_tables: Callable[..., Tables], tables: Tables) -> None:
    assert find_extremes(replace(tables, tokens=pd.DataFrame())) == []
    assert find_extremes(replace(tables, tokens=tables.tokens.iloc[:0])) == []
    (only,) = find_extremes(make_tables(layers=1, units=1))
    assert [len(units) for units in only.lists.values()] == [1, 1, 1, 1]
