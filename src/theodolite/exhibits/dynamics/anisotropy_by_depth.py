"""fig1 and fig1-populations: SVD anisotropy by depth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import compose_layer_caption, describe_corpora, join_sentences
from theodolite.exhibits.drawing.layer_lines import draw_line, format_layer_axis
from theodolite.exhibits.drawing.panels import (
    draw_legend,
    legend_columns,
    legend_inches,
    make_handle,
    make_panels,
    panels_size,
)
from theodolite.exhibits.drawing.style import BLUE, GREEN, PURPLE, VERMILLION, LineStyle, get_line_style
from theodolite.exhibits.empty_surveys import describe_empty_surveys
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import TRANSFORMERS
from theodolite.exhibits.registry import exhibit
from theodolite.studies.anisotropy.batch_tables import BATCHES, use_batch_means
from theodolite.studies.anisotropy.layers import encoder_or_decoder, tabulate_layers
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, explain_undefined, make_labels
from theodolite.text import POPULATION_LABELS

ANISOTROPY = "anisotropy_svd"
SIDES = ("encoder", "decoder")
POPULATION_STYLES = {
    "all": LineStyle(VERMILLION, "o", "-"),
    "without-first": LineStyle(BLUE, "s", "-"),
    "without-massive": LineStyle(GREEN, "^", (0, (4, 1.5))),
    "without-sinks": LineStyle(PURPLE, "D", (0, (1, 1))),
}
FIRST = "SVD anisotropy (share of the variance along the first principal direction) by depth"


@exhibit(
    "dynamics/fig1",
    title="SVD anisotropy by depth, encoders and decoders",
    needs=[TRANSFORMERS],
    options=("population", "depth"),
    reads=("layers", BATCHES),
)
def fig1(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the SVD anisotropy by depth, encoders on the left and decoders on the right."""
    names = make_labels(surveys)
    exact = [_tabulate_sides(survey, choice.population, name) for survey, name in zip(surveys, names, strict=True)]
    tables = [
        use_batch_means(survey, table, choice.population) for survey, table in zip(surveys, exact, strict=True)
    ]
    not_drawn = describe_empty_surveys(
        surveys, tables, [ANISOTROPY], lambda s, _: explain_undefined(s, choice.population, ANISOTROPY)
    )
    shown = [one for one in SIDES if any((table["side"] == one).any() for table in tables)] or list(SIDES[:1])
    x = _choose_axis(choice)
    width = 3.4 * len(shown) if len(shown) > 1 else 4.6

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for ax, of in zip(axes, shown, strict=True):
            parts = [table[table["side"] == of] for table in tables]
            for number, part in enumerate(parts):
                draw_line(ax, part, ANISOTROPY, get_line_style(number), x=x)
            format_layer_axis(ax, [part for part in parts if len(part)], ANISOTROPY, x)
            ax.set_ylim(-0.03, 1.03)
            ax.set_title(f"{of}s")
        axes[0].set_ylabel("SVD anisotropy")
        draw_legend(figure, names, width=width)

    caption = compose_layer_caption(
        surveys,
        choice,
        exact,
        ANISOTROPY,
        f"{FIRST}, encoders and decoders.",
        *_describe_batches(surveys, names, tables),
        not_drawn,
        joined=False,
    )
    return Plate(pd.concat(tables, ignore_index=True), caption, draw, (width, 2.4 + legend_inches(names, width)))


