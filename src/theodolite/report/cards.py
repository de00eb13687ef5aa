"""The findings of the page: on each survey, on each series, and on several surveys compared."""

from __future__ import annotations

from theodolite.escaping import escape_html, show_token
from theodolite.measures.formula import formulas
from theodolite.report.catalogue import definition_link
from theodolite.report.charts import Chart, Line, draw_svg, layer_chart, legend_marker
from theodolite.report.extremes import list_units
from theodolite.report.findings import Finding, collect_findings, collect_warnings
from theodolite.report.findings.comparison import compare_surveys, comparison_cautions
from theodolite.report.findings.training import average_over_blocks, find_training_changes
from theodolite.report.findings.warnings import warn_too_few
from theodolite.report.sections import FEWEST_GROUPS, select_sections
from theodolite.report.tables import Steps, Tables, population_style, populations
from theodolite.report.vectors import is_vector_survey
from theodolite.text import UNDEFINED, format_aligned, format_count

HEADS = {
    "mean_cosine": "highest mean cosine",
    "anisotropy_svd": "highest SVD anisotropy",
    "makeup": "highest M/Q",
    "tradeoff": "highest R² of V on M",
    "dimension": "effective rank",
    "norms": "median norm, highest / lowest",
}


def render_findings(tables: Tables, place: int, level: int) -> str:
    """Return the findings on a survey and its cautions; `place` is its number on the page."""
    cards = "".join(_survey_card(tables, one, place) for one in collect_findings(tables))
    few = f'<p class="warnings few">{escape_html(text)}</p>' if (text := warn_too_few(tables)) else ""
    none = "<li>No measure is defined, so there are no findings.</li>"
    return (
        f'<section class="part findings"><h{level}>Findings</h{level}>{few}{_render_legend(tables)}'
        f'<ul class="cards">{cards or none}</ul>{_render_groups(tables)}'
        f"{_render_cautions(collect_warnings(tables))}</section>"
    )


def render_series_findings(series: Steps, place: int, level: int) -> str:
    """Return the findings on a series; `place` is its number on the page."""
    tables = series.tables
    cards = "".join(_series_card(tables, one, place) for one in find_training_changes(tables))
    none = "<li>No measure is defined at two or more steps, so there are no findings.</li>"
    return (
        f'<section class="part findings"><h{level}>What changed</h{level}>'
        f'<ul class="cards">{cards or none}</ul></section>'
    )


def render_comparison(surveys: list[Tables]) -> str:
    """Return findings, headline figures and cautions of several surveys compared."""
    beside = any(section.key == "side-by-side" for section in select_sections(surveys))

    def explore(one: Finding) -> str:
        return f'<a href="#side-by-side" data-measure="{escape_html(one.column)}">Explore</a>' if beside else ""

    found = "".join(_render_card(one, explore=explore(one)) for one in compare_surveys(surveys))
    cards = f'<ul class="cards">{found}</ul>' if found else ""
    return f"{cards}{headline_table(surveys)}{_render_cautions(comparison_cautions(surveys))}"


