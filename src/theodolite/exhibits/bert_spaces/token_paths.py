"""fig20, fig21 and fig22: the paths of tokens through the layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.panels import legend_columns
from theodolite.exhibits.drawing.scatter import draw_names, sample_line
from theodolite.exhibits.drawing.style import BLACK, COLOURS, DASHES, GREY, MARKERS, LineStyle, get_line_style
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import require_laboratory
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels

TRACE = require_laboratory("trace", "theodolite trace MODEL SENTENCE... --out DIR")
PATH_PANELS = {"without-last": "without the last layer", "all": "with the last layer"}
MOST_NAMED = 14  # tokens; more names would hide the paths
TOKEN_COLOURS = COLOURS[:-1]  # black is the mean
HEIGHT = 3.1


@exhibit(
    "bert-spaces/fig20",
    title="Paths of all tokens through the layers, with and without the last layer",
    needs=[TRACE],
    reads=(),
)
def fig20(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the paths of all tokens except those that are massive at some layer, which would hide the others."""
    return _make_paths(surveys, "without-massive", "Paths of all tokens through the layers")


@exhibit("bert-spaces/fig21", title="Paths of a few tokens through the layers", needs=[TRACE], reads=())
def fig21(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the paths of the chosen tokens on their own principal components."""
    return _make_paths(surveys, "chosen", "Paths of a few tokens through the layers (numbers)")


def _make_paths(surveys: Sequence[SurveyData], tokens: str, first: str) -> Plate:
    names = make_labels(surveys)
    blocks = [
        (clean_label(f"{name} {stack}".strip()), points, shares)
        for survey, name in zip(surveys, names, strict=True)
        for stack, points, shares in _read_paths(survey, tokens)
    ]
    sentences = max(int(points["sentence"].max()) + 1 for _, points, _ in blocks)

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False).ravel()
        for part, (name, points, shares) in zip(parts, blocks, strict=True):
            part.suptitle(name, fontsize=9)
            shown = [layers for layers in PATH_PANELS if (points["layers"] == layers).any()]
            axes = part.subplots(1, len(shown), squeeze=False)[0]
            named = choose_named(points[points["layers"] == shown[0]], few=tokens == "chosen")
            for ax, layers in zip(axes, shown, strict=True):
                inside = points[points["layers"] == layers]
                _draw_paths(ax, inside, named, few=tokens == "chosen")
                _label_axes(ax, shares[shares["layers"] == layers])
                ax.set_title(PATH_PANELS[layers])
        figure.legend(handles=_path_handles(sentences), loc="outside lower center", ncols=4)

    data = pd.concat([points.assign(model=name) for name, points, _ in blocks], ignore_index=True)
    caption = join_sentences(
        f"{first}, on the first two principal components of all points shown"
        + ("" if tokens == "chosen" else ", which emphasise directions that all tokens share")
        + ".",
        _quote_sentences(surveys),
        *(
            _describe_massive(survey, name)
            for survey, name in zip(surveys, names, strict=True)
            if tokens != "chosen"
        ),
        *(_describe_last_layer(survey, name) for survey, name in zip(surveys, names, strict=True)),
        _describe_names([points for _, points, _ in blocks]) if tokens != "chosen" else "",
    )
    return Plate(data, caption, draw, (7.0, HEIGHT * len(blocks) + 0.3))


def _read_paths(survey: SurveyData, tokens: str) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Return, for each stack, the points with their tokens, and the shares of variance."""
    points, shares, spelled = get_tables(survey, ["projection", "shares", "tokens"])
    points = points[points["tokens"] == tokens].merge(
        spelled[["stack", "sentence", "position", "token", "special"]], on=["stack", "sentence", "position"]
    )
    shares = shares[shares["tokens"] == tokens]
    return [
        (stack, points[points["stack"] == stack], shares[shares["stack"] == stack])
        for stack in points["stack"].unique()
    ]


def _draw_paths(ax: Axes, points: pd.DataFrame, named: pd.DataFrame, *, few: bool) -> None:
    for _, path in points.groupby(["sentence", "position"]):
        ordered, line = path.sort_values("layer"), get_line_style(int(path["sentence"].iloc[0]))
        x, y = ordered["x"].to_numpy(), ordered["y"].to_numpy()
        ax.plot(x, y, c=line.colour, ls=line.dash, lw=1.1 if few else 0.8, alpha=0.9 if few else 0.75, zorder=2)
        if few:
            ax.plot(x, y, c=line.colour, ls="", marker=line.marker, ms=3, zorder=3)
    first, last = points["layer"].min(), points["layer"].max()
    start, end = points[points["layer"] == first], points[points["layer"] == last]
    ax.scatter(start["x"], start["y"], s=13, c=BLACK, linewidths=0.4, edgecolors="white", zorder=5)
    ax.scatter(
        end["x"], end["y"], s=13, marker="s", facecolors="white", edgecolors=BLACK, linewidths=0.7, zorder=5
    )
    ax.margins(0.1)
    if few:
        _number_layers(ax, points)
    names = start.merge(named[["sentence", "position"]], on=["sentence", "position"])
    lines = [
        sample_line(path.sort_values("layer")[["x", "y"]].to_numpy(np.float64))
        for _, path in points.groupby(["sentence", "position"])
    ]
    at = names[["x", "y"]].to_numpy(np.float64)
    draw_names(ax, names["token"].str.strip().tolist(), at, (3.0, 2.3), np.concatenate(lines))


def choose_named(points: pd.DataFrame, *, few: bool, most: int = MOST_NAMED) -> pd.DataFrame:
    """Return the first points of the tokens to name: all, or `most` that are far from each other.

    Tokens that are equal at the same position of two sentences are named once, equal tokens of `few` paths too.
    """
    start = points[points["layer"] == points["layer"].min()]
    tokens: pd.DataFrame = start.drop_duplicates("token" if few else ["token", "position"])
    if len(tokens) <= most:
        return tokens
    at = tokens[["x", "y"]].to_numpy(np.float64)
    at = at / np.maximum(np.ptp(at, axis=0), 1e-300)
    chosen = [int(np.square(at - at.mean(axis=0)).sum(axis=1).argmax())]
    while len(chosen) < most:
        chosen.append(int(np.square(at[:, None] - at[chosen]).sum(axis=2).min(axis=1).argmax()))
    return tokens.iloc[sorted(chosen)]


def _describe_names(blocks: Sequence[pd.DataFrame]) -> str:
    most = max(len(points.drop_duplicates(["token", "position"])) for points in blocks)
    return f"{MOST_NAMED} tokens that are far from each other are named, of {most}." if most > MOST_NAMED else ""


def _number_layers(ax: Axes, points: pd.DataFrame) -> None:
    """Write the numbers of the layers beside the first path, without overlaps."""
    path = points[points["sentence"] == points["sentence"].min()]
    path = path[path["position"] == path["position"].min()].sort_values("layer")
    gap = 0.06 * np.array([np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())])
    written = path[["x", "y"]].to_numpy(np.float64)[:1]
    for row in path.iloc[1:].to_dict("records"):
        point = np.array([row["x"], row["y"]])
        if (np.abs(written - point) / gap).max(axis=1).min() >= 1:
            ax.annotate(str(row["layer"]), (row["x"], row["y"]), (3, 3), textcoords="offset points", fontsize=6)
            written = np.vstack([written, point])


