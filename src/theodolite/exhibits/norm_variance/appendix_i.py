"""appendix-i and appendix-i-spread: Q of states that leave a layer norm, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing import captions
from theodolite.exhibits.drawing.axes import clean_label, mark_empty
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.panels import make_panels, panels_size
from theodolite.exhibits.drawing.style import GREY, get_line_style
from theodolite.exhibits.drawing.tables import draw_table, table_size
from theodolite.exhibits.empty_surveys import describe_empty_surveys
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import MODEL, UNITS, Need
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.layer_norm import layers_with_norms, predict_q, q_spread
from theodolite.studies.survey_data import SurveyData, make_labels
from theodolite.text import format_fixed, format_scientific

READS = ("layers", "tokens", "units", "coordinates", "layer_norms")
MOST_LINES = 7
NO_BIN = "no bin of half a decade of n has three units that differ in Q"


def _explain_no_norm(survey: SurveyData) -> str:
    return f"no surveyed state of {survey.model} is the output of a norm; survey all with `{survey.command()}`"


NORMS = Need(
    "surveys with a state that is the output of a norm",
    lambda survey: bool(layers_with_norms(survey)),
    _explain_no_norm,
)


@exhibit(
    "norm-variance/appendix-i-spread",
    title="Standard deviation of Q(X_t) by n, for states that are the output of a norm",
    needs=[MODEL, UNITS, NORMS],
    options=("population", "specials", "layers"),
    reads=READS,
)
def appendix_i_spread(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the standard deviation of Q(X_t) by bins of n, one panel per model and one line per layer."""
    plate = _make_spreads(surveys, choice)
    tables = [plate.data[plate.data["survey"] == name] for name in make_labels(surveys)]
    describe_empty_surveys(
        surveys, [t.where(t["q_sd"] > 0) for t in tables], ["q_sd"], lambda survey, table: NO_BIN
    )
    caption = join_sentences(
        plate.caption,
        captions.describe_corpora(surveys),
        captions.describe_units(surveys) + _describe_words(surveys),
        captions.describe_population(choice, surveys),
    )
    return Plate(plate.data, caption, plate.draw, plate.size)


