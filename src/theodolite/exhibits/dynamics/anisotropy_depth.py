"""fig1: the SVD anisotropy by depth, encoders against decoders; and how much of it is in which positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.anisotropy_inherent.captions import by_layer_caption
from theodolite.exhibits.depth_lines import draw_line, finish
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import draw_legend, legend_inches
from theodolite.exhibits.needs import TRANSFORMERS
from theodolite.exhibits.norm_variance.captions import POPULATIONS, caption, corpora
from theodolite.exhibits.norm_variance.panels import panels, panels_size
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLUE, GREEN, VERMILLION, Look, look
from theodolite.exhibits.text import plain
from theodolite.exhibits.undrawn import undrawn
from theodolite.studies.anisotropy.batch_summary import BATCHES
from theodolite.studies.anisotropy.by_batch import by_batch
from theodolite.studies.anisotropy.by_layer import by_layer
from theodolite.studies.anisotropy.kinds import side
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed, labels
from theodolite.studies.undefined import why_undefined

ANISOTROPY = "anisotropy_svd"
SIDES = ("encoder", "decoder")
LOOKS = {
    "all": Look(VERMILLION, "o", "-"),
    "without-first": Look(BLUE, "s", "-"),
    "without-massive": Look(GREEN, "^", (0, (4, 1.5))),
}
FIRST = "SVD anisotropy, the share of the variance along its first direction, by depth"


@exhibit(
    "dynamics/fig1",
    title="SVD anisotropy by depth, encoders against decoders",
    needs=[TRANSFORMERS],
    options=("population", "depth"),
    reads=("layers", BATCHES),
)
def fig1(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the SVD anisotropy of each layer, encoders on the left and decoders on the right."""
    names = labels(surveys)
    exact = [_with_side(survey, choice.population, name) for survey, name in zip(surveys, names, strict=True)]
    tables = [by_batch(survey, table, choice.population) for survey, table in zip(surveys, exact, strict=True)]
    lacking = undrawn(surveys, tables, [ANISOTROPY], lambda s, _: why_undefined(s, choice.population, ANISOTROPY))
    shown = [one for one in SIDES if any((table["side"] == one).any() for table in tables)] or list(SIDES[:1])
    x = _axis(choice)
    width = 3.4 * len(shown) if len(shown) > 1 else 4.6

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for ax, of in zip(axes, shown, strict=True):
            parts = [table[table["side"] == of] for table in tables]
            for number, part in enumerate(parts):
                draw_line(ax, part, ANISOTROPY, look(number), x=x)
            finish(ax, [part for part in parts if len(part)], ANISOTROPY, x)
            ax.set_ylim(-0.03, 1.03)
            ax.set_title(f"{of}s")
        axes[0].set_ylabel("SVD anisotropy")
        draw_legend(figure, names, width=width)

    told = by_layer_caption(
        surveys,
        choice,
        exact,
        ANISOTROPY,
        f"{FIRST}, of encoders and decoders.",
        *_batched(surveys, names, tables),
        lacking,
        joined=False,
    )
    return Plate(pd.concat(tables, ignore_index=True), told, draw, (width, 2.4 + legend_inches(names, width)))


@exhibit(
    "dynamics/fig1-populations",
    title="SVD anisotropy by depth, populations side by side, a panel a model",
    needs=[TRANSFORMERS],
    options=("depth",),
    reads=("layers",),
)
def fig1_populations(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the SVD anisotropy of every population of a model on one panel: what few positions make of it."""
    names, x = labels(surveys), _axis(choice, joined=True)
    known = [one for one in LOOKS if any(one in survey.facts["populations"] for survey in surveys)]
    tables = [
        [by_layer(s, one, [ANISOTROPY], name) for one in known if one in s.facts["populations"]]
        for s, name in zip(surveys, names, strict=True)
    ]
    lacking = undrawn(
        surveys,
        [pd.concat(of_model) for of_model in tables],
        [ANISOTROPY],
        lambda s, table: why_undefined(s, table["population"].iloc[0], ANISOTROPY),
    )
    across, more = (3, 0.2) if len(surveys) > 1 else (1, 0.16 * len(known))  # one panel is too narrow for a line

    def draw(figure: FigureBase) -> None:
        axes = panels(figure, len(surveys))
        for ax, name, of_model in zip(axes, names, tables, strict=True):
            for table in of_model:
                if len(table):
                    draw_line(ax, table, ANISOTROPY, LOOKS[table["population"].iloc[0]], x=x)
            finish(ax, of_model, ANISOTROPY, x)
            ax.set_ylim(-0.03, 1.03)
            ax.set_title(plain(name, 34))
        axes[0].set_ylabel("SVD anisotropy")
        handles = [
            Line2D([], [], c=LOOKS[one].colour, marker=LOOKS[one].marker, ls=LOOKS[one].dash) for one in known
        ]
        figure.legend(handles, [POPULATIONS[one] for one in known], loc="outside upper center", ncols=across)

    data = pd.concat([table for of_model in tables for table in of_model], ignore_index=True)
    told = caption(
        f"{FIRST}, for each population.",
        corpora(surveys),
        _most(data),
        lacking,
        "Open marker: the state after the final norm."
        if data["layer_name"].str.endswith("final norm").any()
        else "",
    )
    return Plate(data, told, draw, panels_size(len(surveys), height=2.1, legend=more))


def _batched(surveys: Sequence[Surveyed], names: Sequence[str], tables: Sequence[pd.DataFrame]) -> list[str]:
    """Say which lines are means over batches, as the paper has them, and which are of everything."""
    found = list(zip(surveys, names, tables, strict=True))
    batched = [(survey, name, table) for survey, name, table in found if (table["batches"] > 0).any()]
    if not batched:
        return ["Of all vectors together, where the paper averaged over batches."]
    sizes = sorted({int(survey.facts[BATCHES]["size"]) for survey, _, _ in batched})
    counts = sorted({int(count) for _, _, table in batched for count in table["batches"] if count})
    one = counts == [1]
    words = (
        f"{'Of one contiguous batch' if one else f'Mean over {_range(counts)} contiguous batches'} of at least "
        f"{_range(sizes)} positions, {'' if one else 'each '}centred by itself, as in the paper"
    )
    strip = "" if one else "; strip: ± one standard deviation over batches"
    rest = [name for _, name, table in found if not (table["batches"] > 0).any()]
    others = [f"Of all vectors together: {', '.join(rest)}."] if rest else []
    return [f"{words}{strip}.", *others]


def _range(values: Sequence[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def _with_side(survey: Surveyed, population: str, name: str) -> pd.DataFrame:
    table = by_layer(survey, population, [ANISOTROPY], name)
    return table.assign(side=[side(survey, stack) for stack in table["stack"]])


def _axis(choice: Choice, *, joined: bool = False) -> str:
    if choice.depth == "layer":
        return "layer"
    return "joined_depth" if joined else "depth"


def _most(data: pd.DataFrame) -> str:
    """Say where the populations differ most."""
    groups = [
        (key, rows.dropna(subset=ANISOTROPY)) for key, rows in data.groupby(["survey", "layer_name"], sort=False)
    ]
    spreads = [(float(np.ptp(rows[ANISOTROPY])), key, rows) for key, rows in groups if len(rows) > 1]
    if not spreads:
        return ""
    _, (survey, layer), rows = max(spreads, key=lambda one: one[0])
    told = ", ".join(
        f"{value:.3g} {name}" for name, value in zip(rows["population"], rows[ANISOTROPY], strict=True)
    )
    return f"They differ most in {layer} of {survey}: {told}."
