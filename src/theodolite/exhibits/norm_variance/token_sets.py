"""fig1, fig8 and table2: the vectors of chosen tokens, and V on M with these tokens named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import FigureBase
from numpy.typing import NDArray

from theodolite.exhibits.drawing import captions
from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import FIT_OPTIONS, M, V, compose_fit_caption, join_sentences
from theodolite.exhibits.drawing.panels import PAGE_WIDTH
from theodolite.exhibits.drawing.scatter import (
    FREQUENCY_COLOURS,
    RASTER_FROM,
    draw_frequency_bar,
    draw_names,
    draw_scatter,
    find_inside,
    make_frequency_scale,
    write_outside_count,
)
from theodolite.exhibits.drawing.style import BLACK, VERMILLION
from theodolite.exhibits.drawing.tables import make_table_plate
from theodolite.exhibits.empty_surveys import describe_filter
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import TOKEN_SETS, UNITS
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice, default_population
from theodolite.studies.norm_variance.fits import fit_units
from theodolite.studies.norm_variance.token_set_files import TokenSetTables, get_token_sets
from theodolite.studies.norm_variance.units import select_units
from theodolite.studies.survey_data import SurveyData, make_labels
from theodolite.text import POPULATION_LABELS, format_scientific

SETS_WIDTH, SETS_HEIGHTS = 5.45, (2.2, 5.0)  # approximate width of the axes of a panel, and the range of heights
SETS_MARGIN = 0.7  # inches above and below the axes, for the title and the label
CROSS_POINTS = 9.0  # size of the mark at the origin
REACH = 0.6  # how far the axes may extend beyond nearly all points, as a multiple of their range


@exhibit(
    "norm-variance/fig1",
    title="PCA of the vectors of chosen tokens",
    needs=[UNITS, TOKEN_SETS],
    reads=("token_sets",),
)
def fig1(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the vectors of each chosen token, coloured by its frequency, and the origin as a cross."""
    sets, names = [get_token_sets(survey) for survey in surveys], make_labels(surveys)
    every = np.concatenate([found.chosen["log10_n"].to_numpy(np.float64) for found in sets])
    scale = Normalize(float(every.min()), float(every.max()))
    heights = [SETS_MARGIN + _choose_frame(found)[2] for found in sets]

    def draw(figure: FigureBase) -> None:
        axes = list(figure.subplots(len(sets), 1, squeeze=False, height_ratios=heights).ravel())
        for ax, name, found in zip(axes, names, sets, strict=True):
            draw_sets(ax, found, scale)
            ax.set_title(f"{clean_label(name)}, layer {found.layer}")
        draw_frequency_bar(figure, axes, scale)

    data = pd.concat(
        [add_survey_column(_data(found), name) for name, found in zip(names, sets, strict=True)], ignore_index=True
    )
    return Plate(data, _caption(surveys, sets), draw, (PAGE_WIDTH, sum(heights)))


def draw_sets(ax: Axes, found: TokenSetTables, scale: Normalize) -> None:
    """Draw the vectors of one survey on axes of one scale, the origin, and the mean and name of each token."""
    places, chosen = found.places, found.chosen
    x, y = places["x"].to_numpy(np.float64), places["y"].to_numpy(np.float64)
    style: dict[str, Any] = {"cmap": FREQUENCY_COLOURS, "norm": scale}
    ax.scatter(
        x, y, c=places["log10_n"], s=5, alpha=0.45, linewidths=0, rasterized=len(places) > RASTER_FROM, **style
    )
    ax.scatter(
        chosen["x"], chosen["y"], c=chosen["log10_n"], s=16, edgecolors=BLACK, linewidths=0.5, zorder=5, **style
    )
    ax.plot([0], [0], ls="", marker="x", ms=CROSS_POINTS, mew=2.2, c=VERMILLION, zorder=6)
    across, up, height = _choose_frame(found)
    ax.set_xlim(*across)
    ax.set_ylim(*up)
    ax.set_aspect("equal")
    write_outside_count(ax, int((~find_inside(ax, places, "x", "y")).sum()))
    first, second = found.facts["share"]
    ax.set_xlabel(f"PC1 ({first:.0%})")
    ax.set_ylabel(f"PC2 ({second:.0%})")
    shorten_ticks(ax)
    means = chosen[["x", "y"]].to_numpy(np.float64)
    draw_names(ax, chosen["name"].tolist(), means, (SETS_WIDTH, height), _sample_cross(across))


