"""The report as Markdown, for a pull request: findings, compact tables, cautions and provenance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from theodolite.errors import InputError
from theodolite.escaping import escape_markdown, escape_summary, inline_code, shorten, token_code
from theodolite.measures.columns import find_column
from theodolite.measures.formula import formulas
from theodolite.report.extremes import Extremes, Unit, find_extremes
from theodolite.report.findings import Finding, collect_findings, collect_warnings
from theodolite.report.findings.comparison import compare_surveys, comparison_cautions
from theodolite.report.findings.finding import highest, locate
from theodolite.report.findings.training import MEASURES, average_over_blocks, find_training_changes, is_series
from theodolite.report.findings.warnings import warn_too_few
from theodolite.report.summary import describe_survey
from theodolite.report.tables import Row, Tables, label_surveys, layer_name, layer_rows, number, populations
from theodolite.report.vectors import is_vector_survey, reword_for_vectors
from theodolite.report.verdict import describe_series_verdict, describe_verdict
from theodolite.text import UNDEFINED, format_aligned, format_count, format_number, join_words, pluralize

LAYERS = {
    "n": "n",
    "q": "Q",
    "m_of_q": "M/Q",
    "mean_cosine": "mean cosine",
    "anisotropy_svd": "SVD",
    "effective_rank": "eff. rank",
    "participation_ratio": "PR",
    "twonn": "TwoNN",
    "tradeoff_slope": "slope",
    "tradeoff_r2": "R²",
    "norm_p50": "median norm",
}
HEADLINES = {
    "mean_cosine": "highest mean cosine",
    "anisotropy_svd": "highest SVD anisotropy",
    "without-massive": "SVD anisotropy without massive",
    "makeup": "highest M/Q",
    "tradeoff": "highest R² of V on M",
    "dimension": "effective rank",
    "rogue": "highest share of one coordinate",
    "norms": "median norm, highest / lowest",
}
WITH_LAYER = ("mean_cosine", "anisotropy_svd", "without-massive", "makeup", "tradeoff", "rogue")
EXTREMES = {"m-high": "highest M", "m-low": "lowest M", "v-high": "highest V", "v-low": "lowest V"}
MOST_ROWS = 100
LIMIT = 60_000
"""A comment on GitHub may have 65,536 characters; this leaves some for text that people add."""
NO_FINDINGS = "No measure is defined, so there are no findings."


class Block(NamedTuple):
    """A part of the report, its name if it has to be omitted, and whether it has priority."""

    text: str
    name: str
    priority: bool = True


def render_markdown(surveys: Sequence[Tables | Mapping[str, Any]]) -> str:
    """Return the report on surveys and series as Markdown, at most 60,000 characters, encodable as UTF-8.

    A series is given as `Tables` too: its `layers` have a column `step`.
    """
    read = [Tables.of(one) for one in surveys]
    if not read:
        raise InputError("surveys: expected at least one survey to report on, got none. Pass a list of Tables.")
    only = len(read) == 1
    plain = [one for one in read if not is_series(one)]
    blocks = [Block(f"# {_title(read)}", "the title")]
    blocks += _survey_blocks(read[0]) if only and plain else _comparison_blocks(plain) if plain else []
    blocks += [block for one in read if is_series(one) for block in _series_blocks(one, only=only)]
    shown = [
        one
        for tables in read
        for one in (find_training_changes(tables) if is_series(tables) else collect_findings(tables))
    ]
    blocks += [_definitions_block(shown), _provenance_block(read)]
    return _join_within_limit(blocks)


def _title(read: list[Tables]) -> str:
    if len(read) == 1:
        return escape_markdown(shorten(read[0].name))
    series = sum(map(is_series, read))
    parts = [pluralize(len(read) - series, "survey")] if series < len(read) else []
    return " and ".join([*parts, *([pluralize(series, "series", "series")] if series else [])])


def _survey_blocks(tables: Tables) -> list[Block]:
    return [
        Block(f"**{escape_markdown(describe_verdict(tables))}**", "the verdict"),
        Block(escape_markdown(describe_survey(tables)), "what was surveyed"),
        Block(f"## Findings\n\n{_list_findings(collect_findings(tables)) or NO_FINDINGS}", "findings"),
        Block(_list_cautions(_all_warnings(tables), "## Cautions"), "cautions"),
        *_layer_blocks(tables),
        *_extremes_blocks(tables),
    ]


def _layer_blocks(tables: Tables) -> list[Block]:
    """Return the table of the first population, and the others collapsed; identical ones are only named."""
    by_population = {each: render_layer_rows(tables, each) for each in populations(tables)}
    if not by_population:
        return []
    first, *others = by_population
    same = [each for each in others if by_population[each] == by_population[first]]
    identical = f" Identical in {join_words(list(map(inline_code, same)))}." if same else ""
    return [
        Block(f"## Layers\n\nPopulation {inline_code(first)}.{identical}\n\n{by_population[first]}", "the layers"),
        *(_collapse(f"Layers, {each}", by_population[each]) for each in others if each not in same),
    ]


def _comparison_blocks(surveys: list[Tables]) -> list[Block]:
    named = list(zip(label_surveys(surveys), surveys, strict=True))
    if len(named) == 1:
        return [_collapsed_survey(*named[0])]
    summaries = "\n".join(
        f"- {escape_markdown(describe_survey(tables))} **{escape_markdown(describe_verdict(tables))}**"
        for _, tables in named[:20]
    )
    differences = _list_findings(compare_surveys(surveys))
    return [
        Block(summaries, "what was surveyed"),
        Block(f"## Side by side\n\n{render_headlines(surveys)}", "surveys side by side"),
        Block(f"## Differences\n\n{differences}" if differences else "", "differences"),
        Block(_list_cautions(comparison_cautions(surveys), "## Cautions"), "cautions"),
        *(_collapsed_survey(label, tables) for label, tables in named),
    ]


def _collapsed_survey(label: str, tables: Tables) -> Block:
    known = populations(tables)
    parts = [
        escape_markdown(describe_survey(tables)),
        _list_findings(collect_findings(tables)) or NO_FINDINGS,
        _list_cautions(_all_warnings(tables), "**Cautions**"),
        f"Population {inline_code(known[0])}:\n\n{render_layer_rows(tables, known[0])}" if known else "",
    ]
    return _collapse(shorten(label), "\n\n".join(part for part in parts if part))


def _series_blocks(series: Tables, *, only: bool) -> list[Block]:
    known = populations(series)
    steps = sorted({number(row, "step") for row in layer_rows(series, known[0])}) if known else []
    ends = f", {format_count(steps[0])} to {format_count(steps[-1])}" if steps else ""
    over = f" It was measured at {pluralize(len(steps), 'step')}{ends}."
    by_population = {each: render_steps(series, each) for each in known}
    distinct = {text: each for each, text in reversed(by_population.items())}  # the first of identical tables
    return [
        Block("" if only else f"## {escape_markdown(shorten(series.name))}", series.name),
        Block(f"**{escape_markdown(describe_series_verdict(series))}**", f"the verdict on {series.name}"),
        Block(escape_markdown(describe_survey(series)) + over, f"the summary of {series.name}"),
        Block(_list_findings(find_training_changes(series)) or NO_FINDINGS, f"the changes of {series.name}"),
        *(_collapse(f"Means over blocks, {each}", text) for text, each in reversed(distinct.items())),
    ]


def _list_findings(found: Sequence[Finding]) -> str:
    return "\n".join(
        f"- **{escape_markdown(one.figure)}** {escape_markdown(one.headline)}"
        f"{f' ({inline_code(one.formula)})' if one.formula else ''}<br>{escape_markdown(one.text)}"
        for one in found
    )


def _all_warnings(tables: Tables) -> list[str]:
    return [text for text in (warn_too_few(tables), *collect_warnings(tables)) if text]


def _list_cautions(cautions: Sequence[str], head: str) -> str:
    return "\n".join([head, "", *(f"- {escape_markdown(text)}" for text in cautions)]) if cautions else ""


def _collapse(title: str, inside: str) -> Block:
    if not inside:
        return Block("", title)
    # After an empty line GitHub reads Markdown again.
    return Block(
        f"<details><summary>{escape_summary(title)}</summary>\n\n{inside}\n\n</details>", title, priority=False
    )


def _extremes_blocks(tables: Tables) -> list[Block]:
    blocks, vectors = [], is_vector_survey(tables)
    for one in find_extremes(tables):
        lead = escape_markdown(
            f"Population {one.population}: {reword_for_vectors(one.chosen) if vectors else one.chosen}."
        )
        title = "Groups at the extremes" if vectors else f"Units at the extremes, {one.layer_name}"
        blocks.append(_collapse(title, f"{lead}\n\n{render_extremes(one)}"))
    return blocks


def _definitions_block(found: Sequence[Finding]) -> Block:
    known = formulas()
    lines = [
        f"- {inline_code(name)}: {escape_markdown(f'{known[name].definition} {known[name].citation}')}."
        for name in sorted({one.formula for one in found if one.formula in known})
    ]
    return _collapse("Definitions of the measures", "\n".join(lines))


def _provenance_block(read: Sequence[Tables]) -> Block:
    lines = "<br>".join(_describe_origin(tables) for tables in read[:20])
    return Block(f"---\n\n<sub>{lines}</sub>", "provenance")


def _describe_origin(tables: Tables) -> str:
    facts = tables.facts
    versions, times = _part(facts, "versions"), _part(facts, "times")
    made = [f"{tool} {versions[tool]}" for tool in ("theodolite", "torch", "transformers") if versions.get(tool)]
    sums = [
        f"{key} {str(part['sha256'])[:12]}"
        for key in ("model", "corpus")
        if (part := _part(facts, key)).get("sha256")
    ]
    when = [str(times["started"])] if times.get("started") else []
    return " · ".join(escape_markdown(shorten(part)) for part in (tables.name, *made, *sums, *when))


def _part(facts: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = facts.get(key)
    return value if isinstance(value, Mapping) else {}


def _join_within_limit(blocks: Sequence[Block]) -> str:
    """Join the blocks that fit the limit, those with priority first, and name those that do not fit."""
    left = LIMIT - 1_000  # characters; the rest is for the last line
    kept = set()
    for i in sorted((i for i, block in enumerate(blocks) if block.text), key=lambda i: not blocks[i].priority):
        if len(blocks[i].text) + 2 <= left:
            left -= len(blocks[i].text) + 2
            kept.add(i)
    texts = [block.text for i, block in enumerate(blocks) if i in kept]
    omitted = [block.name for i, block in enumerate(blocks) if block.text and i not in kept]
    if omitted:
        more = f" and {len(omitted) - 5} more" if len(omitted) > 5 else ""
        listed = ", ".join(escape_markdown(shorten(each)) for each in omitted[:5])
        why = f"Omitted to stay below {format_count(LIMIT)} characters"
        texts.append(f"{why}: {listed}{more}. `--format html` shows all.")
    return "\n\n".join(texts) + "\n"


def render_layer_rows(tables: Tables, population: str) -> str:
    """Return the layers of one population with a dozen columns; columns without any value are omitted."""
    rows = [_add_mean_share(row) for row in layer_rows(tables, population)]
    columns = [column for column in LAYERS if any(math.isfinite(number(row, column)) for row in rows)]
    body = [
        [escape_markdown(_layer_label(row)), *(_format_value(row, column) for column in columns)] for row in rows
    ]
    return render_table(["layer", *(LAYERS[column] for column in columns)], body)


def render_headlines(surveys: Sequence[Tables]) -> str:
    """Return the figure of each finding, one row per survey; findings that no survey has are omitted."""
    found = [
        {one.key: one for one in [*collect_findings(tables), *_without_massive(tables)]} for tables in surveys
    ]
    keys = [key for key in HEADLINES if any(key in each for each in found)]
    body = []
    for label, each in zip(label_surveys(surveys), found, strict=True):
        cells = [
            escape_markdown(f"{each[key].figure} {each[key].place if key in WITH_LAYER else ''}".strip())
            if key in each
            else UNDEFINED
            for key in keys
        ]
        body.append([escape_markdown(shorten(label)), *cells])
    return render_table(["survey", *(HEADLINES[key] for key in keys)], body)


def _without_massive(tables: Tables) -> list[Finding]:
    """Return the peak of the SVD anisotropy without massive positions, of which a few can cause all of it."""
    top = highest(layer_rows(tables, "without-massive"), "anisotropy_svd")
    if top is None:
        return []
    place = "" if is_vector_survey(tables) else locate(top)
    return [Finding("without-massive", format_number(number(top, "anisotropy_svd")), "", "", place=place)]


def render_steps(series: Tables, population: str) -> str:
    """Return the means over blocks of a few measures, one row per step."""
    curves = {label: average_over_blocks(series, population, column)[0] for column, label in MEASURES.items()}
    columns = {label.removeprefix("the "): curve for label, curve in curves.items() if curve}
    steps = [mean.step for mean in next(iter(columns.values()), [])]
    body = [
        [format_count(step), *(format_aligned(curve[i].value) for curve in columns.values())]
        for i, step in enumerate(steps)
    ]
    return render_table(["step", *columns], body)


def render_extremes(one: Extremes) -> str:
    """Return the units with the highest and lowest M and V of a layer, each with that number."""
    lists = {key: units for key, units in one.lists.items() if units}
    length = max((len(units) for units in lists.values()), default=0)
    body = [
        [_format_unit(units[i], key[0]) if i < len(units) else "" for key, units in lists.items()]
        for i in range(length)
    ]
    return render_table([EXTREMES[key] for key in lists], body, align="left")


def render_table(heads: Sequence[str], body: Sequence[Sequence[str]], align: str = "right") -> str:
    """Return a table whose cells are Markdown already. The first column is always aligned to the left."""
    if not body:
        return ""
    sides = [":--", *(["--:"] if align == "right" else [":--"]) * (len(heads) - 1)]
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, sides, *body[:MOST_ROWS])]
    more = len(body) - MOST_ROWS
    return "\n".join([*lines, *([f"\n… and {pluralize(more, 'row')} more"] if more > 0 else [])])


def _layer_label(row: Row) -> str:
    shown = shorten(layer_name(row))
    number_of = f"{number(row, 'layer'):g}"
    return shown if shown in (f"layer {number_of}", f"block {number_of}") else f"{number_of} {shown}"


def _add_mean_share(row: Row) -> Row:
    whole = number(row, "q")
    return row | {"m_of_q": number(row, "m") / whole if whole > 0 else math.nan}


def _format_value(row: Row, column: str) -> str:
    value = number(row, column)
    return (
        format_count(value)
        if find_column(column).format == "integer" and math.isfinite(value)
        else format_aligned(value)
    )


def _format_unit(unit: Unit, column: str) -> str:
    return f"{token_code(unit.text)} {format_aligned(getattr(unit, column))}"
