"""consistency: M/Q against the mean cosine and V_W/V against self-similarity, which section 5.3 does not test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.depth_lines import draw_line, finish, has_errors
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import legend_columns, legend_inches
from theodolite.exhibits.name_places import draw_names
from theodolite.exhibits.needs import CONTEXTUALITY, MODEL, SUMS, UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.panels import FITTED, WIDE, layer_caption
from theodolite.exhibits.note import UNDEFINED, empty
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import GREY, PALE, Look, look
from theodolite.exhibits.text import number, plain
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.consistency import EQUAL_NORMS, comparable, consistency
from theodolite.studies.surveyed import Surveyed, labels

RATIOS = {"m_of_q": "$M(X)/Q(X)$", "v_within_of_v": "$V_W(X)/V(X)$"}
HIGH, LINE = 2.3, 0.115  # inches: a panel, and a line of numbers above it
PANEL = (2.9, 1.75)  # inches inside the axes, about
NUMBERED = 9  # layers of a model that are numbered, at the most
STATED = 6.0  # points


class Pair(NamedTuple):
    """A ratio and the cosine that it is held against; `pair` begins the names of their correlations."""

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
    title="M/Q against mean cosine and V_W/V against self-similarity, by layer (beyond the paper)",
    needs=[MODEL, UNITS, SUMS, CONTEXTUALITY],
    options=(*FITTED[1:], "depth"),
)
def consistent(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw each ratio against its cosine, a point a layer, and below both by layer."""
    names = labels(surveys)
    tables = [consistency(survey, choice, name) for survey, name in zip(surveys, names, strict=True)]
    x = "depth" if choice.depth == "normalised" else "layer"

    def draw(figure: FigureBase) -> None:
        above, below = figure.subplots(2, 2)
        for ax, pair in zip(above, PAIRS, strict=True):
            _draw_plane(ax, tables, pair)
        for ax, pair in zip(below, PAIRS, strict=True):
            _draw_layers(ax, tables, pair, x)
        wide = legend_columns(names, WIDE)
        figure.legend(handles=_models(names), loc="outside upper center", ncols=wide)
        figure.legend(handles=_kinds(), loc="outside lower center", ncols=4)

    size = (WIDE, 2 * HIGH + 0.2 + LINE * len(names) + legend_inches(names, WIDE))
    return Plate(pd.concat(tables, ignore_index=True), _caption(surveys, choice, tables), draw, size)


def _draw_plane(ax: Axes, tables: Sequence[pd.DataFrame], pair: Pair) -> None:
    """Draw a ratio on its cosine, layers joined in their order and some numbered; their correlation above."""
    anchors: list[tuple[float, float]] = []
    numbers: list[str] = []
    colours: list[str] = []
    for place, table in enumerate(tables):
        line = look(place)
        _draw_path(ax, table, pair, line)
        known = table[np.isfinite(table[pair.cosine]) & np.isfinite(table[pair.ratio])]
        chosen = known.iloc[_spread(len(known))]
        anchors += list(zip(chosen[pair.cosine], chosen[pair.ratio], strict=True))
        numbers += [str(layer) for layer in chosen["layer"]]
        colours += [line.colour] * len(chosen)
        _state(ax, told(table.iloc[0], pair.pair) if len(table) else "no layers", line, len(tables) - 1 - place)
    ax.set_xlabel(pair.label)
    ax.set_ylabel(RATIOS[pair.ratio])
    ax.margins(0.07)
    _limit(ax, anchors)
    if pair.cosine == "mean_cosine":
        ax.axline((0, 0), slope=1, c=PALE, ls=":", lw=0.9, zorder=0)
    if anchors:
        draw_names(ax, numbers, np.array(anchors), PANEL)
        for text, colour in zip(ax.texts[-len(numbers) :], colours, strict=True):
            text.set_color(colour)
    else:
        empty(ax, UNDEFINED)


