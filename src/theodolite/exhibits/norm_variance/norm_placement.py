"""fig21: where the layer norm stands in each model's blocks, as read from the running model."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import FigureBase

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import MODEL, Need
from theodolite.exhibits.norm_variance.panels import grid_of, panels
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.schematic import TOPS, draw_block
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.norm_placement import placements
from theodolite.studies.surveyed import Surveyed


def _not_read(survey: Surveyed) -> str:
    return (
        f"the survey of {survey.model} does not record where its norms stand; "
        f"`{survey.command()}` with this version would"
    )


PLACEMENT = Need(
    "surveys that record where the model's norms stand",
    lambda survey: "norm_placement" in (survey.facts.get("model") or {}),
    _not_read,
)
COLUMNS = 4


@exhibit(
    "norm-variance/fig21",
    title="Where the layer norm stands, read from the model",
    needs=[MODEL, PLACEMENT],
    reads=("layer_norms",),
)
def fig21(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw a block of each model."""
    data = placements(surveys)
    rows, across = grid_of(len(data), COLUMNS)
    top = max(TOPS.get(word, 4.6) for word in data["placement"])

    def draw(figure: FigureBase) -> None:
        for ax, row in zip(panels(figure, len(data), COLUMNS), data.to_dict("records"), strict=True):
            told = row["placement"] if row["steps"] else None
            draw_block(ax, told, "RMS" if row["norm"] == "RMSNorm" else "LN", top)
            name, kind = plain(row["survey"], 30), plain(row["architecture"], 30)
            ax.set_title(f"{row['label']}\n{name}\n{kind}", fontsize=7)

    words = (
        "A block of each model, from the input below to the output above, with the norm where it acts in the "
        "running model. ATTN: attention; FF: feed-forward; RES: a branch added to the stream; LN: layer norm, RMS "
        "where it divides by the root mean square alone."
    )
    return Plate(data, words, draw, (max(3.4, 1.8 * across), (0.29 * top + 0.8) * rows))
