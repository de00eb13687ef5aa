"""Sentences for captions of figures by layer."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from theodolite.exhibits.depth_lines import has_errors, has_final_norm, has_stacks
from theodolite.exhibits.norm_variance.captions import caption, corpora, massive, population
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed

BY_DOCUMENTS = ("mean_cosine", "mean_norm")


def by_layer_caption(
    surveys: Sequence[Surveyed],
    choice: Choice,
    tables: Sequence[pd.DataFrame],
    column: str,
    first: str,
    *rest: str,
    joined: bool = True,
) -> str:
    """Return the caption of a figure by layer: what, of which surveys, which positions, what the marks mean."""
    how = ", by jackknife over groups of documents" if column in BY_DOCUMENTS else ""
    return caption(
        first,
        corpora(surveys),
        population(choice),
        massive(surveys, choice),
        *rest,
        f"Strip: ±1.96 standard errors{how}." if has_errors(tables, column) else "",
        "Thin line: from a model's encoder to its decoder." if joined and has_stacks(tables) else "",
        "Open marker: the state after the final norm." if has_final_norm(tables) else "",
    )
