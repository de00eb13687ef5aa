"""appendix-i: Q as gamma and beta predict it against Q as measured, and what the prediction drops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import MODEL, UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.norm_variance.q_spread import READS, of_words, spreads
from theodolite.exhibits.printed_table import draw_table, table_size
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import number
from theodolite.studies.choice import Choice
from theodolite.studies.layer_norm import layers_with_norms, predictions
from theodolite.studies.surveyed import Surveyed, labels

NUMBERS = "predicted_q measured_q ratio dropped_square dropped_mean z_mean_rms z_square_sd z_square_max".split()
HEADS = (
    "Model|Layer|State|Norm|‖γ‖²+‖β‖²|Q|Q/pred.|Σγ²(E z²−1)|2Σβγ E z|r.m.s. E z|s.d. E z²|max E z²|γ≈0|of ‖z‖²"
).split("|")


@exhibit(
    "norm-variance/appendix-i",
    title="Predicted Q = |gamma|^2 + |beta|^2 against measured, and what the prediction drops",
    kind="table",
    needs=[MODEL, UNITS],
    options=("population", "specials"),
    reads=READS,
)
def appendix_i(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List prediction and measurement of every state that leaves a norm; the spread of Q is drawn below."""
    names = labels(surveys)
    tables = [predictions(survey, choice.population) for survey in surveys]
    data = pd.concat([named(table, name) for table, name in zip(tables, names, strict=True)], ignore_index=True)
    shown = pd.concat([_printed(table, name) for table, name in zip(tables, names, strict=True)])
    told = caption(
        "Q of states that leave a norm x = γz + β, predicted as ‖γ‖² + ‖β‖² and measured. The prediction drops",
        "the two sums, with which it is Q. Over coordinates: how far E z is from 0 and E z² from 1; the last two",
        "columns count coordinates with γ next to 0, which are not among these, and tell their share of all z².",
        captions.corpora(surveys),
        captions.units(surveys) + of_words(surveys),
        captions.population(choice),
    )
    drawable = [survey for survey in surveys if layers_with_norms(survey)]
    if not drawable:
        return Plate(data, told, lambda figure: draw_table(figure, shown), table_size(shown), shown)
    below = spreads(drawable, choice)
    (width, height), (_, more) = table_size(shown), below.size

    def draw(figure: FigureBase) -> None:
        top, foot = figure.subfigures(2, 1, squeeze=False, height_ratios=[height, more]).ravel()
        draw_table(top, shown)
        below.draw(foot)

    return Plate(data, caption(told, below.caption), draw, (max(width, below.size[0]), height + more), shown)


def _printed(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a model's rows as people read them; layers that leave no norm share one line."""
    rows = []
    bare = table[table["norm"].isna()]
    if len(bare):
        last = f" … {bare['layer_name'].iloc[-1]}" if len(bare) > 1 else ""
        layers = ", ".join(_runs([int(layer) for layer in bare["layer"]]))
        rows.append([name, layers, f"{bare['layer_name'].iloc[0]}{last}", "leaves none", *["–"] * len(HEADS[4:])])
    for row in table[table["norm"].notna()].to_dict("records"):
        numbers = [number(row[column]) for column in NUMBERS]
        tiny = "–" if np.isnan(row["tiny_gammas"]) else f"{row['tiny_gammas']:.0f}"
        share = "–" if np.isnan(row["unseen"]) else f"{row['unseen']:.2f}"
        rows.append([name, str(row["layer"]), row["layer_name"], row["norm"], *numbers, tiny, share])
    return pd.DataFrame(rows, columns=HEADS)


def _runs(layers: list[int]) -> list[str]:
    """Return numbers as runs.

    >>> _runs([0, 1, 2, 5])
    ['0–2', '5']
    """
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return [f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
