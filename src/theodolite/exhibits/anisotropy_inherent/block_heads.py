"""fig8: norms and cosines of queries and keys as the bias grows."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from theodolite.exhibits.anisotropy_inherent.block_lines import WAY, block_caption, draw_numbers, finish, scale
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import of_laboratory
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLUE, PALE, VERMILLION, Look
from theodolite.exhibits.text import plain
from theodolite.studies.block.reading import block_labels, over_heads
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed

LOOKS = {"query": Look(BLUE, "o", "-"), "key": Look(VERMILLION, "s", "-")}
WORDS = {"query": "queries", "key": "keys"}


@exhibit(
    "anisotropy-inherent/fig8",
    title="Norms and cosines of queries and keys as the input bias grows",
    needs=[of_laboratory("block", WAY)],
    reads=(),
)
def fig8(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the mean norm and the mean cosine of queries and keys, before and after rotation."""
    names = block_labels(surveys)
    columns = ("mean_norm", "mean_cosine")
    tables = [over_heads(survey, columns, name) for survey, name in zip(surveys, names, strict=True)]
    turned = any(table["rotated"].any() for table in tables)

    def draw(figure: FigureBase) -> None:
        every = figure.subplots(len(surveys), 2, squeeze=False)
        for axes, table, name in zip(every, tables, names, strict=True):
            _panel(axes[0], table, "mean_norm", "mean norm")
            _panel(axes[1], table, "mean_cosine", "mean cosine")
            scale(axes[0])
            axes[1].axhline(0, c=PALE, lw=0.7, zorder=0)
            axes[1].set_ylim(min(-0.03, axes[1].get_ylim()[0]), 1.03)
            axes[0].legend(loc="upper left")
            for ax in axes:
                finish(ax, table)
                ax.set_title(plain(name))

    told = block_caption(
        surveys,
        "Queries and keys of one block: mean norm, and mean cosine over all pairs of positions of a head. Line: "
        "mean over heads; strip: from the lowest head to the highest, before rotation. First run.",
        "Dotted: after rotation by position, which leaves norms as they are." if turned else "",
    )
    return Plate(pd.concat(tables, ignore_index=True), told, draw, (6.2, 2.5 * len(surveys)))


def _panel(ax: Axes, table: pd.DataFrame, column: str, label: str) -> None:
    for of, line in LOOKS.items():
        mine = table[table["of"] == of]
        draw_numbers(ax, mine[~mine["rotated"]], column, line, label=WORDS[of])
        after = mine[mine["rotated"]].drop(columns=[f"{column}_low", f"{column}_high"])
        if len(after):
            draw_numbers(ax, after, column, line, ls=":", mfc="white")
    ax.set_ylabel(label)
