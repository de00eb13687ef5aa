"""training: the loss and learning rate of a run beside its geometry; several seeds are one band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import describe_population, describe_seeds, join_sentences
from theodolite.exhibits.drawing.style import get_line_style
from theodolite.exhibits.dynamics.step_axis import choose_scale, format_step_axis
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import SERIES, TRAINING
from theodolite.exhibits.registry import exhibit
from theodolite.measures.columns import find_column
from theodolite.studies.choice import Choice
from theodolite.studies.series.averages import BLOCKS, average_layers
from theodolite.studies.series.seeds import name_run
from theodolite.studies.survey_data import SurveyData, make_labels

GEOMETRY = ("mean_cosine", "effective_rank", "anisotropy_svd")
NUMBERS = {"loss": "loss", "learning_rate": "learning rate"}
COLUMNS = "run measure step mean low high seeds".split()


@exhibit(
    "dynamics/training",
    title="Loss, learning rate and geometry by training step",
    needs=[SERIES, TRAINING],
    options=("population", "steps"),
)
def training(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the loss, the learning rate and means over blocks by step; seeds of one run are a band."""
    names = make_labels(surveys)
    long = pd.concat(
        [_collect(survey, name, choice) for survey, name in zip(surveys, names, strict=True)], ignore_index=True
    )
    data = summarise_seeds(long)
    panels = [name for name in (*NUMBERS, *GEOMETRY) if data.loc[data["measure"] == name, "mean"].notna().any()]
    runs = list(dict.fromkeys(data["run"]))
    steps = sorted(int(step) for step in data["step"].unique())
    seeds = {run: int(data.loc[data["run"] == run, "seeds"].max()) for run in runs}

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, max(len(panels), 1), squeeze=False)[0]
        for ax, measure in zip(axes, panels, strict=False):
            for place, run in enumerate(runs):
                _draw(ax, data[(data["run"] == run) & (data["measure"] == measure)], place, run)
            format_step_axis(ax, steps, choose_scale(steps, choice.steps))
            ax.set_title(name_panel(measure))
            shorten_ticks(ax)
        if len(runs) > 1:
            handles, labels = axes[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper center", ncols=min(len(runs), 4))

    caption = join_sentences(
        "Loss and learning rate as the run logged them, and means over blocks of the geometry.",
        describe_population(choice),
        describe_seeds(seeds),
    )
    return Plate(data, caption, draw, (1.95 * max(len(panels), 2), 2.3))


def summarise_seeds(long: pd.DataFrame) -> pd.DataFrame:
    """Return the mean, lowest and highest value of each run, measure and step, and the number of its seeds.

    Only steps that all seeds of a run have are kept: otherwise the mean would jump where a seed begins or ends.
    """
    parts = []
    for (run, measure), rows in long.groupby(["run", "measure"], sort=False):
        seeds = rows["survey"].nunique()
        made = rows.groupby("step")["value"].agg(["mean", "min", "max", "count"]).reset_index()
        made = made[made["count"] == seeds].rename(columns={"min": "low", "max": "high"})
        parts.append(made.assign(run=str(run), measure=str(measure), seeds=seeds))
    joined = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)
    return joined.reindex(columns=COLUMNS)


def name_panel(measure: str) -> str:
    """Return the title of a panel.

    >>> name_panel("learning_rate"), name_panel("mean_cosine"), name_panel("anisotropy_svd")
    ('learning rate', 'mean cosine', 'SVD anisotropy')
    """
    title = NUMBERS.get(measure) or find_column(measure).title
    return title if title[:2].isupper() else title[0].lower() + title[1:]


def _collect(survey: SurveyData, name: str, choice: Choice) -> pd.DataFrame:
    """Return the rows survey, run, measure, step, value of one series."""
    averages = average_layers(survey, [choice.population], list(GEOMETRY))
    parts = [averages[averages["scope"] == BLOCKS].rename(columns={"mean": "value"})[["measure", "step", "value"]]]
    logged = survey.tables["training"]
    for column in NUMBERS:
        if column in logged:
            values = pd.DataFrame({"measure": column, "step": logged["step"], "value": logged[column]})
            parts.append(values[values["value"].notna()])
    return pd.concat(parts, ignore_index=True).assign(survey=name, run=name_run(name))


def _draw(ax: Axes, rows: pd.DataFrame, place: int, run: str) -> None:
    line = get_line_style(place)
    rows = rows.sort_values("step")
    x, y, low, high = (rows[name].to_numpy(np.float64) for name in ("step", "mean", "low", "high"))
    ax.plot(x, y, c=line.colour, lw=1.1, label=clean_label(run))
    if len(rows) and rows["seeds"].max() > 1:
        ax.fill_between(x, low, high, color=line.colour, alpha=0.18, lw=0)