def _label_axes(ax: Axes, shares: pd.DataFrame) -> None:
    known = shares.set_index("axis")["share"]
    ax.set_xlabel(f"first component ({known['x']:.0%})" if known.notna()["x"] else "first component")
    ax.set_ylabel(f"second component ({known['y']:.0%})" if known.notna()["y"] else "second component")


def _path_handles(sentences: int) -> list[Line2D]:
    lines = [get_line_style(number) for number in range(min(sentences, 6))]
    return [
        *(
            Line2D([], [], c=line.colour, ls=line.dash, lw=1.1, label=f"sentence {number}")
            for number, line in enumerate(lines, 1)
        ),
        Line2D([], [], ls="", marker="o", ms=4, c=BLACK, label="first layer shown"),
        Line2D([], [], ls="", marker="s", ms=4, mfc="white", mec=BLACK, label="last layer shown"),
    ]


def _quote_sentences(surveys: Sequence[SurveyData]) -> str:
    texts = dict.fromkeys(text for survey in surveys for text in survey.facts["settings"]["sentences"])
    return (
        "Sentences: "
        + "; ".join(f"“{text}”" for text in list(texts)[:6])
        + ("; …" if len(texts) > 6 else "")
        + "."
    )


def _describe_massive(survey: SurveyData, name: str) -> str:
    (spelled,) = get_tables(survey, ["tokens"])
    massive = spelled[spelled["massive"]]
    if massive.empty:
        return ""
    words = ", ".join(
        dict.fromkeys(f"{row['token'].strip()} at {row['position']}" for row in massive.to_dict("records"))
    )
    return f"{name}: omitted because their norm exceeds 10 times the median of a layer: {words}."


def _describe_last_layer(survey: SurveyData, name: str) -> str:
    return f"The last layer of {name} is {list(survey.layer_names.values())[-1]}."


STEP_PANELS = {
    "step": "length of the step",
    "cosine": "cosine with the previous layer",
    "norm": "norm",
    "radial_part": "radial part of the squared step",
}
MOST_IN_LEGEND = 30
WIDE_RANGE = 50.0  # axes of lengths with a wider range are logarithmic
COLUMNS = "layer layer_name position token special massive step radial tangential cosine angle norm".split()


