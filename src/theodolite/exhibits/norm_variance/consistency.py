"""consistency: M/Q against the mean cosine and V_W/V against self-similarity. Section 5.3 does not test this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.drawing import captions
from theodolite.exhibits.drawing.axes import mark_empty
from theodolite.exhibits.drawing.captions import FIT_OPTIONS, compose_unit_layers_caption
from theodolite.exhibits.drawing.layer_lines import draw_line, format_layer_axis, has_errors
from theodolite.exhibits.drawing.panels import PAGE_WIDTH, legend_columns, legend_inches, solid_handles
from theodolite.exhibits.drawing.scatter import draw_names, sample_line
from theodolite.exhibits.drawing.style import GREY, PALE, LineStyle, get_line_style
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import CONTEXTUALITY, MODEL, SUMS, UNITS
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.consistency import EQUAL_NORMS, comparable_choices, consistency
from theodolite.studies.survey_data import UNDEFINED_EVERYWHERE, SurveyData, make_labels
from theodolite.text import format_scientific

RATIOS = {"m_of_q": "$M(X)/Q(X)$", "v_within_of_v": "$V_W(X)/V(X)$"}
PANEL_HEIGHT, TEXT_LINE = 2.3, 0.115  # inches: the height of a panel, and of a line of correlations above it
PANEL = (2.55, 1.7)  # approximate size of the axes in inches
NUMBERED, FEWEST_NUMBERED = 9, 3  # layers whose numbers are written: at most, over all models, and per model
CORRELATION_POINTS = 6.0  # font size


class Pair(NamedTuple):
    """A ratio and the cosine it is compared with. `pair` is the prefix of the columns of their correlations."""

    pair: str
    ratio: str
    cosine: str
    label: str


PAIRS = (
    Pair("cosine", "m_of_q", "mean_cosine", "mean cosine"),
    Pair("similarity", "v_within_of_v", "self_similarity", "self-similarity"),
)


@exhibit(
    "norm-variance/consistency",
    title="M/Q against mean cosine and V_W/V against self-similarity, by layer (not in the paper)",
    needs=[MODEL, UNITS, SUMS, CONTEXTUALITY],
    options=(*FIT_OPTIONS[1:], "depth"),
)
def draw_consistency(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw each ratio against its cosine, one point per layer, and below both by layer."""
    names = make_labels(surveys)
    tables = [consistency(survey, choice, name) for survey, name in zip(surveys, names, strict=True)]
    x = "depth" if choice.depth == "normalised" else "layer"

    def draw(figure: FigureBase) -> None:
        above, below = figure.subplots(2, 2)
        for ax, pair in zip(above, PAIRS, strict=True):
            _draw_plane(ax, tables, pair)
        for ax, pair in zip(below, PAIRS, strict=True):
            _draw_layers(ax, tables, pair, x)
        columns = legend_columns(names, PAGE_WIDTH)
        figure.legend(handles=solid_handles(names), loc="outside upper center", ncols=columns)
        figure.legend(handles=_kinds(), loc="outside lower center", ncols=4)

    size = (PAGE_WIDTH, 2 * PANEL_HEIGHT + 0.2 + TEXT_LINE * len(names) + legend_inches(names, PAGE_WIDTH))
    return Plate(pd.concat(tables, ignore_index=True), _caption(surveys, choice, tables), draw, size)


