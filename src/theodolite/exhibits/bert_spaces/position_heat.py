"""fig13, and fig15 for a second model: learned positional encodings and their cosines."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.bert_spaces.heat import draw_heat
from theodolite.exhibits.bert_spaces.weighed import POSITIONS, WEIGHED, one_model
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import number, plain
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels


@exhibit(
    "bert-spaces/fig13",
    "bert-spaces/fig15",
    title="Learned positional encodings and their cosines",
    needs=[WEIGHED, POSITIONS],
    reads=(),
)
def fig13(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the table of positions and the cosines of its rows, a line of panels a model, the tail marked."""
    names = labels(surveys)
    found = [tables_of(survey, ["position_values", "position_cosines", "position_tail"]) for survey in surveys]

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(found), 2, squeeze=False, width_ratios=[1.2, 1])
        for (left, right), name, (values, cosines, tail) in zip(axes, names, found, strict=True):
            image = draw_heat(left, values, "position", "coordinate", "value")
            figure.colorbar(image, ax=left, fraction=0.05)
            left.set_title(plain(name, 40))
            image = draw_heat(right, cosines, "position", "other", "cosine", limit=1.0)
            figure.colorbar(image, ax=right, fraction=0.05)
            right.set(title="cosines", xlabel="position")
            first = tail["first"].iloc[0]
            if not pd.isna(first) and first > 0:
                for ax in (left, right):
                    ax.axhline(float(first) - 0.5, c="black", lw=0.8, ls="--")

    told = caption(
        "The table of positions, each row a position, and the cosines between its rows.",
        *(tail_told(survey) for survey in surveys),
        *(_stepped(survey, values) for survey, (values, _, _) in zip(surveys, found, strict=True)),
    )
    data = pd.concat([named(cosines, name) for name, (_, cosines, _) in zip(names, found, strict=True)])
    return Plate(data.reset_index(drop=True), told, draw, (7.0, 3.0 * len(found)))


def tail_told(survey: Surveyed) -> str:
    """Say what the test found of the last positions."""
    (table,) = tables_of(survey, ["position_tail"])
    row, name = table.iloc[0], one_model(survey)
    if pd.isna(row["first"]):
        return (
            f"{name}: no untrained tail ({row['reason'] or 'the last position is foretold by those before it'})."
        )
    if row["first"] == 0:
        return f"{name}: the whole table looks untrained."
    return (
        f"{name}: positions {int(row['first'])} to {int(row['positions']) - 1} look untrained (dashed; "
        f"standard deviation {number(row['sd'])}, p of the change {number(row['change_p'])})."
    )


def _stepped(survey: Surveyed, values: pd.DataFrame) -> str:
    told = []
    for what in ("position", "coordinate"):
        places = values[what].unique()
        if len(places) > 1 and places[1] > 1:
            told.append(f"{what} of every {int(places[1])}")
    return f"{one_model(survey)}: one {' and one '.join(told)} is drawn." if told else ""
