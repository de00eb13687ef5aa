"""fig24, fig24-layers, table6 and table7: difference vectors of sentence pairs, and cosines of class means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.panels import PAGE_WIDTH, legend_columns, legend_inches, make_panels, panels_size
from theodolite.exhibits.drawing.style import BLUE, GREY, PALE, LineStyle, get_line_style
from theodolite.exhibits.drawing.tables import make_table_plate
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import Need, require_laboratory
from theodolite.exhibits.registry import exhibit, one_layer
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables, make_labels
from theodolite.text import describe_pooling, format_fixed, format_scientific

CONTRAST = require_laboratory("contrast", "theodolite contrast MODEL PAIRS.json --out DIR")
MEAN = 0  # the number of the pair that is the mean of a class
MOST_PANELS = 9


@exhibit(
    "bert-spaces/fig24",
    title="Difference vectors of sentence pairs and their means",
    needs=[CONTRAST],
    options=("layer",),
    reads=(),
)
def fig24(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the difference of every pair on the four strongest directions, and the class means as arrows."""
    names = make_labels(surveys)
    layers = [one_layer(choice, last_layer(survey)) for survey in surveys]
    tables = [_select_layer(get_tables(s, ["points"])[0], k) for s, k in zip(surveys, layers, strict=True)]
    shares = [
        _select_layer(get_tables(s, ["axes"])[0], k)["share"].tolist()
        for s, k in zip(surveys, layers, strict=True)
    ]
    classes = list(dict.fromkeys(name for table in tables for name in table["class"]))
    styles = {name: get_line_style(number) for number, name in enumerate(classes)}
    lengths = [_select_layer(get_tables(s, ["classes"])[0], k) for s, k in zip(surveys, layers, strict=True)]
    labels = [f"{clean_label(name)}{_format_drawn(name, tables, lengths)}" for name in classes]
    size = PAGE_WIDTH, 2.9 * len(surveys) + legend_inches(labels, PAGE_WIDTH)

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(len(surveys), 2, squeeze=False)
        for across, name, layer, table, share, survey in zip(
            axes, names, layers, tables, shares, surveys, strict=True
        ):
            for ax, first in zip(across, (1, 3), strict=True):
                _draw_plane(ax, table, f"d{first}", f"d{first + 1}", styles)
                ax.set_xlabel(f"direction {first} ({share[first - 1]:.0%})")
                ax.set_ylabel(f"direction {first + 1} ({share[first]:.0%})")
                ax.set_title(f"{clean_label(name, 34)}, {survey.layer_names[layer]}")
        handles = [_point_handle(styles[name]) for name in classes]
        figure.legend(handles, labels, loc="outside upper center", ncols=legend_columns(labels, PAGE_WIDTH))

    caption = join_sentences(
        "Difference between the vectors of the two sentences of a pair (second minus first, one mark per pair) "
        "and the mean of each class (arrow from 0), on the four directions with the largest share of the squared "
        "length (in brackets). Cross: 0, no difference. The directions are not centred at the mean. Percentage of "
        "a class: share of the squared length of its mean in these four directions; marks of a class with a small "
        "share pile up at 0, although its differences are not small.",
        describe_sources(surveys),
    )
    data = pd.concat(
        [add_survey_column(table, name) for name, table in zip(names, tables, strict=True)], ignore_index=True
    )
    return Plate(data, caption, draw, size)


