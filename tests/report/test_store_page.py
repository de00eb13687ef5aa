"""The page of a store: verdicts first, the worst at the top, everything escaped, charts drawn from tables."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pandas as pd

from theodolite.report.store_charts import Curve, Point, draw_curves, draw_points
from theodolite.report.store_page import render_store
from theodolite.stores.answer import Answer, Section

FACTS = {
    "store": {"name": "store.npy", "rows": 10, "dim": 2, "dtype": "float32"},
    "settings": {"metric": "cosine"},
    "notes": ["2 of 10 rows have no id."],
}
SECTIONS = [
    Section("rows", [Answer("Is it good?", "good", "It is 12.5% <b>.", 0.125, 0.1, 0.2, reason="counted")]),
    Section(
        "other_things",
        [Answer("Is it bad?", "bad", "Yes.", advice="Repair it.")],
        {"list": pd.DataFrame({"row": [1], "text": ["<i>"]})},
    ),
    Section("floor", [Answer("Unknown?", "unknown", "No one knows.")]),
]


def test_verdicts_are_listed_first_with_the_worst_at_the_top():
    page = render_store("store.npy", FACTS, SECTIONS)
    assert "1 problem, 1 good, 1 not known." in page
    assert re.findall(r'class="answer (\w+)"', page) == ["bad", "good", "unknown"]
    assert page.index("Is it bad?") < page.index('id="rows"')
    assert "2 of 10 rows have no id." in page
    assert "Repair it." in page


def test_intervals_have_the_unit_of_the_sentence_and_text_is_escaped():
    page = render_store("store.npy", FACTS, SECTIONS)
    assert "95% interval 10% to 20%." in page
    assert "&lt;b&gt;" in page
    assert "&lt;i&gt;" in page
    assert "<i>" not in page


def test_integers_that_may_be_missing_are_numbers():
    table = pd.DataFrame({"coordinate": pd.array([99, None], dtype="Int64")})
    page = render_store("store.npy", FACTS, [Section("against", [], {"tests": table})])
    assert "<tr><td>99</td></tr>" in page


def test_a_section_without_tables_states_its_answer():
    page = render_store("store.npy", FACTS, SECTIONS)
    assert "<p>No one knows.</p>" in page[page.index('id="floor"') :]


def test_charts_mark_the_threshold_and_join_the_best_points():
    drawn = draw_curves([Curve("pairs", [0.0, 0.5, 1.0], [0.0, 2.0, 0.0], 0.75)], "cosine", "Scores")
    assert "match 0.75" in drawn
    points = [
        Point("int8", 100, 0.99, 0.98, 1.0, True),
        Point("pq", 10, 0.8, 0.7, 0.9, True),
        Point("x", 100, 0.5, 0.4, 0.6),
    ]
    drawn = draw_points(points, "bytes", "recall", "Cost")
    assert drawn.count("<circle") == 3
    assert re.findall(r'class="label"[^>]*>(\w+)</text>', drawn) == ["int8", "pq"]
    assert re.findall(r'class="minor"[^>]*>(\w+)</text>', drawn) == ["x"]
    # Labels that would cover others are left out, those of the best points last.
    crowd = [Point(f"crowd{i}", 100, 0.5 + i / 1000, math.nan, math.nan, i == 7) for i in range(9)]
    drawn = draw_points([*points, *crowd], "bytes", "recall", "Cost")
    assert ">crowd7</text>" in drawn
    assert len(re.findall(r">crowd\d</text>", drawn)) < 9
    assert "nan" not in drawn
    # Each series has its own line.
    again = [replace(one, series=1, y=one.y - 0.2) for one in points]
    drawn = draw_points([*points, *again], "bytes", "recall", "Cost")
    assert len(re.findall(r'<path class="line" d="M[\d. ]+L', drawn)) == 2
    assert draw_points([], "bytes", "recall", "Cost") == draw_curves([], "cosine", "Scores") == ""
