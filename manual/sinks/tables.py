"""The tables of docs/sinks.md, made from the files in docs/tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from manual.reference_surveys import read_reference_table
from theodolite.studies.anisotropy.layers import Z
from theodolite.text import format_number

DOCS = Path(__file__).parents[2] / "docs"
KINDS = ("populations", "shapes", "norms", "units", "thresholds", "writes")
TABLES = {kind: DOCS / "tables" / f"sinks-{kind}.csv" for kind in KINDS}
KEY = ["model", "corpus"]
TEXT_KINDS = ("encoder", "decoder")
SHOWN = {
    "all": "all positions",
    "without-first": "without first",
    "without-sinks": "without sinks",
    "rest": "rest",
}
MEASURES = {
    "anisotropy_svd": "SVD anisotropy",
    "effective_rank": "effective rank",
    "mean_cosine": "mean cosine",
    "q": "Q",
}
Rows = list[list[str]]
ROUNDING = 1e-12
CHANGED = 0.05
"""The change of SVD anisotropy from which a layer of a model that does not read text is listed."""


@cache
def read(kind: str) -> pd.DataFrame:
    """Return one of the tables in docs/tables; missing numbers are NaN, and empty texts are empty."""
    text = ("model", "corpus", "population", "layer_name", "shape", "sort", "part", "text")
    path = TABLES[kind]
    empty = [name for name in pd.read_csv(path, nrows=0).columns if name not in text]
    return pd.read_csv(path, keep_default_na=False, na_values={name: [""] for name in empty})


def format_interval(value: float, error: float, digits: int = 3) -> str:
    """Return a number and half its 95% interval, with the decimals of the latter, or the number by itself.

    >>> format_interval(0.99632, 0.00041), format_interval(0.5, float("nan"))
    ('0.9963 ± 0.0008', '0.5')
    >>> format_interval(181.2, 3.1), format_interval(1.0, 0.0)
    ('181 ± 6', '1')
    """
    if not math.isfinite(value):
        return "–"
    half = Z * error
    if not half > ROUNDING:
        return format_number(value if abs(value) > ROUNDING else 0.0, digits)
    decimals = max(0, -math.floor(math.log10(half)))
    return f"{value:,.{decimals}f} ± {half:,.{decimals}f}".replace("-", "\u2212")


def render(heads: Sequence[str], rows: Rows) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]
    return "\n".join(lines) + "\n"


def _each(table: pd.DataFrame) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """Yield the rows of each model and corpus, with the cells that name them."""
    for (model, corpus), part in table.groupby(KEY, sort=False):
        yield [f"`{model}`", str(corpus).removesuffix(".txt")], part


def _counts() -> tuple[Sequence[str], Rows]:
    """How many positions of each sort there are; a window has one first position."""
    rows = []
    sinks = read("units")
    for names, part in _each(read("norms")):
        layer = part[part["layer"] == 0].set_index("sort")
        n = layer["n"].sum()
        of = sinks[(sinks["model"] == part["model"].iloc[0]) & (sinks["corpus"] == part["corpus"].iloc[0])]
        first = int(of.loc[of["position"] == 0, "n"].sum())
        others = int(layer.loc["other sinks", "n"])
        cells = (n, layer.loc["first", "n"], first, others, layer.loc["delimiters", "n"])
        kind = "decoder" if part["causal"].iloc[0] else "encoder"
        rows.append([*names, kind, *(f"{int(cell):,}" for cell in cells)])
    heads = ("model", "corpus", "kind", "positions", "first", "of these sinks", "other sinks", "other delimiters")
    return heads, rows


def _shape(shape: str, write: Callable[[pd.Series, pd.DataFrame], str]) -> tuple[Sequence[str], Rows]:
    rows = []
    for names, part in _each(read("shapes")[read("shapes")["shape"] == shape]):
        of = part.set_index("population")
        rows.append([*names, *(write(of.loc[population], part) for population in SHOWN)])
    return ("model", "corpus", *SHOWN.values()), rows


def _bell() -> tuple[Sequence[str], Rows]:
    """The height of the bell over the higher end of the curve, and its layer."""
    return _shape("bell", lambda row, _: f"{format_interval(row['value'], row['se'])} at {row['layer']:.0f}")


def _growth() -> tuple[Sequence[str], Rows]:
    """By which factor Q grows from the first block to the last."""

    def write(row: pd.Series, _: pd.DataFrame) -> str:
        low, high = (10 ** (row["value"] + sign * Z * row["se"]) for sign in (-1, 1))
        ends = f" [{format_number(low, 3)}, {format_number(high, 3)}]" if math.isfinite(low) and low < high else ""
        return f"{format_number(10 ** row['value'], 3)}{ends}"

    return _shape("growth", write)


def _peak() -> tuple[Sequence[str], Rows]:
    """The measures of decoders where leaving out sinks changes the SVD anisotropy most."""
    table = read("populations")
    rows = []
    for names, part in _each(table[table["causal"]]):
        apart = part[part["population"] == "without-sinks"].set_index("layer")["anisotropy_svd_difference"].abs()
        if not apart.max() > 0:
            continue
        of = part[part["layer"] == apart.idxmax()].set_index("population")
        for column, label in MEASURES.items():
            cells = [format_interval(of.loc[name, column], of.loc[name, f"{column}_se"]) for name in SHOWN]
            rows.append([*names, str(of["layer_name"].iloc[0]), label, *cells])
    return ("model", "corpus", "layer", "measure", *SHOWN.values()), rows


def _differences(population: str, *, causal: bool) -> tuple[Sequence[str], Rows]:
    """The largest change over layers of each measure when some positions are left out."""
    measures = {
        "mean_cosine": "mean cosine",
        "anisotropy_svd": "SVD anisotropy",
        "effective_rank": "effective rank",
    }
    table = read("populations")
    rows = []
    for names, part in _each(table[(table["causal"] == causal) & (table["population"] == population)]):
        cells = []
        for column in measures:
            row = part.loc[part[f"{column}_difference"].abs().idxmax()]
            apart = format_interval(row[f"{column}_difference"], row[f"{column}_difference_se"])
            cells.append(
                f"{apart} ({row['layer_name']}, of {format_number(row[column] - row[f'{column}_difference'], 3)})"
            )
        rows.append([*names, *cells])
    return ("model", "corpus", *measures.values()), rows


def _life() -> tuple[Sequence[str], Rows]:
    """Where sinks are massive, and which units they are."""
    rows = []
    for names, part in _each(read("units")):
        first = part["position"] == 0
        for label, of in (("first positions", part[first]), ("others", part[~first])):
            if not len(of):
                continue
            spans = of.groupby(["born", "last"])["n"].sum().sort_values(ascending=False, kind="stable")
            lives = ", ".join(f"{n} in layers {born} to {last}" for (born, last), n in spans.head(3).items())
            units = of.groupby("text")["n"].sum().sort_values(ascending=False, kind="stable")
            texts = ", ".join(f"`{_visible(str(text))}` {n}" for text, n in units.head(4).items())
            rows.append([*names, label, str(of["n"].sum()), lives, texts])
    return ("model", "corpus", "sinks", "number", "massive (most frequent spans)", "units (most frequent)"), rows


def _thresholds() -> tuple[Sequence[str], Rows]:
    """SVD anisotropy without positions longer than a multiple of the median norm, and how many these are."""
    rows = []
    for names, part in _each(read("thresholds").query("causal")):
        for layer, of in part.groupby("layer", sort=False):
            cells = [f"{format_number(one.anisotropy_svd, 3)} ({one.left_out:,})" for one in of.itertuples()]
            rows.append([*names, str(layer), *cells])
    return ("model", "corpus", "layer", "all positions", "up to 10 medians", "up to 5", "up to 3"), rows


def _writes() -> tuple[Sequence[str], Rows]:
    """The blocks that change the length of sinks most, and which part does it: median, least and largest."""
    rows = []
    table = read("writes")
    for names, of_corpus in _each(table[table["part"] != "rest"]):
        for sort, of in of_corpus.groupby("sort", sort=False):
            most = of.groupby("layer")["change_p50"].agg(lambda changes: changes.abs().max()).nlargest(3)
            for layer in sorted(most.index):
                parts = of[of["layer"] == layer].set_index("part")
                one = parts.iloc[0]
                norms = [format_number(one[name], 3) for name in ("norm_before", "norm_after")]
                cells = [_change(parts.loc[part]) for part in ("attn", "mlp")]
                rows.append([*names, f"{sort} ({one['n']})", str(one["layer_name"]), " to ".join(norms), *cells])
    return ("model", "corpus", "sinks", "block", "norm", "by attention", "by the MLP"), rows


def _change(row: pd.Series) -> str:
    middle, low, high = (format_number(row[f"change_{name}"], 3) for name in ("p50", "min", "max"))
    return f"{middle} [{low}, {high}]"


def _other_modalities() -> tuple[Sequence[str], Rows]:
    """SVD anisotropy of models that do not read text, at layers where leaving out positions changes it."""
    table = read_reference_table().dropna(subset="anisotropy_svd")  # flattened feature maps are too wide for it
    shown, rows = list(SHOWN)[:3], []
    for (model, name), part in table[~table["kind"].isin(TEXT_KINDS)].groupby(["model", "layer_name"], sort=False):
        of = part.set_index("population")
        if np.ptp(of["anisotropy_svd"][shown]) < CHANGED:
            continue
        numbers = [of[measure][one] for measure in ("anisotropy_svd", "effective_rank") for one in shown]
        counts = f"{of['massive']['all']:,} of {of['n']['all']:,}"
        rows.append([f"`{model}`", str(name), counts, *(format_number(float(one), 3) for one in numbers)])
    heads = [f"{measure}, {SHOWN[one]}" for measure in ("SVD anisotropy", "effective rank") for one in shown]
    return ("model", "layer", "massive", *heads), rows


def _visible(text: str) -> str:
    if not text.strip():
        return text.replace("\n", "\\n").replace(" ", "␣")
    return text.replace("|", "¦").replace("`", "'")


MAKE: dict[str, Callable[[], tuple[Sequence[str], Rows]]] = {
    "counts": _counts,
    "bell": _bell,
    "growth": _growth,
    "peak": _peak,
    "without-sinks": lambda: _differences("without-sinks", causal=True),
    "delimiters-decoders": lambda: _differences("without-delimiters", causal=True),
    "delimiters-encoders": lambda: _differences("without-delimiters", causal=False),
    "first-encoders": lambda: _differences("without-first", causal=False),
    "life": _life,
    "thresholds": _thresholds,
    "writes": _writes,
    "other-modalities": _other_modalities,
}