def _sample_cross(across: tuple[float, float]) -> NDArray[np.float64]:
    """Return points on the cross at the origin, which no name may cover."""
    arm = CROSS_POINTS / 2 / (72 * SETS_WIDTH) * (across[1] - across[0]) * np.linspace(-1, 1, 5)
    return np.vstack([np.stack([arm, arm], axis=1), np.stack([arm, -arm], axis=1)])


def _choose_frame(found: TokenSetTables) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Return the limits of both axes, and the height in inches at which they have the same scale."""
    places, chosen = found.places, found.chosen
    across, up = (_limits(places[name].to_numpy(np.float64), chosen[name].to_numpy(np.float64)) for name in "xy")
    wide, high = np.ptp(across), np.ptp(up)
    height = float(np.clip(SETS_WIDTH * high / wide, *SETS_HEIGHTS))
    across = _widen(across, SETS_WIDTH / height * high)
    return across, _widen(up, height / SETS_WIDTH * wide), height


def _widen(limits: tuple[float, float], reach: float) -> tuple[float, float]:
    """Return limits that are at least `reach` apart, around the same middle."""
    more = max(0.0, reach - (limits[1] - limits[0])) / 2
    return limits[0] - more, limits[1] + more


def _limits(values: NDArray[np.float64], means: NDArray[np.float64]) -> tuple[float, float]:
    """Return limits that show every mean, the origin and nearly all points, even if one vector is massive."""
    core = np.concatenate([np.quantile(values, [0.01, 0.99]), means, [0.0]])
    low, high = float(core.min()), float(core.max())
    reach = (high - low) or 1.0
    low, high = max(float(values.min()), low - REACH * reach), min(float(values.max()), high + REACH * reach)
    low, high = min(low, float(core.min())), max(high, float(core.max()))
    return low - 0.04 * reach, high + 0.04 * reach


def _data(found: TokenSetTables) -> pd.DataFrame:
    table = found.places.assign(unit=found.chosen["unit"].to_numpy()[found.places["token"].to_numpy()])
    return table.assign(layer=found.layer)[["layer", "unit", "log10_n", "x", "y"]]


def _caption(surveys: Sequence[SurveyData], sets: Sequence[TokenSetTables]) -> str:
    most = max(int(found.facts["most"]) for found in sets)
    return join_sentences(
        "Vectors Xₜ of chosen tokens on the first two principal components of their means and the origin (in "
        "brackets: share of variance), coloured by frequency. Cross: the origin. Ringed and named: the means.",
        captions.describe_corpora(surveys),
        captions.describe_units(surveys),
        describe_selection(sets),
        describe_positions(surveys, sets),
        f"At most {most:,} vectors per token are drawn, selected by hash. Means are over all vectors.",
    )


def describe_positions(surveys: Sequence[SurveyData], sets: Sequence[TokenSetTables]) -> str:
    """State which positions the vectors come from, for each model if they differ."""
    positions = {
        name: POPULATION_LABELS[found.population] for name, found in zip(make_labels(surveys), sets, strict=True)
    }
    if len(set(positions.values())) == 1:
        return f"Vectors: {next(iter(positions.values()))}."
    return f"Vectors: {'; '.join(f'{what} in {name}' for name, what in positions.items())}."


def describe_selection(sets: Sequence[TokenSetTables]) -> str:
    """State how the tokens were chosen."""
    if any(found.facts["by_hand"] for found in sets):
        return "The tokens were chosen by hand." if all(found.facts["by_hand"] for found in sets) else ""
    seeds = dict.fromkeys(int(found.facts["seed"]) for found in sets)
    return (
        f"Tokens: sampled from ten equal intervals of log₁₀ n among those of three characters or more with "
        f"{captions.RANGE} (seed {', '.join(map(str, seeds))})."
    )


SCATTER_HEIGHT = 4.0
SCATTER_INCHES = (5.6, 3.2)  # approximate size of the axes of a panel


@exhibit(
    "norm-variance/fig8",
    title="V on M with the names of the chosen tokens",
    needs=[UNITS, TOKEN_SETS],
    options=FIT_OPTIONS[1:],
    reads=("layers", "tokens", "units", "token_sets"),
)
def fig8(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw V(X_t) on M(X_t) at the layer of the token sets, with the fitted line and the chosen tokens named.

    By default the positions are those of the token sets.
    """
    chosen, names = choice.with_filter(), make_labels(surveys)
    sets = [get_token_sets(survey) for survey in surveys]
    by_default = chosen.population in ("all", default_population([survey.facts for survey in surveys]))
    use_sets = by_default and any(found.population != chosen.population for found in sets)
    populations = [found.population if use_sets else chosen.population for found in sets]
    tables = [
        _mark_chosen(select_units(survey, found.layer, replace(chosen, population=population)), found)
        for survey, found, population in zip(surveys, sets, populations, strict=True)
    ]
    lines = [fit_units(table, ["v_on_m"])["v_on_m"] for table in tables]
    scale = make_frequency_scale(tables)

    def draw(figure: FigureBase) -> None:
        axes = list(figure.subplots(len(sets), 1, squeeze=False).ravel())
        for ax, name, found, table, line in zip(axes, names, sets, tables, lines, strict=True):
            draw_scatter(ax, table, "m", "v", line, filter_text=describe_filter(chosen), scale=scale)
            _draw_chosen(ax, table[table["chosen"]], scale)
            ax.set_title(f"{clean_label(name)}, layer {found.layer}\n{ax.get_title()}", fontsize=7.5)
            ax.set_xlabel(M)
            ax.set_ylabel(V)
        draw_frequency_bar(figure, axes, scale)

    data = pd.concat(
        [
            add_survey_column(table.assign(layer=found.layer, population=population), name)
            for name, found, table, population in zip(names, sets, tables, populations, strict=True)
        ],
        ignore_index=True,
    )
    caption = compose_fit_caption(
        surveys,
        chosen,
        "V(Xₜ) on M(Xₜ), one point per unit, coloured by frequency, with the least-squares line. Ringed and "
        "named: the tokens of fig1.",
        describe_selection(sets),
        captions.describe_intervals(),
        positions=describe_positions(surveys, sets) if use_sets else "",
    )
    return Plate(data, caption, draw, (PAGE_WIDTH, SCATTER_HEIGHT * len(sets)))


