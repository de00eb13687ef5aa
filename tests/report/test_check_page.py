"""The page of a check: broken rules first, numbers as a chart and a table, and nothing unescaped."""

from __future__ import annotations

import pandas as pd

from theodolite.report.check_page import LONGEST, RuleCard, render_check

NONE = {"key": "", "allowed": None, "p_adjusted": None}


def make_numbers(count: int, broken: set[int]) -> pd.DataFrame:
    rows = [
        {"layer": i, "layer_name": f"block {i}", "baseline": 1.0, "value": 1.0 + i, "difference": float(i), **NONE}
        | {"broken": i in broken}
        for i in range(count)
    ]
    return pd.DataFrame(rows).astype({"layer": "Int64"})


def render(*cards: RuleCard) -> str:
    return render_check(
        "new <b>", "old", "1 of 2 rules is broken.", ["A note <i>."], cards, {"baseline": {"a": 1}}
    )


def test_broken_rules_come_first_and_text_is_escaped() -> None:
    holds = RuleCard("q", "q", False, "q holds", "at most 9", make_numbers(3, set()))
    broken = RuleCard("<script>", "mean_cosine", True, "it broke", "at most 1", make_numbers(3, {2}))
    page = render(holds, broken)
    assert page.index("it broke") < page.index("q holds")
    assert "<script>alert" not in page
    assert page.count("<script>") == 1  # that of the theme
    assert "new &lt;b&gt;" in page
    assert "A note &lt;i&gt;." in page
    assert page.count('<svg class="chart"') == 2
    assert 'href="#rule-1"' in page
    assert 'id="rule-1"' in page


def test_one_number_has_no_chart_and_columns_without_values_are_omitted() -> None:
    page = render(RuleCard("q", "q", False, "q holds", "at most 9", make_numbers(1, set())))
    assert '<svg class="chart"' not in page
    assert "p, corrected" not in page


def test_a_long_table_shows_broken_rows() -> None:
    many = make_numbers(LONGEST + 5, {LONGEST + 3}).assign(
        layer=pd.NA, key=[f"row {i}" for i in range(LONGEST + 5)]
    )
    page = render(RuleCard("q", "q", True, "q broke", "at most 9", many.astype({"layer": "Int64"})))
    assert f"row {LONGEST + 3}<" in page
    assert f"row {LONGEST + 4}<" not in page
    assert "5 more rows are in the JSON file" in page
