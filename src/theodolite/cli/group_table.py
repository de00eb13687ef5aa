"""The groups of documents of a survey in the terminal, at one layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from theodolite.cli.console import print_result
from theodolite.cli.output import print_numbers
from theodolite.errors import InputError
from theodolite.measures.columns import COLUMNS
from theodolite.text import join_words

if TYPE_CHECKING:
    import pandas as pd

SHOWN = "group documents n q m v v_within mean_cosine effective_rank norm_p50 nearest nearest_distance".split()
MOST = 40  # groups printed after a survey


def select_groups(groups: pd.DataFrame, population: str, layer: int | None) -> pd.DataFrame:
    """Return the rows of one layer, by default the last, in the order of the table."""
    known = sorted(set(groups["layer"].tolist()))
    chosen = known[-1] if layer is None else layer
    if chosen not in known:
        raise InputError(
            f"--layer {layer} is not in this survey, which has {join_words([str(one) for one in known])}."
        )
    return groups[(groups["layer"] == chosen) & (groups["population"] == population)]


def print_groups(
    groups: pd.DataFrame,
    facts: dict[str, Any],
    population: str,
    *,
    layer: int | None = None,
    most: int | None = None,
) -> None:
    """Print the groups at one layer to stdout; with `most`, the first of them."""
    rows = select_groups(groups, population, layer)
    name = rows["layer_name"].iloc[0]
    print_result(
        f"groups by {facts['by']['field']} · layer {rows['layer'].iloc[0]} ({name}) · population: {population}"
    )
    headings = {column: COLUMNS["groups"][column].label for column in SHOWN if column in rows}
    print_numbers(rows.head(most or len(rows)).to_dict("records"), headings, ("group", "nearest"))
    if most is not None and len(rows) > most:
        print_result(f"{len(rows) - most} more groups are in groups.parquet.")
