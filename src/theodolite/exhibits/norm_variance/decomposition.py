"""fig5, fig6 and fig18 to fig20: Q(X) split into M(X), V_W(X) and V_B(X), by layer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing import captions
from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.bars import draw_bar_legend, draw_stacked_bars
from theodolite.exhibits.drawing.captions import FIT_OPTIONS, compose_unit_layers_caption
from theodolite.exhibits.drawing.layer_lines import choose_right_axis, draw_profiles, has_final_norm
from theodolite.exhibits.drawing.panels import by_layer_size, draw_legend, make_panels, panels_size
from theodolite.exhibits.empty_surveys import describe_empty_units, explain_too_few
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import SUMS, UNITS
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.profile import profile
from theodolite.studies.survey_data import UNDEFINED_EVERYWHERE, SurveyData, make_labels

PARTS = {"m_of_q": "$M(X)/Q(X)$", "v_within_of_q": "$V_W(X)/Q(X)$", "v_between_of_q": "$V_B(X)/Q(X)$"}
SHARES = {
    "m_of_q": "$M(X)/Q(X)$",
    "v_of_q": "$V(X)/Q(X)$",
    "v_within_of_q": "$V_W(X)/Q(X)$",
    "v_between_of_q": "$V_B(X)/Q(X)$",
}
VALUES = {"q": "$Q(X)$", "m": "$M(X)$", "v": "$V(X)$"}
SPREADS = {"v_within": "$V_W(X)$", "v_between": "$V_B(X)$"}
REACH = 1.96  # standard errors on either side
CUT = "Strip, cut off at the edge of the panel"


@exhibit(
    "norm-variance/fig5",
    title="M/Q, V_W/Q and V_B/Q by layer, stacked",
    needs=[UNITS, SUMS],
    options=FIT_OPTIONS[1:],
)
def fig5(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw M(X)/Q(X), V_W(X)/Q(X) and V_B(X)/Q(X) as stacked bars, one panel per model."""
    tables, names = _profiles(surveys, choice), make_labels(surveys)
    _describe_empty(surveys, choice, tables, PARTS)
    reasons = [explain_too_few(survey, choice) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        for ax, name, table, reason in zip(make_panels(figure, len(surveys)), names, tables, reasons, strict=True):
            halves = table.assign(**{f"{part}_half": REACH * table[f"{part}_se"] for part in PARTS})
            draw_stacked_bars(ax, halves, PARTS, error="_half", reason=reason or UNDEFINED_EVERYWHERE)
            ax.set_title(clean_label(name, 34))
            ax.set_xlabel("layer")
        draw_bar_legend(figure, list(PARTS.values()))

    final = "The last bar of a model with a final norm is the state after it." if has_final_norm(tables) else ""
    where = "Thin bars, in the middle for M(X)/Q(X), on the left for V_W(X)/Q(X) and on the right for V_B(X)/Q(X)"
    bars = captions.describe_sum_errors(surveys, choice, where)
    caption = _caption(surveys, choice, [], "M(X), V_W(X) and V_B(X) as shares of Q(X), by layer.", bars, final)
    return Plate(_concat(tables), caption, draw, panels_size(len(surveys), height=1.9, legend=0.25))


@exhibit("norm-variance/fig6", title="V_W/V by layer", needs=[UNITS, SUMS], options=FIT_OPTIONS[1:])
def fig6(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw V_W(X)/V(X) by layer, one line per model."""
    tables, names = _profiles(surveys, choice), make_labels(surveys)
    not_drawn = _describe_empty(surveys, choice, tables, ["v_within_of_v"])

    def draw(figure: FigureBase) -> None:
        ax = figure.subplots()
        _draw(ax, tables, "v_within_of_v")
        ax.set_ylabel("$V_W(X)/V(X)$")
        ax.set_ylim(-0.02, 1.02)
        draw_legend(figure, names, width=4.6)

    first = "V_W(X)/V(X), the share of V(X) within units, by layer."
    caption = _caption(surveys, choice, tables, first, captions.describe_sum_errors(surveys, choice), not_drawn)
    return Plate(_concat(tables), caption, draw, by_layer_size(names, 4.6, 2.5))


@exhibit(
    "norm-variance/fig18", title="M, V, V_W and V_B over Q by layer", needs=[UNITS, SUMS], options=FIT_OPTIONS[1:]
)
def fig18(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw M(X), V(X), V_W(X) and V_B(X) over Q(X) by layer, one line per model."""
    tables, names = _profiles(surveys, choice), make_labels(surveys)
    not_drawn = _describe_empty(surveys, choice, tables, SHARES)

    def draw(figure: FigureBase) -> None:
        for ax, (column, label) in zip(figure.subplots(1, 4, sharey=True), SHARES.items(), strict=True):
            _draw(ax, tables, column)
            ax.set_title(label)
            ax.set_ylim(-0.02, 1.02)
        draw_legend(figure, names)

    first = "M(X), V(X), V_W(X) and V_B(X) as shares of Q(X), by layer."
    caption = _caption(surveys, choice, tables, first, captions.describe_sum_errors(surveys, choice), not_drawn)
    return Plate(_concat(tables), caption, draw, by_layer_size(names, height=2.1))


@exhibit(
    "norm-variance/fig19", title="Q, M and V of all vectors by layer", needs=[UNITS, SUMS], options=FIT_OPTIONS[1:]
)
def fig19(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw Q(X), M(X) and V(X) by layer. Models of a different scale use a second axis."""
    tables, names = _profiles(surveys, choice), make_labels(surveys)
    not_drawn = _describe_empty(surveys, choice, tables, VALUES)
    right = choose_right_axis(tables, "q")

    def draw(figure: FigureBase) -> None:
        for ax, (column, label) in zip(figure.subplots(1, 3), VALUES.items(), strict=True):
            _draw(ax, tables, column, right)
            ax.set_title(label)
        draw_legend(figure, names, right)

    strip = captions.describe_sum_errors(surveys, choice, CUT)
    caption = _caption(surveys, choice, tables, "Q(X), M(X) and V(X) by layer.", strip, not_drawn)
    return Plate(_concat(tables), caption, draw, by_layer_size(names))


@exhibit("norm-variance/fig20", title="V_W, V_B and V_B/V by layer", needs=[UNITS, SUMS], options=FIT_OPTIONS[1:])
def fig20(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw V_W(X), V_B(X) and V_B(X)/V(X) by layer. Models of a different scale use a second axis."""
    tables, names = _profiles(surveys, choice), make_labels(surveys)
    not_drawn = _describe_empty(surveys, choice, tables, [*SPREADS, "v_between_of_v"])
    right = choose_right_axis(tables, "v")

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, 3)
        for ax, (column, label) in zip(axes[:2], SPREADS.items(), strict=True):
            _draw(ax, tables, column, right)
            ax.set_title(label)
        _draw(axes[2], tables, "v_between_of_v")
        axes[2].set_title("$V_B(X)/V(X)$")
        axes[2].set_ylim(-0.02, 1.02)
        draw_legend(figure, names, right)

    axis_note = "Only V_W and V_B use the right axis." if right else ""
    strip = captions.describe_sum_errors(surveys, choice, CUT)
    caption = _caption(
        surveys, choice, tables, "V_W(X), V_B(X) and V_B(X)/V(X) by layer.", strip, axis_note, not_drawn
    )
    return Plate(_concat(tables), caption, draw, by_layer_size(names))


def _describe_empty(
    surveys: Sequence[SurveyData], choice: Choice, tables: Sequence[pd.DataFrame], columns: Iterable[str]
) -> str:
    return describe_empty_units(surveys, choice.with_filter(), tables, list(columns), of_all=1)


def _profiles(surveys: Sequence[SurveyData], choice: Choice) -> list[pd.DataFrame]:
    return [
        add_survey_column(profile(s, choice.with_filter()), name)
        for s, name in zip(surveys, make_labels(surveys), strict=True)
    ]


def _draw(ax: Axes, tables: Sequence[pd.DataFrame], column: str, right: Collection[int] | None = None) -> None:
    """Draw a column with a strip of errors. With `right`, which can be empty, the axis starts at 0."""
    strips = [
        table.assign(
            **{
                f"{column}_low": table[column] - REACH * table[f"{column}_se"],
                f"{column}_high": table[column] + REACH * table[f"{column}_se"],
            }
        )
        for table in tables
    ]
    draw_profiles(ax, strips, column, right=right or (), from_zero=right is not None)


def _concat(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True)


def _caption(
    surveys: Sequence[SurveyData], choice: Choice, tables: Sequence[pd.DataFrame], first: str, *sentences: str
) -> str:
    return compose_unit_layers_caption(
        surveys,
        choice,
        tables,
        first,
        captions.describe_fit_units(surveys, choice.with_filter(), "Computed over", summed=True),
        *sentences,
    )