def headline_table(surveys: list[Tables]) -> str:
    """Return the headline figure of each finding as an HTML table, one row per survey."""
    heads = "".join(f'<th scope="col">{name}</th>' for name in HEADS.values())
    rows = "".join(_headline_row(tables) for tables in surveys)
    return (
        '<div class="scroll side" tabindex="0" role="region" aria-label="Headline figures"><table>'
        f'<thead><tr><th scope="col">survey</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _render_groups(tables: Tables) -> str:
    """Return the groups of given vectors as a table, if they are too few for a map."""
    needed = {"population", "unit", "n", "q", "m", "v"}
    if not is_vector_survey(tables) or not 1 < len(tables.units) < FEWEST_GROUPS:
        return ""
    if not needed <= set(tables.tokens.columns):
        return ""
    frame = tables.tokens[tables.tokens["population"] == populations(tables)[0]].sort_values("n", ascending=False)
    rows = "".join(
        f'<tr><th scope="row">{escape_html(show_token(unit.text))}</th><td>{format_count(unit.n)}</td>'
        f"{''.join(f'<td>{format_aligned(value)}</td>' for value in (unit.q, unit.m, unit.v))}</tr>"
        for unit in list_units(tables, frame)
    )
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("group", "vectors", "Q", "M", "V"))
    return (
        '<div class="scroll side narrow" tabindex="0" role="region" aria-label="Groups"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def step_chart(series: Tables, column: str, title: str) -> Chart:
    """Return the mean over layers of the first population as a small chart with evenly spaced steps."""
    known = populations(series)
    curve, _ = average_over_blocks(series, known[0], column)
    line = Line(
        known[0],
        population_style(known[0], known),
        x=tuple(float(i) for i in range(len(curve))),
        y=tuple(one.value for one in curve),
        places=tuple(f"step {format_count(one.step)}" for one in curve),
    )
    names = tuple(format_count(one.step) for one in curve)
    return Chart(column.replace("_", "-"), title, (line,), x_label="training step", x_names=names)


def _survey_card(tables: Tables, one: Finding, place: int) -> str:
    """Return a finding with its chart and a link to the section that shows more of it."""
    drawn = explore = ""
    if one.column and one.column in tables.layers.columns:
        chart = layer_chart(tables, one.column, one.headline)
        # One layer is one point, and the headline figure states it already.
        drawn = draw_svg(chart, f"s{place}-{one.key}") if len(chart.points()) > len(chart.series) else ""
        section = _target_section(tables, one)
        layer = escape_html(one.place.removeprefix("at ").removeprefix("the "))
        explore = (
            f'<a href="#{section}" data-measure="{escape_html(one.column)}" data-survey="{place}" '
            f'data-layer="{layer}">Explore</a>'
            if section
            else ""
        )
    return _render_card(one, drawn, explore)


def _series_card(tables: Tables, one: Finding, place: int) -> str:
    chart = draw_svg(step_chart(tables, one.column, one.headline), f"t{place}-{one.key}")
    explore = f'<a href="#steps" data-measure="{escape_html(one.column)}" data-series="{place}">Explore</a>'
    return _render_card(one, chart, explore)


def _render_card(one: Finding, chart: str = "", explore: str = "") -> str:
    definition = f' <a href="{definition_link(one.formula)}">Definition</a>' if one.formula in formulas() else ""
    return (
        f'<li class="card"><strong class="figure">{escape_html(one.figure)}</strong>'
        f"<b>{escape_html(one.headline)}</b><p>{escape_html(one.text)}</p>{chart}"
        f'<p class="links">{explore}{definition}</p></li>'
    )


def _render_cautions(cautions: list[str]) -> str:
    items = "".join(f"<li>{escape_html(text)}</li>" for text in cautions)
    return f'<ul class="warnings" aria-label="Cautions">{items}</ul>' if items else ""


def _render_legend(tables: Tables) -> str:
    """Return the marker of each population, if there are several."""
    known = populations(tables)
    markers = "".join(
        f"<li>{legend_marker(population_style(name, known))}{escape_html(name)}</li>" for name in known
    )
    return f'<ul class="signs" aria-label="Populations">{markers}</ul>' if len(known) > 1 else ""


def _target_section(tables: Tables, one: Finding) -> str:
    """Return the section that shows a finding, else the profiles; empty if the page has neither."""
    keys = {section.key for section in select_sections([tables])}
    return next((key for key in (one.chart, "profiles") if key in keys), "")


def _headline_row(tables: Tables) -> str:
    known = {one.key: one for one in collect_findings(tables)}
    cells = "".join(
        f'<td title="{escape_html(known[key].headline)}">{escape_html(known[key].figure)}</td>'
        if key in known
        else f"<td>{UNDEFINED}</td>"
        for key in HEADS
    )
    return f'<tr><th scope="row">{escape_html(tables.name)}</th>{cells}</tr>'
