"""The layer table in the terminal, the notes printed under it, and the same rows as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, Literal

import pandas as pd
from rich.table import Table

from theodolite.cli.console import PipedConsole, print_result
from theodolite.count_strata import describe_certain_units
from theodolite.errors import InputError, nearest
from theodolite.measures.columns import find_column
from theodolite.measures.decomposition import FREQUENT
from theodolite.studies.rare_units import find_min_count, has_units_without_vector
from theodolite.text import format_cell

SHOWN = (
    "layer layer_name n q m v v_within v_between mean_cosine anisotropy_svd effective_rank participation_ratio "
    "twonn q_cv tradeoff_slope tradeoff_r2"
).split()
CONTEXTUAL = "self_similarity intra_similarity mev".split()  # if computed
ALWAYS = ("layer", "layer_name")  # printed in every block, so that each number can be assigned to its layer


def print_layers(layers: pd.DataFrame, population: str, title: str, columns: list[str] | None = None) -> None:
    """Print the rows of one population to stdout, with four significant digits and a dash for undefined values.

    If the terminal is too narrow, the columns are printed in several blocks, so that no digit is cut.
    """
    rows = layers[layers["population"] == population]
    records = rows.to_dict("records")
    contextual = [column for column in CONTEXTUAL if column in rows.columns and rows[column].notna().any()]
    chosen = [column for column in columns or [*SHOWN, *contextual] if column not in ALWAYS]
    cells = {column: [format_cell(record[column]) for record in records] for column in (*ALWAYS, *chosen)}
    console = PipedConsole(highlight=False, markup=False)
    width = console.width if console.is_terminal else 1000
    print_result(f"{title} · population: {population}")
    for block in _split_columns(chosen, cells, width):
        table = Table(box=None, pad_edge=False)
        for column in block:
            side: Literal["left", "right"] = "left" if column == "layer_name" else "right"
            table.add_column(_head(column), justify=side, no_wrap=True)
        for row in zip(*(cells[column] for column in block), strict=True):
            table.add_row(*row)
        PipedConsole(highlight=False, markup=False, width=width).print(table, crop=False)


def describe_columns(facts: Mapping[str, Any], layers: pd.DataFrame) -> str:
    """Return what the columns of the table are. Rare units without a vector are not in the fits.

    >>> facts = {"settings": {"min_count": 20}}
    >>> words = describe_columns(facts, pd.DataFrame({"v_within_estimated_share": [0.1]}))
    >>> words[words.index("over units") : words.index(" where")]
    'over units with 10 to 100,000 occurrences, including special tokens (units with n < 20 only'
    """
    least = find_min_count(facts) if has_units_without_vector(layers) else 1
    rare = f" ({describe_certain_units(least)})" if least > FREQUENT[0] else ""
    return (
        "Q: mean squared norm. M: squared norm of the mean. V: variance, Q = M + V, within (V_W) and between "
        "units (V_B). cos: mean cosine of all pairs. svd: share of the variance along the first direction. rank, "
        f"PR and TwoNN: numbers of dimensions. CV, slope and R2: over units with {FREQUENT[0]} to {FREQUENT[1]:,} "
        f"occurrences, including special tokens{rare}. –: undefined. `theodolite measures` defines each."
    )


def parse_columns(names: str, known: list[str]) -> list[str]:
    """Return the columns in a comma-separated list of column names or headings of the table.

    >>> parse_columns("cos, TwoNN,q", ["q", "mean_cosine", "twonn"])
    ['mean_cosine', 'twonn', 'q']
    """
    headed = {find_column(column).label.lower(): column for column in known}
    chosen: dict[str, None] = {}
    for name in filter(None, map(str.strip, names.split(","))):
        column = name if name in known else headed.get(name.lower(), name.lower())
        if column not in known:
            listed = f" All {len(known)} columns are listed in docs/survey-folder.md and printed by --json."
            near = nearest(name.lower(), list(dict.fromkeys([*known, *headed]))) or listed
            raise InputError(f"--columns: there is no column {name!r}.{near}")
        chosen[column] = None
    return list(chosen)


def _split_columns(chosen: list[str], cells: dict[str, list[str]], width: int) -> list[list[str]]:
    """Split the columns into blocks that fit the width. Each block starts with the layer's number and name."""
    size = {column: max(map(len, [_head(column), *texts]), default=0) + 2 for column, texts in cells.items()}
    minimum = sum(size[column] for column in ALWAYS)
    blocks: list[list[str]] = [[*ALWAYS]]
    used = minimum
    for column in chosen:
        if used + size[column] > width and len(blocks[-1]) > len(ALWAYS):
            blocks.append([*ALWAYS])
            used = minimum
        blocks[-1].append(column)
        used += size[column]
    return blocks