@exhibit(
    "bert-spaces/fig22",
    title="Length, cosine and norm of the steps of tokens from layer to layer",
    needs=[TRACE],
    reads=(),
)
def fig22(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw four numbers of every token of the first sentence by layer, and their mean."""
    names = make_labels(surveys)
    blocks = [
        (clean_label(f"{name} {stack}".strip()), path, moves)
        for survey, name in zip(surveys, names, strict=True)
        for stack, path, moves in _read_steps(survey)
    ]

    def draw(figure: FigureBase) -> None:
        parts = figure.subfigures(len(blocks), 1, squeeze=False).ravel()
        for part, (name, path, moves) in zip(parts, blocks, strict=True):
            _draw_steps(part, name, path, moves)

    data = pd.concat([path.assign(model=name) for name, path, _ in blocks], ignore_index=True)
    caption = join_sentences(
        "Steps from layer to layer of each token of "
        + "; ".join(dict.fromkeys(f"“{survey.facts['settings']['sentences'][0]}”" for survey in surveys))
        + ".",
        "Black: mean over the coloured tokens, that is, without special tokens and tokens whose norm exceeds 10 "
        "times the median of a layer (grey). Radial part of a step from x to y: (|y| − |x|)²/|y − x|²; the "
        "remainder is a change of direction.",
        *(_describe_shared_direction(name, moves) for name, _, moves in blocks),
    )
    return Plate(data, caption, draw, (7.0, 4.6 * len(blocks)))


def _read_steps(survey: SurveyData) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    path, moves, spelled = get_tables(survey, ["path", "moves", "tokens"])
    keys = ["stack", "sentence", "position"]
    path = path.drop(columns=["special", "massive"]).merge(
        spelled[[*keys, "token", "special", "massive"]], on=keys
    )
    path = path[path["sentence"] == 0].assign(radial_part=lambda t: np.square(t["radial"] / t["step"]))
    moves = moves[moves["sentence"] == 0].assign(radial_part=lambda t: t["radial_share"])
    return [
        (stack, path[path["stack"] == stack], moves[moves["stack"] == stack]) for stack in path["stack"].unique()
    ]


def _draw_steps(figure: FigureBase, name: str, path: pd.DataFrame, moves: pd.DataFrame) -> None:
    figure.suptitle(name, fontsize=9)
    axes = figure.subplots(2, 2).ravel()
    tokens = [token for _, token in path.groupby("position")]
    styles = _token_styles(tokens)
    for ax, (column, label) in zip(axes, STEP_PANELS.items(), strict=True):
        for token, style in zip(tokens, styles, strict=True):
            lines = {"c": style.colour, "ls": style.dash, "marker": style.marker}
            ax.plot(token["layer"], token[column], ms=2.4, lw=0.9, alpha=0.85, **lines)
        ax.plot(moves["layer"], moves[column], c=BLACK, lw=2.0, zorder=5)
        _format_step_panel(ax, column, label, path)
    handles, labels = [Line2D([], [], c=BLACK, lw=2.0)], ["mean"]
    if len(tokens) <= MOST_IN_LEGEND:
        labels += name_tokens([token["token"].iloc[0] for token in tokens])
        handles += [token_handle(style) for style in styles]
    else:
        labels += ["tokens", "special or massive tokens"]
        handles += [token_handle(LineStyle(colour, "o", "-")) for colour in (TOKEN_COLOURS[0], GREY)]
    figure.legend(handles, labels, loc="outside lower center", ncols=min(9, legend_columns(labels, 7.0)))


def token_style(number: int) -> LineStyle:
    """Return the style of token `number`. Six colours repeat with another dash and marker."""
    again, colour = divmod(number, len(TOKEN_COLOURS))
    return LineStyle(TOKEN_COLOURS[colour], MARKERS[again % len(MARKERS)], DASHES[again % len(DASHES)])


def token_handle(style: LineStyle, width: float = 0.9) -> Line2D:
    """Return the sample of a line for a legend."""
    return Line2D([], [], c=style.colour, marker=style.marker, ls=style.dash, ms=3, lw=width)


def name_tokens(tokens: Sequence[str]) -> list[str]:
    """Return the names of the tokens of a sentence; tokens that occur again are numbered.

    >>> name_tokens(["the", " cat", "the"])
    ['the', 'cat', 'the (2)']
    """
    names = [clean_label(token.strip() or "␣", 12) for token in tokens]
    return [
        f"{name} ({names[: place + 1].count(name)})" if name in names[:place] else name
        for place, name in enumerate(names)
    ]


def _token_styles(tokens: Sequence[pd.DataFrame]) -> list[LineStyle]:
    """Return the styles of tokens: coloured, or grey if they do not count in the mean."""
    excluded = [bool(token["special"].iloc[0] or token["massive"].iloc[0]) for token in tokens]
    styles = map(token_style, range(len(tokens)))
    grey = (LineStyle(GREY, MARKERS[at % len(MARKERS)], DASHES[at % len(DASHES)]) for at in range(len(tokens)))
    return [next(grey) if out else next(styles) for out in excluded]


def _format_step_panel(ax: Axes, column: str, label: str, path: pd.DataFrame) -> None:
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
            shorten_ticks(ax)
    else:
        ax.set_ylim(min(-0.03, ax.get_ylim()[0]), 1.03)


def _describe_shared_direction(name: str, moves: pd.DataFrame) -> str:
    """State how similar the steps of different tokens are."""
    shared = moves["shared_direction"].dropna()
    if shared.empty:
        return ""
    return (
        f"{name}: mean cosine between the steps of two tokens {shared.min():.2f} to {shared.max():.2f} by layer, "
        f"median {shared.median():.2f}."
    )
