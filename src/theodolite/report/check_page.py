"""The page of a check: how many rules are broken, one card per rule, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.escaping import escape_html
from theodolite.measures.columns import find_column
from theodolite.report.store_charts import Curve, draw_lines
from theodolite.report.store_page import draw_legend, render_rows, render_shell, write_page

SHOWN = "layer layer_name key baseline value difference allowed p_adjusted broken".split()
"""Columns of the table of a rule."""
NAMES = {"p_adjusted": "p, corrected", "value": "checked", "layer_name": "name", "key": "row"}
LONGEST = 40
"""Rows of a rule that the page shows, broken ones first; the JSON file has all."""


@dataclass(frozen=True)
class RuleCard:
    """A rule as the page shows it; `numbers` has the columns SHOWN."""

    title: str
    column: str
    broken: bool
    sentence: str
    limit: str
    numbers: pd.DataFrame


def render_check(
    name: str,
    baseline: str,
    summary: str,
    notes: Sequence[str],
    cards: Sequence[RuleCard],
    facts: Mapping[str, Any],
) -> str:
    """Return the page of a check as HTML, broken rules first."""
    order = sorted(range(len(cards)), key=lambda number: not cards[number].broken)
    answers = "".join(_render_card(number, cards[number]) for number in order)
    listed = "".join(f"<li>{escape_html(note)}</li>" for note in notes)
    changes = f'<ul class="warnings" aria-label="Other changes">{listed}</ul>' if listed else ""
    body = (
        f'<section class="part"><h2 id="verdict">Verdict</h2><p class="judgement">{escape_html(summary)}</p>'
        f'<p class="quiet">Compared with {escape_html(baseline)}.</p>{changes}<ul class="answers">{answers}</ul>'
        "</section>" + "".join(_render_numbers(number, cards[number]) for number in order)
    )
    links = {"verdict": "Verdict"} | {
        f"rule-{number}": f"{number + 1}. {cards[number].title}" for number in order if cards[number].broken
    }
    return render_shell("check", name, links, body, "What was checked, and the baseline", facts)


def write_check_page(path: Path, *contents: Any) -> None:
    """Write the page of a check; `contents` are the arguments of `render_check`."""
    write_page(path, render_check(*contents))


def _render_card(number: int, card: RuleCard) -> str:
    verdict, word = ("bad", "broken") if card.broken else ("good", "holds")
    return (
        f'<li class="answer {verdict}"><p class="question"><a href="#rule-{number}">{number + 1}. '
        f'{escape_html(card.title)}</a> <span class="badge">{word}</span></p>'
        f'<p>{escape_html(card.sentence)}.</p><p class="reason">Allowed: {escape_html(card.limit)}.</p></li>'
    )


def _render_numbers(number: int, card: RuleCard) -> str:
    """Return the numbers of a rule: a chart if it is about several layers, and a table."""
    table = card.numbers.sort_values("broken", ascending=False, kind="stable").head(LONGEST)
    more = len(card.numbers) - len(table)
    left = f'<p class="quiet">{more:,} more rows are in the JSON file.</p>' if more else ""
    kept = [column for column in SHOWN if table[column].notna().any() and (table[column] != "").any()]
    shown = table.sort_index()[[*kept]].rename(columns=NAMES)
    meaning = find_column(card.column).meaning
    about = f'<p class="quiet">{escape_html(meaning)}.</p>' if meaning else ""
    return (
        f'<section class="part"><h2 id="rule-{number}">{number + 1}. {escape_html(card.title)}</h2>{about}'
        f"{_draw(card)}{render_rows(card.title, shown)}{left}</section>"
    )


def _draw(card: RuleCard) -> str:
    """Return both sides by layer, if the rule has one number per layer and more than one layer."""
    table = card.numbers
    if table["layer"].isna().any() or table["layer"].nunique() < 2 or table["layer"].duplicated().any():
        return ""
    x = [float(layer) for layer in table["layer"]]
    lines = [
        Curve(name, x, [float(one) for one in pd.to_numeric(table[column], errors="coerce")])
        for name, column in (("checked", "value"), ("baseline", "baseline"))
    ]
    title = f"{find_column(card.column).title} by layer"
    drawn = draw_lines(lines, "layer", find_column(card.column).label, title)
    caption = f"<figcaption><b>{escape_html(title)}</b></figcaption>"
    return f'<figure class="store-chart">{caption}{draw_legend([one.name for one in lines])}{drawn}</figure>'