@exhibit(
    "bert-spaces/fig24-layers",
    title="Cosines between mean differences of two classes by layer, with intervals",
    needs=[CONTRAST],
    reads=(),
)
def fig24_layers(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Draw the cosines of class means by layer, one panel for each of the largest, one line per folder."""
    names = make_labels(surveys)
    tables = [
        add_survey_column(get_tables(survey, ["cosines"])[0], name)
        for survey, name in zip(surveys, names, strict=True)
    ]
    data = pd.concat(tables, ignore_index=True)
    strongest = data.assign(size=data["cosine"].abs()).groupby(["class_a", "class_b"], sort=False)["size"].max()
    chosen = list(strongest.dropna().sort_values(ascending=False, kind="stable").head(MOST_PANELS).index)
    size = panels_size(max(len(chosen), 1), height=1.7, legend=legend_inches(names, 7.0))

    def draw(figure: FigureBase) -> None:
        if not chosen:
            figure.text(0.5, 0.5, "fewer than two classes, or no direction at any layer", ha="center", fontsize=8)
            return
        for ax, (a, b) in zip(make_panels(figure, len(chosen)), chosen, strict=True):
            for number, name in enumerate(names):
                rows = data[(data["survey"] == name) & (data["class_a"] == a) & (data["class_b"] == b)]
                _draw_by_layer(ax, rows, get_line_style(number), single=len(names) == 1)
            ax.axhline(0, c=GREY, lw=0.6, zorder=1)
            ax.set_ylim(-1.02, 1.02)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
            ax.set_title(f"{clean_label(a, 22)} and {clean_label(b, 22)}", fontsize=7)
            ax.set_xlabel("layer")
            ax.set_ylabel("cosine")
        if len(names) > 1:
            handles = [_line_handle(get_line_style(number)) for number in range(len(names))]
            model_labels = [clean_label(name) for name in names]
            figure.legend(
                handles, model_labels, loc="outside upper center", ncols=legend_columns(model_labels, 7.0)
            )

    band = "Pale band: 95% of the cosines of random words in the same sentences. " if len(names) == 1 else ""
    total = len(strongest)
    which = f"the {len(chosen)} largest of {total}" if total > len(chosen) else "all"
    caption = join_sentences(
        f"Cosines between the mean differences of two classes of sentence pairs by layer, {which}. Bars: 95% "
        f"intervals by bootstrap over pairs. {band}Filled: the verdict is “sure” at that layer (adjusted p and "
        "interval, and larger than for random words).",
        describe_sources(surveys),
    )
    return Plate(data, caption, draw, size)


def last_layer(survey: SurveyData) -> int:
    """Return the last layer in the folder of a laboratory."""
    return list(survey.layer_names)[-1]


def describe_sources(surveys: Sequence[SurveyData]) -> str:
    """Name the models and their pairs, and how sentences were pooled."""
    sentences = [
        f"{survey.model} on {survey.corpus} ({survey.documents} pairs; "
        f"{describe_pooling(survey.facts['settings'])})"
        for survey in surveys
    ]
    return "; ".join(dict.fromkeys(sentences)) + "."


def _draw_plane(ax: Axes, table: pd.DataFrame, across: str, up: str, styles: dict[str, LineStyle]) -> None:
    ax.plot(0, 0, "+", c=GREY, ms=9, mew=1.2, zorder=1)
    for name, rows in table.groupby("class", sort=False):
        style = styles[str(name)]
        pairs, mean = rows[rows["pair"] != MEAN], rows[rows["pair"] == MEAN]
        x, y = pairs[across].to_numpy(np.float64), pairs[up].to_numpy(np.float64)
        marks: dict[str, Any] = {"facecolors": "none", "edgecolors": style.colour, "marker": style.marker}
        ax.scatter(x, y, s=15, linewidths=0.9, zorder=2, **marks)  # open, so that marks at one place are all seen
        ends = (float(mean[across].iloc[0]), float(mean[up].iloc[0]))
        arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": style.colour, "lw": 1.6, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=ends, xytext=(0, 0), arrowprops=arrow, zorder=4)
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    shorten_ticks(ax)


def _draw_by_layer(ax: Axes, rows: pd.DataFrame, style: LineStyle, *, single: bool) -> None:
    layer, cosine, low, high = (rows[name].to_numpy(np.float64) for name in ("layer", "cosine", "low", "high"))
    if single:
        band = [rows[name].to_numpy(np.float64) for name in ("reference_low", "reference_high")]
        ax.fill_between(layer, band[0], band[1], color=PALE, alpha=0.35, lw=0, zorder=0)
    ax.vlines(layer, low, high, color=style.colour, lw=1.0, zorder=2)
    colour = style.colour if not single else BLUE
    ax.plot(layer, cosine, c=colour, ls=style.dash, lw=1.0, marker=style.marker, ms=3.4, mfc="white", zorder=3)
    sure = rows["verdict"].eq("sure").to_numpy(bool)
    ax.plot(layer[sure], cosine[sure], c=colour, ls="", marker=style.marker, ms=3.4, zorder=4)


def _select_layer(table: pd.DataFrame, layer: int) -> pd.DataFrame:
    return table[table["layer"] == layer]


def _format_drawn(name: str, tables: Sequence[pd.DataFrame], classes: Sequence[pd.DataFrame]) -> str:
    """Return the share of the squared length of a class's mean that is drawn, of each model, in brackets."""
    shares = []
    for table, lengths in zip(tables, classes, strict=True):
        mean = table[(table["class"] == name) & (table["pair"] == MEAN)][["d1", "d2", "d3", "d4"]].to_numpy()
        square = np.square(lengths.loc[lengths["class"] == name, "length_of_mean"].to_numpy(np.float64))
        shares.append(f"{np.square(mean).sum() / square[0]:.0%}" if len(mean) and square[0] > 0 else "–")
    return f" ({', '.join(shares)})"


def _point_handle(style: LineStyle) -> Line2D:
    return Line2D([], [], c=style.colour, marker=style.marker, mfc="none", ls="", ms=4)


def _line_handle(style: LineStyle) -> Line2D:
    return Line2D([], [], c=style.colour, marker=style.marker, ls=style.dash, ms=3.5, lw=1.1)


@exhibit(
    "bert-spaces/table6", title="Sentence pairs: classes and examples", kind="table", needs=[CONTRAST], reads=()
)
def table6(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List an example of each class of pairs, the number of pairs, and other differences between the sentences."""
    files: dict[str, pd.DataFrame] = {}
    for survey in surveys:
        pairs = get_tables(survey, ["pairs"])[0]
        if not any(pairs.equals(other) for other in files.values()):
            files[survey.corpus if survey.corpus not in files else f"{survey.corpus} ({len(files) + 1})"] = pairs
    data = pd.concat([add_survey_column(pairs, name) for name, pairs in files.items()], ignore_index=True)
    shown = pd.concat([_format_classes(pairs) for pairs in files.values()], ignore_index=True)
    caption = join_sentences(
        "One example per class of pairs; the .csv and .json formats have all pairs. Pairs: number of pairs. "
        "Exchanges: number of different words that are exchanged. Punctuation and Tokens: number of pairs whose "
        "sentences differ in punctuation, and in the number of tokens.",
        f"{', '.join(files)}.",
    )
    return make_table_plate(data, shown, caption)


RANDOM_WORDS = Need(
    "folders with the test against random words",
    lambda survey: "reference_p_holm" in survey.tables.get("cosines", ()),
    lambda survey: f"that of {survey.model} was made by an older version; run `theodolite contrast` again",
)


@exhibit(
    "bert-spaces/table7",
    title="Cosines between mean differences of two classes, with intervals and p-values",
    kind="table",
    needs=[CONTRAST, RANDOM_WORDS],
    options=("layers",),
    reads=(),
)
def table7(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List the cosine between the means of every two classes at a layer, with its interval and p-values."""
    names = make_labels(surveys)
    tables = []
    for survey, name in zip(surveys, names, strict=True):
        cosines = get_tables(survey, ["cosines"])[0]
        layers = choice.layers or (one_layer(choice, last_layer(survey)),)
        tables.append(add_survey_column(cosines[cosines["layer"].isin(layers)], name))
    data = pd.concat(tables, ignore_index=True)
    caption = join_sentences(
        "Cosines between the mean differences of two classes of sentence pairs. 95%: interval by bootstrap over "
        "pairs; by word, by template: over groups of pairs with the same words or the same template (–: there is "
        "only one). p: by flipping the order within pairs, the larger one of the two classes; it asks whether "
        "these words give this cosine in other sentences. random: 95% of the cosines of random words exchanged in "
        "the same sentences, and p of one as far from 0; it asks whether other words would do the same. adjusted: "
        "by Holm's method within a layer. SEAT, WEAT: effect size d of the association test with sentence vectors "
        "and with rows of the input table, and p by permutation. Verdict: sure: not 0 by all intervals and the "
        "adjusted p, and larger than for random words by the adjusted p; hint: only without adjustment; small: "
        "not 0, but not larger than for random words; open: can be 0.",
        describe_sources(surveys),
    )
    return make_table_plate(
        data, _format_cosines(data, several=len(surveys) > 1, layers=data["layer"].nunique() > 1), caption
    )


def _format_classes(pairs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name, members in pairs.groupby("class", sort=False):
        example = members.iloc[0]
        rows.append(
            {
                "Class": str(name),
                "Pairs": str(len(members)),
                "First sentence": str(example["a"]),
                "Second sentence": str(example["b"]),
                "Exchanges": str(members["swap"].nunique()),
                "Punctuation": str(int(members["punctuation_differs"].sum())),
                "Tokens": str(int(members["tokens_differ"].sum())),
            }
        )
    return pd.DataFrame(rows)


def _format_cosines(data: pd.DataFrame, *, several: bool, layers: bool) -> pd.DataFrame:
    shown = pd.DataFrame()
    if several:
        shown["Model"] = data["survey"]
    if layers:
        shown["Layer"] = data["layer_name"]
    shown["Class"], shown["and"] = data["class_a"], data["class_b"]
    shown["Cosine"] = [_fixed(value) for value in data["cosine"]]
    shown["95%"] = _format_intervals(data, "low", "high")
    for kind in ("word", "template"):
        shown[f"by {kind}"] = _format_intervals(data, f"{kind}_low", f"{kind}_high")
    shown["p"], shown["adjusted"] = _format_p(data["p"]), _format_p(data["p_holm"])
    shown["random"] = _format_intervals(data, "reference_low", "reference_high")
    shown["p random"], shown["adjusted "] = _format_p(data["reference_p"]), _format_p(data["reference_p_holm"])
    for column in ("seat", "weat"):
        tests = zip(data[column], _format_p(data[f"{column}_p"]), strict=True)
        shown[column.upper()] = [f"{_fixed(effect)} ({p})" if effect == effect else "–" for effect, p in tests]
    shown["Verdict"] = data["verdict"]
    return shown.astype(str)


def _format_p(values: pd.Series) -> list[str]:
    return [format_scientific(value, 2) for value in values]


def _format_intervals(data: pd.DataFrame, low: str, high: str) -> list[str]:
    ends = zip(data[low], data[high], strict=True)
    return [f"[{_fixed(a)}, {_fixed(b)}]" if a == a else "–" for a, b in ends]


def _fixed(value: float) -> str:
    return format_fixed(value).replace("-", "−")