@exhibit(
    "dynamics/fig1-populations",
    title="SVD anisotropy by depth for each population, one panel per model",
    needs=[TRANSFORMERS],
    options=("depth",),
    reads=("layers",),
)
def fig1_populations(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the SVD anisotropy of every population of a model in one panel: few positions can dominate it."""
    names, x = make_labels(surveys), _choose_axis(choice, joined=True)
    known = [one for one in POPULATION_STYLES if any(one in survey.facts["populations"] for survey in surveys)]
    tables = [
        [tabulate_layers(s, one, [ANISOTROPY], name) for one in known if one in s.facts["populations"]]
        for s, name in zip(surveys, names, strict=True)
    ]
    not_drawn = describe_empty_surveys(
        surveys,
        [pd.concat(of_model) for of_model in tables],
        [ANISOTROPY],
        lambda s, table: explain_undefined(s, table["population"].iloc[0], ANISOTROPY),
    )
    labels, width = [POPULATION_LABELS[one] for one in known], panels_size(len(surveys))[0]

    def draw(figure: FigureBase) -> None:
        axes = make_panels(figure, len(surveys))
        for ax, name, of_model in zip(axes, names, tables, strict=True):
            for table in of_model:
                if len(table):
                    draw_line(ax, table, ANISOTROPY, POPULATION_STYLES[table["population"].iloc[0]], x=x)
            format_layer_axis(ax, of_model, ANISOTROPY, x)
            ax.set_ylim(-0.03, 1.03)
            ax.set_title(clean_label(name, 34))
        axes[0].set_ylabel("SVD anisotropy")
        handles = [make_handle(POPULATION_STYLES[one]) for one in known]
        figure.legend(handles, labels, loc="outside upper center", ncols=legend_columns(labels, width))

    data = pd.concat([table for of_model in tables for table in of_model], ignore_index=True)
    caption = join_sentences(
        f"{FIRST}, for each population.",
        describe_corpora(surveys),
        _describe_difference(data),
        not_drawn,
        "Open marker: the state after the final norm."
        if data["layer_name"].str.endswith("final norm").any()
        else "",
    )
    return Plate(data, caption, draw, panels_size(len(surveys), legend=legend_inches(labels, width)))


def _describe_batches(
    surveys: Sequence[SurveyData], names: Sequence[str], tables: Sequence[pd.DataFrame]
) -> list[str]:
    """State which lines are means over batches, as in the paper, and which are over all vectors."""
    found = list(zip(surveys, names, tables, strict=True))
    batched = [(survey, name, table) for survey, name, table in found if (table["batches"] > 0).any()]
    if not batched:
        return ["Computed over all vectors; the paper averaged over batches."]
    sizes = sorted({int(survey.facts[BATCHES]["size"]) for survey, _, _ in batched})
    counts = sorted({int(count) for _, _, table in batched for count in table["batches"] if count})
    one = counts == [1]
    size = f"of at least {_format_range(sizes)} positions"
    if one:
        sentence = f"Computed over one contiguous batch {size}, centred separately, as in the paper"
    else:
        count = _format_range(counts)
        sentence = f"Mean over {count} contiguous batches {size}, each centred separately, as in the paper"
    strip = "" if one else "; strip: ± one standard deviation over batches"
    remaining = [name for _, name, table in found if not (table["batches"] > 0).any()]
    others = [f"Computed over all vectors: {', '.join(remaining)}."] if remaining else []
    return [f"{sentence}{strip}.", *others]


def _format_range(values: Sequence[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def _tabulate_sides(survey: SurveyData, population: str, name: str) -> pd.DataFrame:
    table = tabulate_layers(survey, population, [ANISOTROPY], name)
    return table.assign(side=[encoder_or_decoder(survey, stack) for stack in table["stack"]])


def _choose_axis(choice: Choice, *, joined: bool = False) -> str:
    if choice.depth == "layer":
        return "layer"
    return "joined_depth" if joined else "depth"


def _describe_difference(data: pd.DataFrame) -> str:
    """State at which layer the populations differ most."""
    groups = [
        (key, rows.dropna(subset=ANISOTROPY)) for key, rows in data.groupby(["survey", "layer_name"], sort=False)
    ]
    spreads = [(float(np.ptp(rows[ANISOTROPY])), key, rows) for key, rows in groups if len(rows) > 1]
    if not spreads:
        return ""
    _, (survey, layer), rows = max(spreads, key=lambda one: one[0])
    values = ", ".join(
        f"{value:.3g} {name}" for name, value in zip(rows["population"], rows[ANISOTROPY], strict=True)
    )
    return f"The populations differ most at {layer} of {survey}: {values}."
