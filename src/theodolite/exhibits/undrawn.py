"""Surveys that give an exhibit nothing to draw: the caption names them; where all are such, nothing is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from theodolite.errors import InputError
from theodolite.exhibits.note import typeset
from theodolite.exhibits.text import plain
from theodolite.studies.surveyed import Surveyed

MORE = "survey a larger corpus"


def undrawn(
    surveys: Sequence[Surveyed],
    tables: Sequence[pd.DataFrame],
    columns: Sequence[str],
    why: Callable[[Surveyed, pd.DataFrame], str],
    way: Callable[[], str] = lambda: MORE,
) -> str:
    """Return a sentence on the surveys in whose table no column drawn has a number; refuse if that is all.

    `why` tells the reason of one, `way` what would help.
    """
    empty = [
        (f"{survey.model} on {survey.corpus}" if survey.facts.get("model") else survey.model, why(survey, table))
        for survey, table in zip(surveys, tables, strict=True)
        if not np.isfinite(table[list(columns)].to_numpy(np.float64, na_value=np.nan)).any()
    ]
    if len(empty) == len(surveys):
        told = "; ".join(f"{name}: {reason}" for name, reason in empty)
        raise InputError(f"There is nothing to draw. {told}; {way()}.")
    named = ", ".join(f"{plain(name)} ({typeset(reason)})" for name, reason in empty)
    return f"Not drawn: {named}." if named else ""
