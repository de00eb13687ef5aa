"""A transformer block as a diagram: a stream from the bottom up, branches beside it."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyBboxPatch

from theodolite.exhibits.style import BLUE, GREY, ORANGE, SKY

FILLS = {"ATTN": SKY, "FF": ORANGE, "LN": "white"}
WIDE, HIGH, STEP = 1.5, 0.62, 1.0  # of a box, and from one to the next
STREAM, BESIDE = 0.0, 2.1  # where the stream and a branch stand
ACROSS, BELOW = (-1.8, 4.9), -0.6  # room for the widest
TOPS = {"sandwich": 8.6, "pre": 6.6, "branch": 6.6, "post": 6.6, "parallel": 5.0, "none": 4.6}
"""How high each reaches; blocks drawn side by side share the highest, so that all have one scale."""


def draw_block(ax: Axes, placement: str | None, norm: str = "LN", top: float = 8.6) -> None:
    """Draw where the norms of a block stand; `norm` is what is written in their boxes."""
    ax.set_aspect("equal")
    ax.set_axis_off()
    if placement is None:
        ax.text(ACROSS[0] + 1.0, 3, "cannot be told", fontsize=7)
    elif placement == "parallel":
        _parallel(ax, norm)
    else:
        _halves(ax, placement, norm)
    ax.set_xlim(*ACROSS)
    ax.set_ylim(BELOW, top)


def _halves(ax: Axes, placement: str, norm: str) -> None:
    """Draw attention and then feed-forward, each a branch of the stream."""
    height = 0.0
    for number, kind in enumerate(("ATTN", "FF"), 1):
        before = ["LN"] if placement in ("pre", "sandwich") else []
        after = ["LN"] if placement in ("sandwich", "branch") else []
        start, end = height, height + STEP * (len(before) + len(after) + 2)
        _line(ax, STREAM, start, end)
        _branch(ax, BESIDE, start + 0.3, end - 0.3, [*before, kind, *after], norm)
        _plus(ax, end - 0.3, f"RES{number}")
        height = end
        if placement == "post":
            _line(ax, STREAM, height, height + STEP)
            _box(ax, STREAM, height + STEP / 2, "LN", f"{norm}{number}")
            height += STEP
    _ends(ax, height)


def _parallel(ax: Axes, norm: str) -> None:
    """Draw one branch that splits in two behind the norm."""
    end = 4.4
    _line(ax, STREAM, 0, end)
    middle = BESIDE + 0.85
    for place, kind in ((BESIDE, "ATTN"), (BESIDE + 1.8, "FF")):
        _way(ax, [(middle, 1.0), (middle, 1.9), (place, 1.9), (place, 2.6)])
        _way(ax, [(place, 2.6), (place, end - 0.6)])
        _box(ax, place, 2.7, kind, kind)
    _way(ax, [(STREAM, 0.3), (middle, 0.3), (middle, 1.0)])
    _box(ax, middle, 1.0, "LN", norm)
    _way(ax, [(BESIDE + 1.8, end - 0.6), (STREAM + 0.2, end - 0.6)], arrow=True)
    _plus(ax, end - 0.6, "RES")
    _ends(ax, end)


def _branch(ax: Axes, x: float, start: float, end: float, boxes: list[str], norm: str) -> None:
    _way(ax, [(STREAM, start), (x, start), (x, end), (STREAM + 0.2, end)], arrow=True)
    gap = (end - start) / (len(boxes) + 1)
    for place, kind in enumerate(boxes, 1):
        _box(ax, x, start + gap * place, kind, norm if kind == "LN" else kind)


def _box(ax: Axes, x: float, y: float, kind: str, text: str) -> None:
    edge = BLUE if kind == "LN" else GREY
    corner = (x - WIDE / 2 + 0.1, y - HIGH / 2 + 0.1)
    box = FancyBboxPatch(corner, WIDE - 0.2, HIGH - 0.2, boxstyle="round,pad=0.1", fc=FILLS[kind], ec=edge, lw=1.2)
    box.set_zorder(4)
    ax.add_patch(box)
    weight = "bold" if kind == "LN" else "normal"
    ax.text(x, y, text, ha="center", va="center", fontsize=6.5, fontweight=weight, zorder=5)


def _plus(ax: Axes, y: float, text: str) -> None:
    ax.add_patch(Circle((STREAM, y), 0.2, fc="white", ec="black", lw=0.9, zorder=4))
    ax.plot([STREAM - 0.2, STREAM + 0.2], [y, y], c="black", lw=0.8, zorder=5)
    ax.plot([STREAM, STREAM], [y - 0.2, y + 0.2], c="black", lw=0.8, zorder=5)
    ax.text(STREAM - 0.35, y, text, ha="right", va="center", fontsize=6)


def _line(ax: Axes, x: float, start: float, end: float) -> None:
    ax.plot([x, x], [start, end], c="black", lw=1.0, zorder=2)


def _way(ax: Axes, corners: list[tuple[float, float]], *, arrow: bool = False) -> None:
    ax.plot([x for x, _ in corners], [y for _, y in corners], c="black", lw=0.9, zorder=2)
    if arrow:
        (x, y), (from_x, from_y) = corners[-1], corners[-2]
        head = {"arrowstyle": "-|>", "lw": 0.9, "fc": "black", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
        ax.annotate("", (x, y), (from_x, from_y), arrowprops=head, zorder=3)


def _ends(ax: Axes, top: float) -> None:
    """Draw where the stream comes from and goes to."""
    head = {"arrowstyle": "-|>", "lw": 1.0, "fc": "black", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
    ax.annotate("", (STREAM, top + 0.45), (STREAM, top - 0.05), arrowprops=head, zorder=3)
    ax.plot([STREAM, STREAM], [-0.5, 0], c="black", lw=1.0, zorder=2)
