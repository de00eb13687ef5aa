"""fig5, fig6, fig18, fig19, fig20: what Q is made of, by layer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import draw_layers, draw_legend, has_final_norm, right_axis
from theodolite.exhibits.needs import SUMS, UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.few_units import too_few, undrawn_units
from theodolite.exhibits.norm_variance.panels import (
    FITTED,
    by_layer_size,
    layer_caption,
    named,
    panels,
    panels_size,
)
from theodolite.exhibits.note import UNDEFINED
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.stacks import draw_parts_legend, draw_stack
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.profile import profile
from theodolite.studies.surveyed import Surveyed, labels

PARTS = {"m_of_q": "$M(X)/Q(X)$", "v_within_of_q": "$V_W(X)/Q(X)$", "v_between_of_q": "$V_B(X)/Q(X)$"}
SHARES = {
    "m_of_q": "$M(X)/Q(X)$",
    "v_of_q": "$V(X)/Q(X)$",
    "v_within_of_q": "$V_W(X)/Q(X)$",
    "v_between_of_q": "$V_B(X)/Q(X)$",
}
VALUES = {"q": "$Q(X)$", "m": "$M(X)$", "v": "$V(X)$"}
SPREADS = {"v_within": "$V_W(X)$", "v_between": "$V_B(X)$"}
REACH = 1.96  # standard errors, to either side
CUT = "Strip, cut at the panel's edge"


@exhibit(
    "norm-variance/fig5", title="M/Q, V_W/Q and V_B/Q by layer, stacked", needs=[UNITS, SUMS], options=FITTED[1:]
)
def fig5(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw M(X), V_W(X) and V_B(X) over Q(X) as stacked bars, a panel a model."""
    tables, names = _profiles(surveys, choice), labels(surveys)
    _undrawn(surveys, choice, tables, PARTS)
    whys = [too_few(survey, choice) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        for ax, name, table, why in zip(panels(figure, len(surveys)), names, tables, whys, strict=True):
            half = table.assign(half=REACH * table["m_of_q_se"])
            draw_stack(ax, half, PARTS, error="half", why=why or UNDEFINED)
            ax.set_title(plain(name, 34))
            ax.set_xlabel("layer")
        draw_parts_legend(figure, list(PARTS.values()))

    final = (
        "The last bar is the state after the final norm, where a model has one." if has_final_norm(tables) else ""
    )
    bars = captions.errors_of_sums(surveys, choice, ["m_of_q"], "Thin bars on M(X)/Q(X)")
    told = _caption(surveys, choice, [], "M(X), V_W(X) and V_B(X) as shares of Q(X), for each layer.", bars, final)
    return Plate(_all(tables), told, draw, panels_size(len(surveys), height=1.9, legend=0.25))


@exhibit("norm-variance/fig6", title="V_W/V by layer", needs=[UNITS, SUMS], options=FITTED[1:])
def fig6(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw V_W(X)/V(X) for each layer of all models."""
    tables, names = _profiles(surveys, choice), labels(surveys)
    lacking = _undrawn(surveys, choice, tables, ["v_within_of_v"])

    def draw(figure: FigureBase) -> None:
        ax = figure.subplots()
        _draw(ax, tables, "v_within_of_v")
        ax.set_ylabel("$V_W(X)/V(X)$")
        ax.set_ylim(-0.02, 1.02)
        draw_legend(figure, names, width=4.6)

    first = "The share of V(X) that is within units, V_W(X)/V(X), for each layer."
    told = _caption(
        surveys, choice, tables, first, captions.errors_of_sums(surveys, choice, ["v_within_of_v"]), lacking
    )
    return Plate(_all(tables), told, draw, by_layer_size(names, 4.6, 2.5))


@exhibit("norm-variance/fig18", title="M, V, V_W and V_B over Q by layer", needs=[UNITS, SUMS], options=FITTED[1:])
def fig18(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw M(X), V(X), V_W(X) and V_B(X) over Q(X) for each layer of all models."""
    tables, names = _profiles(surveys, choice), labels(surveys)
    lacking = _undrawn(surveys, choice, tables, SHARES)

    def draw(figure: FigureBase) -> None:
        for ax, (column, label) in zip(figure.subplots(1, 4, sharey=True), SHARES.items(), strict=True):
            _draw(ax, tables, column)
            ax.set_title(label)
            ax.set_ylim(-0.02, 1.02)
        draw_legend(figure, names)

    first = "M(X), V(X), V_W(X) and V_B(X) as shares of Q(X), for each layer."
    told = _caption(surveys, choice, tables, first, captions.errors_of_sums(surveys, choice, SHARES), lacking)
    return Plate(_all(tables), told, draw, by_layer_size(names, height=2.1))


@exhibit("norm-variance/fig19", title="Q, M and V of everything by layer", needs=[UNITS, SUMS], options=FITTED[1:])
def fig19(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw Q(X), M(X) and V(X) for each layer; models of another scale on a second axis."""
    tables, names = _profiles(surveys, choice), labels(surveys)
    lacking = _undrawn(surveys, choice, tables, VALUES)
    right = right_axis(tables, "q")

    def draw(figure: FigureBase) -> None:
        for ax, (column, label) in zip(figure.subplots(1, 3), VALUES.items(), strict=True):
            _draw(ax, tables, column, right)
            ax.set_title(label)
        draw_legend(figure, names, right)

    strip = captions.errors_of_sums(surveys, choice, VALUES, CUT)
    told = _caption(surveys, choice, tables, "Q(X), M(X) and V(X) for each layer.", strip, lacking)
    return Plate(_all(tables), told, draw, by_layer_size(names))


@exhibit("norm-variance/fig20", title="V_W, V_B and V_B/V by layer", needs=[UNITS, SUMS], options=FITTED[1:])
def fig20(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw V_W(X), V_B(X) and V_B(X)/V(X) for each layer; models of another scale on a second axis."""
    tables, names = _profiles(surveys, choice), labels(surveys)
    lacking = _undrawn(surveys, choice, tables, [*SPREADS, "v_between_of_v"])
    right = right_axis(tables, "v")

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, 3)
        for ax, (column, label) in zip(axes[:2], SPREADS.items(), strict=True):
            _draw(ax, tables, column, right)
            ax.set_title(label)
        _draw(axes[2], tables, "v_between_of_v")
        axes[2].set_title("$V_B(X)/V(X)$")
        axes[2].set_ylim(-0.02, 1.02)
        draw_legend(figure, names, right)

    where = "The right axis is for V_W and V_B alone." if right else ""
    strip = captions.errors_of_sums(surveys, choice, [*SPREADS, "v_between_of_v"], CUT)
    told = _caption(
        surveys, choice, tables, "V_W(X), V_B(X) and V_B(X)/V(X) for each layer.", strip, where, lacking
    )
    return Plate(_all(tables), told, draw, by_layer_size(names))


def _undrawn(
    surveys: Sequence[Surveyed], choice: Choice, tables: Sequence[pd.DataFrame], columns: Iterable[str]
) -> str:
    return undrawn_units(surveys, choice.filtered(), tables, list(columns), of_all=1)


def _profiles(surveys: Sequence[Surveyed], choice: Choice) -> list[pd.DataFrame]:
    return [named(profile(s, choice.filtered()), name) for s, name in zip(surveys, labels(surveys), strict=True)]


def _draw(ax: Axes, tables: Sequence[pd.DataFrame], column: str, right: Collection[int] | None = None) -> None:
    """Draw a column with its strip; one that has a scale, and so perhaps a `right` axis, from 0."""
    strips = [
        table.assign(
            low=table[column] - REACH * table[f"{column}_se"], high=table[column] + REACH * table[f"{column}_se"]
        )
        for table in tables
    ]
    draw_layers(ax, strips, column, right=right or (), band=("low", "high"), from_zero=right is not None)


def _all(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True)


def _caption(
    surveys: Sequence[Surveyed], choice: Choice, tables: Sequence[pd.DataFrame], first: str, *rest: str
) -> str:
    return layer_caption(
        surveys, choice, tables, first, captions.in_fits(surveys, choice.filtered(), "Over"), *rest
    )
