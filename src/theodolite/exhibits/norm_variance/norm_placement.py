"""fig21: the position of the layer norms in the blocks of each model."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.patches import Circle, FancyBboxPatch

from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.panels import choose_grid, make_panels
from theodolite.exhibits.drawing.style import BLUE, GREY, ORANGE, SKY
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import MODEL, Need
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.layer_norm import make_placement_table
from theodolite.studies.survey_data import SurveyData

FILLS = {"ATTN": SKY, "FF": ORANGE, "LN": "white"}
BOX_WIDTH, BOX_HEIGHT, STEP = 1.5, 0.62, 1.0  # of a box, and the distance between boxes
STREAM, BESIDE = 0.0, 2.1  # x of the residual stream and of a branch
ACROSS, BELOW = (-1.8, 4.9), -0.6  # space for the widest block
TOPS = {"sandwich": 8.6, "pre": 6.6, "branch": 6.6, "post": 6.6, "parallel": 5.0, "none": 4.6}
"""The height of each kind of block. Blocks side by side use the largest, so that all have the same scale."""


def draw_block(ax: Axes, placement: str | None, norm: str = "LN", top: float = 8.6) -> None:
    """Draw a block with its norms. `norm` is the text in their boxes."""
    ax.set_aspect("equal")
    ax.set_axis_off()
    if placement is None:
        ax.text(ACROSS[0] + 1.0, 3, "unknown", fontsize=7)
    elif placement == "parallel":
        _draw_parallel(ax, norm)
    else:
        _draw_sequential(ax, placement, norm)
    ax.set_xlim(*ACROSS)
    ax.set_ylim(BELOW, top)


def _draw_sequential(ax: Axes, placement: str, norm: str) -> None:
    """Draw attention and then feed-forward, each on a branch of the residual stream."""
    height = 0.0
    for number, kind in enumerate(("ATTN", "FF"), 1):
        before = ["LN"] if placement in ("pre", "sandwich") else []
        after = ["LN"] if placement in ("sandwich", "branch") else []
        start, end = height, height + STEP * (len(before) + len(after) + 2)
        _draw_stream(ax, STREAM, start, end)
        _draw_branch(ax, BESIDE, start + 0.3, end - 0.3, [*before, kind, *after], norm)
        _draw_sum(ax, end - 0.3, f"RES{number}")
        height = end
        if placement == "post":
            _draw_stream(ax, STREAM, height, height + STEP)
            _draw_box(ax, STREAM, height + STEP / 2, "LN", f"{norm}{number}")
            height += STEP
    _draw_ends(ax, height)


def _draw_parallel(ax: Axes, norm: str) -> None:
    """Draw one branch that splits in two after the norm."""
    end = 4.4
    _draw_stream(ax, STREAM, 0, end)
    middle = BESIDE + 0.85
    for place, kind in ((BESIDE, "ATTN"), (BESIDE + 1.8, "FF")):
        _draw_path(ax, [(middle, 1.0), (middle, 1.9), (place, 1.9), (place, 2.6)])
        _draw_path(ax, [(place, 2.6), (place, end - 0.6)])
        _draw_box(ax, place, 2.7, kind, kind)
    _draw_path(ax, [(STREAM, 0.3), (middle, 0.3), (middle, 1.0)])
    _draw_box(ax, middle, 1.0, "LN", norm)
    _draw_path(ax, [(BESIDE + 1.8, end - 0.6), (STREAM + 0.2, end - 0.6)], arrow=True)
    _draw_sum(ax, end - 0.6, "RES")
    _draw_ends(ax, end)


def _draw_branch(ax: Axes, x: float, start: float, end: float, boxes: list[str], norm: str) -> None:
    _draw_path(ax, [(STREAM, start), (x, start), (x, end), (STREAM + 0.2, end)], arrow=True)
    gap = (end - start) / (len(boxes) + 1)
    for place, kind in enumerate(boxes, 1):
        _draw_box(ax, x, start + gap * place, kind, norm if kind == "LN" else kind)


def _draw_box(ax: Axes, x: float, y: float, kind: str, text: str) -> None:
    edge = BLUE if kind == "LN" else GREY
    corner = (x - BOX_WIDTH / 2 + 0.1, y - BOX_HEIGHT / 2 + 0.1)
    box = FancyBboxPatch(
        corner, BOX_WIDTH - 0.2, BOX_HEIGHT - 0.2, boxstyle="round,pad=0.1", fc=FILLS[kind], ec=edge, lw=1.2
    )
    box.set_zorder(4)
    ax.add_patch(box)
    weight = "bold" if kind == "LN" else "normal"
    ax.text(x, y, text, ha="center", va="center", fontsize=6.5, fontweight=weight, zorder=5)


def _draw_sum(ax: Axes, y: float, text: str) -> None:
    ax.add_patch(Circle((STREAM, y), 0.2, fc="white", ec="black", lw=0.9, zorder=4))
    ax.plot([STREAM - 0.2, STREAM + 0.2], [y, y], c="black", lw=0.8, zorder=5)
    ax.plot([STREAM, STREAM], [y - 0.2, y + 0.2], c="black", lw=0.8, zorder=5)
    ax.text(STREAM - 0.35, y, text, ha="right", va="center", fontsize=6)


def _draw_stream(ax: Axes, x: float, start: float, end: float) -> None:
    ax.plot([x, x], [start, end], c="black", lw=1.0, zorder=2)


def _draw_path(ax: Axes, corners: list[tuple[float, float]], *, arrow: bool = False) -> None:
    ax.plot([x for x, _ in corners], [y for _, y in corners], c="black", lw=0.9, zorder=2)
    if arrow:
        (x, y), (from_x, from_y) = corners[-1], corners[-2]
        head = {"arrowstyle": "-|>", "lw": 0.9, "fc": "black", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
        ax.annotate("", (x, y), (from_x, from_y), arrowprops=head, zorder=3)


def _draw_ends(ax: Axes, top: float) -> None:
    """Draw the input and the output of the residual stream."""
    head = {"arrowstyle": "-|>", "lw": 1.0, "fc": "black", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
    ax.annotate("", (STREAM, top + 0.45), (STREAM, top - 0.05), arrowprops=head, zorder=3)
    ax.plot([STREAM, STREAM], [-0.5, 0], c="black", lw=1.0, zorder=2)


def _explain_no_placement(survey: SurveyData) -> str:
    return (
        f"the survey of {survey.model} was made by an older version, which did not record it; "
        f"repeat it with `{survey.command()}`"
    )


PLACEMENT = Need(
    "surveys that record the position of the norms in a block",
    lambda survey: "norm_placement" in (survey.facts.get("model") or {}),
    _explain_no_placement,
)
COLUMNS = 4


@exhibit(
    "norm-variance/fig21",
    title="Position of the layer norms in a block, read from the model",
    needs=[MODEL, PLACEMENT],
    reads=("layer_norms",),
)
def fig21(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw a block of each model."""
    data = make_placement_table(surveys)
    rows, across = choose_grid(len(data), COLUMNS)
    top = max(TOPS.get(word, 4.6) for word in data["placement"])

    def draw(figure: FigureBase) -> None:
        for ax, row in zip(make_panels(figure, len(data), COLUMNS), data.to_dict("records"), strict=True):
            placement = row["placement"] if row["steps"] else None
            draw_block(ax, placement, "RMS" if row["norm"] == "RMSNorm" else "LN", top)
            name, kind = clean_label(row["survey"], 30), clean_label(row["architecture"], 30)
            ax.set_title(f"{row['label']}\n{name}\n{kind}", fontsize=7)

    caption = (
        "A block of each model with its norms, from the input at the bottom to the output at the top, as read "
        "from the running model. ATTN: attention. FF: feed-forward. RES: a branch is added to the residual "
        "stream. LN: layer norm. RMS: RMSNorm."
    )
    return Plate(data, caption, draw, (max(3.4, 1.8 * across), (0.29 * top + 0.8) * rows))
