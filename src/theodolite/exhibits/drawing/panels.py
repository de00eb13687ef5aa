"""Layout of panels and legends: grids, sizes in inches, and legends above all panels of a figure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.style import LineStyle, get_line_style

COLUMN_WIDTH, PAGE_WIDTH = 3.4, 7.0  # inches


def choose_grid(count: int, columns: int = 3) -> tuple[int, int]:
    """Return the number of rows and columns for `count` panels.

    >>> choose_grid(1), choose_grid(2), choose_grid(4), choose_grid(7)
    ((1, 1), (1, 2), (2, 2), (3, 3))
    """
    across = 2 if count == 4 else min(count, columns)
    return -(-count // across), across


def make_panels(figure: FigureBase, count: int, columns: int = 3) -> list[Axes]:
    """Return axes for `count` panels, row by row. The unused cells of the grid are removed."""
    rows, across = choose_grid(count, columns)
    axes: list[Axes] = list(figure.subplots(rows, across, squeeze=False).ravel())
    for unused in axes[count:]:
        unused.remove()
    return axes[:count]


def panels_size(count: int, *, height: float = 2.1, legend: float = 0.0) -> tuple[float, float]:
    """Return the size in inches of `count` panels: as wide as a column for one, as the page for more."""
    rows, across = choose_grid(count)
    return (COLUMN_WIDTH if across == 1 else PAGE_WIDTH), rows * height + legend


def by_layer_size(names: Sequence[str], width: float = PAGE_WIDTH, height: float = 2.2) -> tuple[float, float]:
    """Return the size in inches of a row of panels by layer below a legend."""
    return width, height + legend_inches(names, width)


def draw_legend(
    figure: FigureBase, names: Sequence[str], right: Collection[int] = (), *, width: float = PAGE_WIDTH
) -> None:
    """Draw a legend of models above all panels. `width` is the width of the figure in inches."""
    handles = [make_handle(get_line_style(number)) for number in range(len(names))]
    labels = [
        clean_label(name) + (" (right axis)" if number in right else "") for number, name in enumerate(names)
    ]
    columns = legend_columns(labels, width)
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, handlelength=3.2)


def make_handle(style: LineStyle) -> Line2D:
    """Return the legend entry of a line."""
    return Line2D([], [], c=style.colour, marker=style.marker, ls=style.dash, ms=3.5, lw=1.1)


def solid_handles(names: Sequence[str]) -> list[Line2D]:
    """Return one solid legend entry per model, for figures in which dashes mean something else."""
    styles = [get_line_style(number) for number in range(len(names))]
    return [
        Line2D([], [], c=style.colour, marker=style.marker, ms=3.5, lw=1.1, label=clean_label(name))
        for style, name in zip(styles, names, strict=True)
    ]


def legend_inches(names: Sequence[str], width: float) -> float:
    """Return the height of a legend above a figure of `width` inches."""
    return 0.16 * -(-len(names) // legend_columns(names, width))


def legend_columns(names: Sequence[str], width: float) -> int:
    """Return the number of names that fit side by side above a figure of `width` inches."""
    longest = max(map(len, names), default=1)
    return max(1, min(len(names), int(15 * width / (longest + 9))))