def _draw_path(ax: Axes, table: pd.DataFrame, pair: Pair, line: Look) -> None:
    """Draw one model's layers, a stack at a time; the state after a final norm is an open marker."""
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
    """Draw a ratio and its cosine by layer, and V_W/V as it would be if all norms were equal."""
    for place, table in enumerate(tables):
        line = look(place)
        draw_line(ax, table, pair.ratio, line, x=x, ls="-")
        draw_line(ax, table, pair.cosine, line, x=x, ls="--", lw=0.9, ms=2.2)
        if pair.pair == "similarity":
            draw_line(ax, table, EQUAL_NORMS, line, x=x, ls=":", lw=0.9, marker="")
    finish(ax, tables, pair.ratio, x)
    ax.set_ylabel(f"{RATIOS[pair.ratio]}, {pair.label}")
    values = [table[column].to_numpy(np.float64) for table in tables for column in (pair.ratio, pair.cosine)]
    known = np.concatenate([[0.0, 0.1], *(each[np.isfinite(each)] for each in values)])
    ax.set_ylim(known.min() - 0.02, known.max() + 0.02)


def told(row: Mapping[str, Any] | pd.Series, pair: str) -> str:
    """Return both correlations with their p-values, or why there are none."""
    if row[f"{pair}_undefined"]:
        return f"no correlation: {row[f'{pair}_undefined']}"
    found = (
        f"{sign} {row[f'{pair}_{test}']:.2f} ($p$ {number(row[f'{pair}_{test}_p'], 2)}; "
        f"shifts {number(row[f'{pair}_{test}_shift_p'], 2)})"
        for sign, test in (("$r$", "pearson"), ("$ρ$", "spearman"))
    )
    return ",  ".join(found).replace("-", "−")


def _state(ax: Axes, words: str, line: Look, above: int) -> None:
    """Write one model's correlations over the panel, in its colour, so many lines up."""
    where: dict[str, Any] = {"xytext": (0, 4 + 72 * LINE * above), "textcoords": "offset points", "va": "bottom"}
    ax.annotate(words, (0.0, 1.0), xycoords="axes fraction", fontsize=STATED, c=line.colour, **where)


def _limit(ax: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Keep error bars much longer than all paths together from flattening them."""
    if not points:
        return
    values = np.array(points)
    low, high = values.min(axis=0), values.max(axis=0)
    reach = np.where(high > low, high - low, 0.1)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    ax.set_xlim(max(left, low[0] - reach[0]), min(right, high[0] + reach[0]))
    ax.set_ylim(max(bottom, low[1] - reach[1]), min(top, high[1] + reach[1]))


def _spread(count: int) -> list[int]:
    """Return which of so many layers are numbered: first, last and evenly between."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, NUMBERED))})


def _models(names: Sequence[str]) -> list[Line2D]:
    looks = [look(place) for place in range(len(names))]
    return [
        Line2D([], [], c=line.colour, marker=line.marker, ms=3.5, lw=1.1, label=plain(name))
        for line, name in zip(looks, names, strict=True)
    ]


def _kinds() -> list[Line2D]:
    styles = {
        "ratio": ("-", 1.1),
        "cosine": ("--", 0.9),
        "if all norms were equal": (":", 0.9),
    }
    return [Line2D([], [], c=GREY, ls=dash, lw=wide, label=name) for name, (dash, wide) in styles.items()]


def _caption(surveys: Sequence[Surveyed], choice: Choice, tables: Sequence[pd.DataFrame]) -> str:
    means, units = comparable(choice)
    columns = [column for pair in PAIRS for column in (pair.ratio, pair.cosine)]
    of = " (of M/Q and V_W/V: of the biased numbers)" if choice.variant == "unbiased" else ""
    return layer_caption(
        surveys,
        choice,
        tables,
        "Above: M/Q against mean cosine C and V_W/V against self-similarity S, a point a layer, joined in the "
        "order of layers, some numbered; below: the same by layer. Beyond the paper, whose section 5.3 calls them "
        "consistent: the left should rise, the right fall. Dotted: where all norms were equal, M/Q = C and V_W/V "
        "is about (1 − S)/(1 − C). r: Pearson, ρ: Spearman, over the layers drawn; p takes layers for "
        "independent, “shifts” is the share of circular shifts of one series that correlate as strongly, at "
        "least 1/layers.",
        captions.in_fits(surveys, means, "M/Q is over"),
        "The mean cosine is over every position of the population.",
        captions.in_fits(surveys, units, "V_W/V is over"),
        "Self-similarity is over units with n ≥ 5 that are not special, each counting once.",
        f"Bars and strips: ±1.96 standard errors{of}." if any(has_errors(tables, one) for one in columns) else "",
    )