def _make_spreads(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Return the figure with a caption that does not name models and corpora."""
    chosen = choice.with_filter("all")
    names = make_labels(surveys)
    lines = [
        {layer: q_spread(survey, layer, chosen) for layer in _choose_layers(survey, choice)} for survey in surveys
    ]

    def draw(figure: FigureBase) -> None:
        for ax, survey, name, tables in zip(make_panels(figure, len(surveys)), surveys, names, lines, strict=True):
            _draw_spread(ax, tables, survey.layer_names)
            ax.set_title(clean_label(name, 34))

    caption = join_sentences(
        "Standard deviation of Q(Xₜ) over units, by bins of half a decade of n with at least three units. Dashed:",
        "proportional to n^(−1/2) from the first bin of the first layer, as the appendix expects if units differ",
        "only in n.",
        captions.describe_fit_units(surveys, chosen, "Computed over"),
    )
    data = pd.concat(
        [
            add_survey_column(table, name)
            for name, tables in zip(names, lines, strict=True)
            for table in tables.values()
        ],
        ignore_index=True,
    )
    return Plate(data, caption, draw, panels_size(len(surveys), height=2.6))


def _choose_layers(survey: SurveyData, choice: Choice) -> list[int]:
    """Return the layers to draw: the chosen ones that are outputs of a norm, or up to seven of all such layers."""
    known = layers_with_norms(survey)
    chosen = [layer for layer in choice.layers if layer in known]
    if chosen or len(known) <= MOST_LINES:
        return chosen or known
    return [known[round(step * (len(known) - 1) / (MOST_LINES - 1))] for step in range(MOST_LINES)]


def _draw_spread(ax: Axes, tables: dict[int, pd.DataFrame], layer_names: dict[int, str]) -> None:
    for line, (layer, table) in enumerate(tables.items()):
        known = table[table["q_sd"].notna()]
        n, sd = known["n"].to_numpy(np.float64), known["q_sd"].to_numpy(np.float64)
        style = get_line_style(line)
        ax.plot(
            n, sd, c=style.colour, marker=style.marker, ls=style.dash, ms=3.2, lw=1.1, label=layer_names[layer]
        )
    if tables:
        first = next(iter(tables.values())).dropna(subset="q_sd")
        ax.plot(first["n"], first["root_n"], c=GREY, ls="--", lw=0.9, label=r"$\propto n^{-1/2}$")
    ax.set_xlabel("$n_t$")
    ax.set_ylabel("s.d. of $Q(X_t)$")
    if any((table["q_sd"] > 0).any() for table in tables.values()):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.legend(fontsize=6, ncols=2, handlelength=2.6)
    else:
        mark_empty(ax, NO_BIN)


def _describe_words(surveys: Sequence[SurveyData]) -> str:
    """State that the vector of a word is not the output of a norm, if units are words."""
    words = any(survey.facts["units"] == "word" for survey in surveys)
    return " The vector of a word is the mean over its tokens, which is not the output of a norm." if words else ""


NUMBERS = "predicted_q measured_q ratio dropped_square dropped_mean z_mean_rms z_square_sd z_square_max".split()
HEADS = (
    "Model|Layer|State|Norm|predicted Q,\n‖γ‖²+‖β‖²|measured\nQ|measured/\npredicted|sum 1,\nΣγ²(E z²−1)|"
    "sum 2,\n2Σβγ E z|r.m.s.\nof E z|s.d.\nof E z²|max.\nof E z²|coordinates\nwith γ≈0|their share\nof ‖z‖²"
).split("|")


@exhibit(
    "norm-variance/appendix-i",
    title="Q of states that are the output of a norm: predicted as |gamma|^2 + |beta|^2, and measured",
    kind="table",
    needs=[MODEL, UNITS],
    options=("population", "specials"),
    reads=READS,
)
def appendix_i(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List predicted and measured Q of every state that is the output of a norm. Below, draw the spread of Q."""
    names = make_labels(surveys)
    tables = [predict_q(survey, choice.population) for survey in surveys]
    data = pd.concat(
        [add_survey_column(table, name) for table, name in zip(tables, names, strict=True)], ignore_index=True
    )
    shown = pd.concat([_format_rows(table, name) for table, name in zip(tables, names, strict=True)])
    caption = join_sentences(
        "Q of states that are the output x = γz + β of a norm, predicted as ‖γ‖² + ‖β‖² and measured. The",
        "measured Q equals the prediction plus the two sums. E z and E z²: how far they are from 0 and 1 over the",
        "coordinates, without those with γ close to 0. The last two columns: how many those are, and their share",
        "of ‖z‖².",
        captions.describe_corpora(surveys),
        captions.describe_units(surveys) + _describe_words(surveys),
        captions.describe_population(choice, surveys),
    )
    drawable = [survey for survey in surveys if layers_with_norms(survey)]
    if not drawable:
        return Plate(data, caption, lambda figure: draw_table(figure, shown), table_size(shown), shown)
    below = _make_spreads(drawable, choice)
    (width, height), (_, more) = table_size(shown), below.size

    def draw(figure: FigureBase) -> None:
        top, foot = figure.subfigures(2, 1, squeeze=False, height_ratios=[height, more]).ravel()
        draw_table(top, shown)
        below.draw(foot)

    return Plate(
        data, join_sentences(caption, below.caption), draw, (max(width, below.size[0]), height + more), shown
    )


def _format_rows(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the formatted rows of a model. Layers that are not the output of a norm share one row."""
    rows = []
    without = table[table["norm"].isna()]
    if len(without):
        last = f" … {without['layer_name'].iloc[-1]}" if len(without) > 1 else ""
        layers = ", ".join(_format_ranges([int(layer) for layer in without["layer"]]))
        rows.append([name, layers, f"{without['layer_name'].iloc[0]}{last}", "none", *["–"] * len(HEADS[4:])])
    for row in table[table["norm"].notna()].to_dict("records"):
        numbers = [format_scientific(row[column]) for column in NUMBERS]
        tiny = format_fixed(row["tiny_gammas"], 0)
        share = format_fixed(row["unseen"], 2)
        rows.append([name, str(row["layer"]), row["layer_name"], row["norm"], *numbers, tiny, share])
    return pd.DataFrame(rows, columns=HEADS)


def _format_ranges(layers: list[int]) -> list[str]:
    """Return numbers as ranges.

    >>> _format_ranges([0, 1, 2, 5])
    ['0–2', '5']
    """
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return [f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
