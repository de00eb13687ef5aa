"""Notes in panels without data, and their ticks."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theodolite.exhibits.drawing.axes import mark_empty, write_note


def ticks(ax: Axes) -> tuple[list[str], list[str]]:
    ax.figure.draw_without_rendering()
    return tuple(
        [t.label1.get_text() for t in axis.majorTicks if t.label1.get_visible()] for axis in (ax.xaxis, ax.yaxis)
    )


def test_an_empty_panel_has_no_ticks() -> None:
    full, none = Figure().subplots(1, 2)
    full.plot([1, 2], [3, 4])
    mark_empty(none, "undefined at every layer")
    assert ticks(none) == ([], [])
    assert all(ticks(full))
    assert [text.get_text() for text in none.texts] == ["undefined at every layer"]


def test_ticks_shared_with_another_panel_are_kept() -> None:
    full, none = Figure().subplots(2, 1, sharex=True)
    full.plot([1, 2], [3, 4])
    mark_empty(none, "undefined")
    assert ticks(none)[0]
    assert not ticks(none)[1]


def test_a_note_beside_points_keeps_the_ticks() -> None:
    ax = Figure().subplots()
    ax.plot([1, 2], [3, 4], "o")
    write_note(ax, "no line", height=0.7)
    assert all(ticks(ax))