def _draw_plane(ax: Axes, tables: Sequence[pd.DataFrame], pair: Pair) -> None:
    """Draw a ratio against its cosine, layers joined in order and some numbered, with correlations above."""
    anchors: list[tuple[float, float]] = []
    numbers: list[str] = []
    colours: list[str] = []
    paths: list[np.ndarray[Any, Any]] = []
    most = max(FEWEST_NUMBERED, NUMBERED // len(tables))
    for place, table in enumerate(tables):
        line = get_line_style(place)
        _draw_path(ax, table, pair, line)
        known = table[np.isfinite(table[pair.cosine]) & np.isfinite(table[pair.ratio])]
        paths.append(sample_line(known[[pair.cosine, pair.ratio]].to_numpy(np.float64)))
        chosen = known.iloc[_spread(len(known), most)]
        anchors += list(zip(chosen[pair.cosine], chosen[pair.ratio], strict=True))
        numbers += [str(layer) for layer in chosen["layer"]]
        colours += [line.colour] * len(chosen)
        _write_correlations(
            ax,
            format_correlations(table.iloc[0], pair.pair) if len(table) else "no layers",
            line,
            len(tables) - 1 - place,
        )
    ax.set_xlabel(pair.label)
    ax.set_ylabel(RATIOS[pair.ratio])
    ax.margins(0.07)
    _limit(ax, anchors)
    if pair.cosine == "mean_cosine":
        ax.axline((0, 0), slope=1, c=PALE, ls=":", lw=0.9, zorder=0)
    if anchors:
        draw_names(ax, numbers, np.array(anchors), PANEL, np.vstack(paths))
        for text, colour in zip(ax.texts[-len(numbers) :], colours, strict=True):
            text.set_color(colour)
    else:
        mark_empty(ax, UNDEFINED_EVERYWHERE)


def _draw_path(ax: Axes, table: pd.DataFrame, pair: Pair, line: LineStyle) -> None:
    """Draw the layers of one model, stack by stack. The state after a final norm has an open marker."""
    style: dict[str, Any] = {"c": line.colour, "marker": line.marker, "ms": 2.8, "lw": 0.7}
    for _, part in table.groupby("stack", sort=False):
        x, y = (part[column].to_numpy(np.float64) for column in (pair.cosine, pair.ratio))
        bars = [(part[f"{name}_high"] - part[name]).to_numpy(np.float64) for name in (pair.cosine, pair.ratio)]
        half = [np.nan_to_num(bar) for bar in bars]
        look_of: dict[str, Any] = {"fmt": "none", "ecolor": line.colour, "elinewidth": 0.5, "alpha": 0.45}
        ax.errorbar(x, y, half[1], half[0], **look_of, zorder=1)
        ax.plot(x, y, ls="-", **style, zorder=3)
        last = part["layer_name"].str.endswith("final norm").to_numpy(bool)
        ax.plot(x[last], y[last], **style | {"ls": "", "mfc": "white"}, zorder=5)


def _draw_layers(ax: Axes, tables: Sequence[pd.DataFrame], pair: Pair, x: str) -> None:
    """Draw a ratio and its cosine by layer, and V_W/V for the case that all norms are equal."""
    for place, table in enumerate(tables):
        line = get_line_style(place)
        draw_line(ax, table, pair.ratio, line, x=x, ls="-")
        draw_line(ax, table, pair.cosine, line, x=x, ls="--", lw=0.9, ms=2.2)
        if pair.pair == "similarity":
            draw_line(ax, table, EQUAL_NORMS, line, x=x, ls=":", lw=0.9, marker="")
    format_layer_axis(ax, tables, pair.ratio, x)
    ax.set_ylabel(f"{RATIOS[pair.ratio]}, {pair.label}")
    values = [table[column].to_numpy(np.float64) for table in tables for column in (pair.ratio, pair.cosine)]
    known = np.concatenate([[0.0, 0.1], *(each[np.isfinite(each)] for each in values)])
    ax.set_ylim(known.min() - 0.02, known.max() + 0.02)


def format_correlations(row: Mapping[str, Any] | pd.Series, pair: str) -> str:
    """Return both correlations with their p-values, or why there are none."""
    if row[f"{pair}_undefined"]:
        return f"no correlation: {row[f'{pair}_undefined']}"
    found = (
        f"{sign} {row[f'{pair}_{test}']:.2f} ($p$ {format_scientific(row[f'{pair}_{test}_p'], 2)}; "
        f"shifts {format_scientific(row[f'{pair}_{test}_shift_p'], 2)})"
        for sign, test in (("$r$", "pearson"), ("$ρ$", "spearman"))
    )
    return ",  ".join(found).replace("-", "−")


def _write_correlations(ax: Axes, words: str, line: LineStyle, above: int) -> None:
    """Write the correlations of one model above the panel in its colour, `above` lines up."""
    place: dict[str, Any] = {
        "xytext": (0, 4 + 72 * TEXT_LINE * above),
        "textcoords": "offset points",
        "va": "bottom",
    }
    ax.annotate(words, (0.0, 1.0), xycoords="axes fraction", fontsize=CORRELATION_POINTS, c=line.colour, **place)


def _limit(ax: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Limit the axes so that error bars much longer than the range of the points do not flatten them."""
    if not points:
        return
    values = np.array(points)
    low, high = values.min(axis=0), values.max(axis=0)
    reach = np.where(high > low, high - low, 0.1)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    ax.set_xlim(max(left, low[0] - reach[0]), min(right, high[0] + reach[0]))
    ax.set_ylim(max(bottom, low[1] - reach[1]), min(top, high[1] + reach[1]))


def _spread(count: int, most: int) -> list[int]:
    """Return which of `count` layers are numbered: the first, the last, and evenly spaced ones between."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, most))})


def _kinds() -> list[Line2D]:
    styles = {
        "ratio": ("-", 1.1),
        "cosine": ("--", 0.9),
        "if all norms are equal": (":", 0.9),
    }
    return [Line2D([], [], c=GREY, ls=dash, lw=wide, label=name) for name, (dash, wide) in styles.items()]


def _caption(surveys: Sequence[SurveyData], choice: Choice, tables: Sequence[pd.DataFrame]) -> str:
    means, units = comparable_choices(choice)
    columns = [column for pair in PAIRS for column in (pair.ratio, pair.cosine)]
    of = " (of M/Q and V_W/V: of the biased estimates)" if choice.variant == "unbiased" else ""
    return compose_unit_layers_caption(
        surveys,
        choice,
        tables,
        "Top: M/Q against the mean cosine C, and V_W/V against self-similarity S, one point per layer, joined in "
        "the order of layers. Bottom: the same by layer. Section 5.3 of the paper calls them consistent but does "
        "not test it: if so, the left rises and the right falls. Dotted: if all norms are equal, M/Q = C and "
        "V_W/V ≈ (1 − S)/(1 − C). r: Pearson, ρ: Spearman, over layers. p assumes independent layers and is "
        "exact for at most ten; “shifts” is the share of circular shifts of one series that correlate at least as "
        "strongly, and at least 1/layers.",
        captions.describe_fit_units(surveys, means, "M/Q is computed over", summed=True),
        "The mean cosine is computed over all positions of the population.",
        captions.describe_fit_units(surveys, units, "V_W/V is computed over", summed=True),
        "Self-similarity is the mean over units with n ≥ 5 that are not special.",
        f"Bars and strips: ±1.96 standard errors{of}." if any(has_errors(tables, one) for one in columns) else "",
    )
