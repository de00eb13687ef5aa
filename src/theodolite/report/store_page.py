"""The report on a store: a verdict for every question first, then the numbers behind it, as one HTML page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.escaping import escape_html
from theodolite.report.inline_assets import read_css, read_store_script, security_policy
from theodolite.report.page import SIGN
from theodolite.report.provenance import render_provenance
from theodolite.report.store_charts import Curve, Point, draw_curves, draw_points
from theodolite.storage.atomic import write_atomically
from theodolite.stores.answer import Answer, Section
from theodolite.text import UNDEFINED, format_aligned, format_number, format_percent, pluralize, short_path

ORDER = ("bad", "attention", "good", "unknown")
"""Verdicts in the order in which the page lists them."""
WORDS = {"bad": "problem", "attention": "look at it", "good": "good", "unknown": "not known"}
TITLES = {
    "rows": "Rows",
    "dimensions": "Dimensions",
    "floor": "What a score means",
    "near_duplicates": "Near duplicates",
    "hubs": "Hubs",
    "isolated": "Isolated documents",
    "cost": "What would it cost",
    "against": "Compared with another store",
}
SHOWN = 12
"""Rows of a table that the page shows; the Parquet files have all."""
HEADS = {
    "false_match_rate": "false-match rate",
    "share_closer": "random pairs that score better",
    "matches_by_chance": "documents that match by chance",
    "copy_of": "first row",
    "bytes": "bytes a vector",
    "recall_10_low": "95% from",
    "recall_10_high": "to",
    "query_ms": "ms a query",
    "copies": "equal rows",
    "times_even": "times its even share",
    "low": "95% from",
    "high": "to",
    "over_median": "over median",
    "variance_share": "share of variance",
    "cosine_share": "share of mean cosine",
    "lists": "in lists",
    "share": "share of lists",
    "nearest": "nearest row",
}
HIDDEN = ("score_curve", "dimensions")
"""Tables that are drawn, or too long to read."""
LONGEST_CELL = 80
COST_COLUMNS = (
    "transform", "bytes", "compression", "recall_1", "recall_10", "recall_10_low", "recall_10_high", "recall_100",
    "churn_10", "query_ms", "undefined",
)  # fmt: skip


def render_store(name: str, facts: Mapping[str, Any], sections: Sequence[Section]) -> str:
    """Return the report on a store as HTML; it can always be encoded as UTF-8."""
    links = {"verdict": "Verdict"} | {section.name: _title(section) for section in sections}
    body = f"{_render_opening(facts, sections)}{''.join(map(_render_section, sections))}"
    return render_shell(
        "store report", short_path(name), links, body, "Store, settings, versions and times", facts
    )


def render_shell(
    kind: str, name: str, links: Mapping[str, str], body: str, provenance: str, facts: Mapping[str, Any]
) -> str:
    """Return a page without interactive charts around its body: head, contents, and provenance at the end."""
    script = read_store_script()
    items = "".join(
        f'<li><a href="#{escape_html(key)}">{escape_html(title)}</a></li>'
        for key, title in {**links, "provenance": "Provenance"}.items()
    )
    title = escape_html(name)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{security_policy(script)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="generator" content="theodolite">'
        f"<title>{title} · Theodolite</title><style>{read_css()}</style></head><body>"
        f'<header class="page"><p class="kicker">{SIGN}Theodolite {kind}</p>'
        f'<h1>{title}</h1><button type="button" id="theme" hidden></button></header>'
        f'<main><nav class="contents" aria-label="Contents"><ul>{items}</ul></nav>{body}'
        '<section class="part"><h2 id="provenance">Provenance</h2><details class="provenance">'
        f"<summary>{provenance}</summary>{render_provenance(facts)}</details></section></main>"
        '<footer class="page">Made with Theodolite. This page loads nothing from the network.</footer>'
        f"<script>{script}</script></body></html>\n"
    )


def write_store_page(path: Path, name: str, facts: Mapping[str, Any], sections: Sequence[Section]) -> None:
    """Write the report on a store; a failed write leaves the file as it was."""
    write_page(path, render_store(name, facts, sections))


def write_page(path: Path, page: str) -> None:
    """Write a page; a failed write leaves the file as it was."""

    def write(file: Path) -> None:
        file.write_bytes(page.encode("utf-8", "replace"))

    write_atomically(path, write)


def summarize(sections: Sequence[Section]) -> str:
    """Return how many answers have each verdict, as a sentence.

    >>> summarize([Section("rows", [Answer("Is it?", "good", "Yes."), Answer("And?", "bad", "No.")])])
    '1 problem, 1 good.'
    """
    counts = {word: sum(one.verdict == word for each in sections for one in each.answers) for word in ORDER}
    words = {
        "bad": pluralize(counts["bad"], "problem"),
        "attention": f"{counts['attention']} to look at",
        "good": f"{counts['good']} good",
        "unknown": f"{counts['unknown']} not known",
    }
    return ", ".join(text for word, text in words.items() if counts[word]) + "."


def _title(section: Section) -> str:
    return TITLES.get(section.name, section.name.replace("_", " ").capitalize())


def _render_opening(facts: Mapping[str, Any], sections: Sequence[Section]) -> str:
    store, settings = facts["store"], facts["settings"]
    asked = facts.get("queries")
    parts = [
        f"{store['rows']:,} vectors of {store['dim']:,} dimensions ({store['dtype']})",
        *([f"{asked['rows']:,} queries"] if asked else []),
        f"metric {settings['metric']}",
    ]
    answers = [(section, one) for section in sections for one in section.answers]
    ordered = sorted(answers, key=lambda pair: ORDER.index(pair[1].verdict))
    cards = "".join(_render_answer(section, one) for section, one in ordered)
    notes = "".join(f"<li>{escape_html(note)}</li>" for note in facts.get("notes", ()))
    warnings = f'<ul class="warnings" aria-label="Notes on the store">{notes}</ul>' if notes else ""
    return (
        f'<section class="part"><h2 id="verdict">Verdict</h2><p '
        f'class="judgement">{escape_html(summarize(sections))}'
        f'</p><p class="quiet">{escape_html(", ".join(parts))}.</p>{warnings}<ul '
        f'class="answers">{cards}</ul></section>'
    )


def _render_answer(section: Section, one: Answer) -> str:
    interval = ""
    if one.low is not None and one.high is not None and math.isfinite(one.low) and math.isfinite(one.high):
        share = one.value is not None and any(format_percent(one.value, n) in one.sentence for n in (2, 3))
        low, high = (format_percent(end) if share else format_number(end, 3) for end in (one.low, one.high))
        interval = f" 95% interval {low} to {high}."
    reason = f"{one.reason[:1].upper()}{one.reason[1:]}." if one.reason else ""
    advice = f'<p class="advice">{escape_html(one.advice)}</p>' if one.advice else ""
    return (
        f'<li class="answer {one.verdict}"><p class="question"><a href="#{escape_html(section.name)}">'
        f'{escape_html(one.question)}</a> <span class="badge">{WORDS[one.verdict]}</span></p>'
        f"<p>{escape_html(one.sentence)}{escape_html(interval)}</p>{advice}"
        f'<p class="reason">{escape_html(reason)}</p></li>'
    )


def _render_section(section: Section) -> str:
    tables = "".join(
        _render_table(name, table, _title(section))
        for name, table in section.tables.items()
        if name not in HIDDEN and len(table) and len(table.columns)
    )
    if section.name == "dimensions" and "dimensions" in section.tables:
        tables += _render_table("dimensions", _extreme_dimensions(section.tables["dimensions"]), _title(section))
    chart = _draw_floor(section) if section.name == "floor" else ""
    chart = _draw_cost(section.tables["cost"]) if section.name == "cost" else chart
    if not tables and not chart:
        lines = "".join(f"<p>{escape_html(one.sentence)}</p>" for one in section.answers)
        tables = lines
    return (
        f'<section class="part"><h2 id="{escape_html(section.name)}">{escape_html(_title(section))}</h2>'
        f"{chart}{tables}</section>"
    )


def _draw_floor(section: Section) -> str:
    """Return the distribution of the scores of random pairs, with the threshold of the chosen rate."""
    if "score_curve" not in section.tables:
        return ""
    pairs = section.facts["pairs"]
    curves = [
        Curve(str(kind), list(part["score"]), list(part["density"]), pairs[kind]["threshold"])
        for kind, part in section.tables["score_curve"].groupby("pairs", sort=False)
    ]
    metric, rate = section.facts["metric"], section.facts["false_match_rate"]
    legend = draw_legend([one.name for one in curves])
    caption = (
        "<figcaption><b>Scores of random pairs</b>Nearly all pairs are unrelated. A share of "
        f"{format_number(rate)} of them scores better than the line.</figcaption>"
    )
    drawn = draw_curves(curves, metric, "Scores of random pairs")
    return f'<figure class="store-chart">{caption}{legend}{drawn}</figure>'


def _draw_cost(table: pd.DataFrame) -> str:
    """Return recall against bytes for every transform; those that none of their kind beats in both are joined."""
    points = [
        Point(
            row["transform"],
            row["bytes"],
            row["recall_10"],
            row["recall_10_low"],
            row["recall_10_high"],
            row["pareto"],
            int(row["needs_originals"] is True),
        )
        for row in table.to_dict("records")
    ]
    title = "Recall after a transform, by bytes a vector"
    drawn = draw_points(points, "bytes a vector · log scale", "recall@10", title)
    caption = (
        f"<figcaption><b>{title}</b>Share of the 10 nearest documents that are still found. Of one kind, no "
        "other transform is both smaller and better than those on the line.</figcaption>"
    )
    legend = draw_legend(["alone", "candidates scored again with the originals, which are kept elsewhere"])
    legend = legend if any(one.series for one in points) else ""
    return f'<figure class="store-chart">{caption}{legend}{drawn}</figure>' if drawn else ""


def draw_legend(names: Sequence[str]) -> str:
    """Return the names of the series with their colours; empty for one."""
    line = '<svg class="sign wide" viewBox="0 0 28 12" aria-hidden="true"><path class="line" d="M0 6H28"/></svg>'
    items = "".join(f'<li class="s{i}">{line}{escape_html(name)}</li>' for i, name in enumerate(names))
    return f'<ul class="signs">{items}</ul>' if len(names) > 1 else ""


def _extreme_dimensions(table: pd.DataFrame) -> pd.DataFrame:
    """Return the dimensions that have the largest shares, and dead ones."""
    shares = table[["variance_share", "cosine_share"]].fillna(0.0).max(axis=1) + 2.0 * table["dead"]
    return table.loc[shares.sort_values(ascending=False, kind="stable").index].head(SHOWN)


def _render_table(name: str, table: pd.DataFrame, title: str) -> str:
    shown = _choose_rows(name, table)
    dropped = [name for name in ("undefined",) if name in shown and not shown[name].fillna("").any()]
    dropped += [name for name in ("pairs",) if name in shown and shown[name].nunique() == 1]
    more = f"{len(shown):,} of {len(table):,} rows; all are in {name}.parquet." if len(shown) < len(table) else ""
    label = name.replace("_", " ").capitalize()
    head = "" if label == title else f'<h3 class="store-table">{escape_html(label)}</h3>'
    return f'{head}{render_rows(label, shown.drop(columns=dropped))}<p class="quiet">{more}</p>'


def render_rows(label: str, shown: pd.DataFrame) -> str:
    """Return a table, whose label is read to those who cannot see it."""
    texts = {name for name in shown if not pd.api.types.is_numeric_dtype(shown[name])}
    heads = "".join(
        f'<th scope="col"{_text_class(name in texts)}>{escape_html(HEADS.get(name, name.replace("_", " ")))}</th>'
        for name in map(str, shown.columns)
    )
    rows = "".join(
        f"<tr>{''.join(_render_cell(value) for value in values)}</tr>"
        for values in shown.itertuples(index=False, name=None)
    )
    return (
        f'<div class="scroll side store-rows" tabindex="0" role="region" aria-label="{escape_html(label)}">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _text_class(is_text: bool) -> str:
    return ' class="text"' if is_text else ""


def _choose_rows(name: str, table: pd.DataFrame) -> pd.DataFrame:
    if name == "scores":  # every fifth of those that some pair reaches
        reached = table[(table["share_closer"] > 0) & (table["share_closer"] < 0.999)]
        return reached.iloc[:: max(1, len(reached) // (2 * SHOWN))]
    if name == "duplicates":  # the groups, the largest first
        groups = table.drop_duplicates("copy_of").sort_values("copies", ascending=False, kind="stable").head(SHOWN)
        own = [column for column in map(str, groups) if column == "copies" or column.startswith("copy_of")]
        return groups[own].rename(columns={column: column.removeprefix("copy_of_") for column in own})
    if name == "cost":
        return table[[column for column in COST_COLUMNS if column in table]].sort_values("bytes", kind="stable")
    return table.head(SHOWN if name != "thresholds" else 20)


def _render_cell(value: Any) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return f"<td>{UNDEFINED}</td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else ''}</td>"
    if isinstance(value, float):
        return f"<td>{format_aligned(value)}</td>"
    if isinstance(value, Integral):
        return f"<td>{int(value):,}</td>".replace("-", "−")
    text = str(value)
    shown = text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
    return f'<td class="text">{escape_html(shown)}</td>'
