"""fig22: step lengths, cosines and norms along the paths of one sentence's tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.bert_spaces.token_paths import TRACE
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.layer_lines import legend_columns
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.style import BLACK, GREY, look
from theodolite.exhibits.text import plain
from theodolite.exhibits.ticks import short_ticks
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels

PANELS = {
    "step": "length of the step",
    "cosine": "cosine with the layer before",
    "norm": "norm",
    "radial_part": "radial part of the squared step",
}
MOST_NAMED = 16
WIDE_RANGE = 50.0  # from here on an axis of lengths is logarithmic
COLUMNS = "layer layer_name position token special massive step radial tangential cosine angle norm".split()


@exhibit(
    "bert-spaces/fig22", title="Step lengths, cosines and norms along the paths of tokens", needs=[TRACE], reads=()
)
def fig22(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw four numbers of every token of the first sentence by layer, and the mean over its text."""
    names = labels(surveys)
    blocks = [
        (plain(f"{name} {stack}".strip()), path, moves)
        for survey, name in zip(surveys, names, strict=True)
        for stack, path, moves in _stacks(survey)
    ]

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False).ravel()
        for part, (name, path, moves) in zip(parts, blocks, strict=True):
            _draw_block(part, name, path, moves)

    data = pd.concat([path.assign(model=name) for name, path, _ in blocks], ignore_index=True)
    told = caption(
        "Steps from layer to layer of each token of "
        + "; ".join(dict.fromkeys(f"“{survey.facts['settings']['sentences'][0]}”" for survey in surveys))
        + ".",
        "Black: mean over its text, without special tokens and those whose norm is over 10 times their layer's "
        "median somewhere (grey). Radial part: (|y| − |x|)² over |y − x|², the rest being turned.",
        *(_shared(name, moves) for name, _, moves in blocks),
    )
    return Plate(data, told, draw, (7.0, 4.6 * len(blocks)))


def _stacks(survey: Surveyed) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    path, moves, spelled = tables_of(survey, ["path", "moves", "tokens"])
    keys = ["stack", "sentence", "position"]
    path = path.drop(columns=["special", "massive"]).merge(
        spelled[[*keys, "token", "special", "massive"]], on=keys
    )
    path = path[path["sentence"] == 0].assign(radial_part=lambda t: np.square(t["radial"] / t["step"]))
    moves = moves[moves["sentence"] == 0].assign(radial_part=lambda t: t["radial_share"])
    return [
        (stack, path[path["stack"] == stack], moves[moves["stack"] == stack]) for stack in path["stack"].unique()
    ]


def _draw_block(figure: FigureBase, name: str, path: pd.DataFrame, moves: pd.DataFrame) -> None:
    figure.suptitle(name, fontsize=9)
    axes = figure.subplots(2, 2).ravel()
    tokens = [token for _, token in path.groupby("position")]
    for ax, (column, label) in zip(axes, PANELS.items(), strict=True):
        for number, token in enumerate(tokens):
            _draw_token(ax, token, column, number)
        ax.plot(moves["layer"], moves[column], c=BLACK, lw=2.0, zorder=5)
        _finish(ax, column, label, path)
    if len(tokens) <= MOST_NAMED:
        names = [plain(token["token"].iloc[0].strip() or "␣", 12) for token in tokens]
        handles = [_handle(token, number) for number, token in enumerate(tokens)]
        figure.legend(handles, names, loc="outside lower center", ncols=min(9, legend_columns(names, 7.0)))


def _draw_token(ax: Axes, token: pd.DataFrame, column: str, number: int) -> None:
    style = {"c": _colour(token, number), "ls": look(number).dash, "lw": 0.9, "alpha": 0.85}
    ax.plot(token["layer"], token[column], marker=look(number).marker, ms=2.4, **style)


def _handle(token: pd.DataFrame, number: int) -> Line2D:
    line = look(number)
    return Line2D([], [], c=_colour(token, number), marker=line.marker, ls=line.dash, ms=3, lw=0.9)


def _colour(token: pd.DataFrame, number: int) -> str:
    aside = bool(token["special"].iloc[0] or token["massive"].iloc[0])
    return GREY if aside else look(number).colour


def _finish(ax: Axes, column: str, label: str, path: pd.DataFrame) -> None:
    ax.set_title(label)
    ax.set_xlabel("layer")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    known = path[column].to_numpy(np.float64)
    known = known[np.isfinite(known) & (known > 0)]
    if column in ("step", "norm"):
        if len(known) and known.max() > WIDE_RANGE * known.min():
            ax.set_yscale("log")
        else:
            ax.set_ylim(bottom=0)
            short_ticks(ax)
    else:
        ax.set_ylim(min(-0.03, ax.get_ylim()[0]), 1.03)


def _shared(name: str, moves: pd.DataFrame) -> str:
    """Say how alike the tokens move, which a projection alone suggests."""
    shared = moves["shared_direction"].dropna()
    if shared.empty:
        return ""
    return (
        f"{name}: mean cosine between the steps of two tokens {shared.min():.2f} to {shared.max():.2f} by layer, "
        f"median {shared.median():.2f}."
    )