def _mark_chosen(table: pd.DataFrame, found: TokenSetTables) -> pd.DataFrame:
    names = dict(zip(found.chosen["unit"], found.chosen["name"], strict=True))
    return table.assign(chosen=table["unit"].isin(list(names)).to_numpy(bool), name=table["unit"].map(names))


def _draw_chosen(ax: Axes, marked: pd.DataFrame, scale: Normalize) -> None:
    marked = marked[find_inside(ax, marked, "m", "v")]  # an unbiased V at n = 1 is NaN and not inside
    at = marked[["m", "v"]].to_numpy(np.float64)
    style: dict[str, Any] = {"c": marked["log10_n"], "cmap": FREQUENCY_COLOURS, "norm": scale, "edgecolors": BLACK}
    ax.scatter(at[:, 0], at[:, 1], s=20, linewidths=0.9, zorder=6, **style)
    if len(at):
        draw_names(ax, marked["name"].tolist(), at, SCATTER_INCHES)


TABLE_COLUMNS = "survey layer unit name n log10_n q m v kept".split()


@exhibit(
    "norm-variance/table2",
    title="n, Q, M and V of the chosen tokens",
    kind="table",
    needs=[UNITS, TOKEN_SETS],
    reads=("token_sets",),
)
def table2(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List n, Q, M and V of the tokens of fig1 in the order of their frequency."""
    sets, names = [get_token_sets(survey) for survey in surveys], make_labels(surveys)
    tables = [
        add_survey_column(found.chosen.sort_values(["n", "unit"]).assign(layer=found.layer), name)[TABLE_COLUMNS]
        for found, name in zip(sets, names, strict=True)
    ]
    data = pd.concat(tables, ignore_index=True)
    caption = join_sentences(
        "n, Q(Xₜ), M(Xₜ) and V(Xₜ) of the tokens in fig1,",
        "; ".join(f"{name} at layer {found.layer}" for name, found in zip(names, sets, strict=True)) + ".",
        captions.describe_corpora(surveys),
        captions.describe_units(surveys),
        describe_selection(sets),
        describe_positions(surveys, sets),
    )
    return make_table_plate(data, _format_rows(data, several=len(sets) > 1), caption)


def _format_rows(data: pd.DataFrame, *, several: bool) -> pd.DataFrame:
    shown = pd.DataFrame({"Model": data["survey"]} if several else {})
    shown["Token"] = data["name"]
    shown["n"] = [f"{count:,}" for count in data["n"]]
    for column in "qmv":
        shown[column.upper()] = [_format_four_digits(value) for value in data[column]]
    return shown


def _format_four_digits(value: float) -> str:
    """Return four significant digits with trailing zeros, so that the decimal points of a column line up.

    >>> _format_four_digits(164.0), _format_four_digits(37.904), _format_four_digits(123456.0)
    ('164.0', '37.90', '1.235×10⁵')
    """
    return f"{value:#.4g}" if 0.001 <= abs(value) < 1000 else format_scientific(value, 4)