def _head(column: str) -> str:
    return find_column(column).label


def layers_json(layers: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows with every digit, None for undefined values, and the reasons as a dictionary."""
    rows = []
    for record in layers.to_dict("records"):
        row = {str(column): _plain(value) for column, value in record.items()}
        row["undefined"] = json.loads(row["undefined"]) if row["undefined"] else {}
        rows.append(row)
    return rows


def _plain(value: Any) -> Any:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if hasattr(value, "item") else value


def massive_hint(layers: pd.DataFrame, population: str, populations: Sequence[str]) -> str | None:
    """Return a sentence on the massive positions of this population, if `without-massive` is available."""
    if "massive" not in layers.columns or "without-massive" not in populations:
        return None
    rows = layers[layers["population"] == population].to_dict("records")
    counts = [(int(row["massive"]), int(row["n"])) for row in rows if row["massive"] == row["massive"]]  # not NaN
    most, n = max(counts, default=(0, 0))
    if most == 0:
        return None
    return (
        f"These numbers include massive positions (up to {most:,} of {n:,} in a layer). A few of them can "
        "dominate Q, V, svd and rank."
    )


def without_massive_hint(folder: object) -> str:
    """Return a sentence with the command that excludes massive positions.

    >>> without_massive_hint("a folder")
    "`theodolite show 'a folder' --population without-massive` excludes them."
    """
    return f"`theodolite show {quote(str(folder))} --population without-massive` excludes them."


def layer_notes(layers: pd.DataFrame, population: str) -> list[str]:
    """Return a line for each thing that may dominate the numbers of the last block, or of the only layer."""
    records = layers[layers["population"] == population].to_dict("records")
    rows = [{str(column): value for column, value in row.items()} for row in records]
    if not rows:
        return []
    row = next((row for row in reversed(rows) if not str(row["layer_name"]).endswith("final norm")), rows[-1])
    notes = [text for text in (_rogue(row), _duplicates(row), _jump(row), _zero(row)) if text]
    name = f"{row['layer_name']}: " if len(rows) > 1 else ""
    return [f"{name}{text}" for text in notes]


def _rogue(row: dict[str, Any]) -> str:
    """Report a single coordinate that contributes most of the mean cosine."""
    from theodolite.report.findings.rogue import is_dominated_by_one
    from theodolite.report.tables import number

    if not is_dominated_by_one(row):
        return ""
    share = f"{number(row, 'rogue_cosine_share'):.0%}"
    return f"coordinate {number(row, 'rogue_coordinate'):.0f} contributes {share} of cos"


def _duplicates(row: dict[str, Any]) -> str:
    from theodolite.report.tables import number
    from theodolite.text import format_count

    dropped, kept = number(row, "sample_duplicates"), number(row, "twonn_n")
    if not dropped > 0:
        return ""
    are = "is a duplicate" if dropped == 1 else "are duplicates"
    near = number(row, "sample_near_duplicates")
    inexact = f", {format_count(near)} of them near-duplicates" if near > 0 else ""
    return f"{format_count(dropped)} of {format_count(dropped + kept)} sampled vectors {are}{inexact}"


def _jump(row: dict[str, Any]) -> str:
    """Report a dimension that depends on the scale."""
    from theodolite.report.findings.warnings import JUMP
    from theodolite.report.tables import number
    from theodolite.text import format_number

    jump = number(row, "scale_jump")
    if not jump > JUMP:
        return ""
    return f"the intrinsic dimension changes by a factor of {format_number(jump, 2)} between two adjacent scales"


def _zero(row: dict[str, Any]) -> str:
    from theodolite.report.tables import number
    from theodolite.text import pluralize

    zero = number(row, "zero")
    return f"{pluralize(zero, 'vector')} {'is' if zero == 1 else 'are'} zero" if zero > 0 else ""
