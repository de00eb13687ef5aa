"""Surveys with too few units for a fit or a sum: how that is said, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from theodolite.exhibits.note import UNDEFINED
from theodolite.exhibits.undrawn import MORE, undrawn
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.points import points, special_units
from theodolite.studies.surveyed import Surveyed

FITTED = 3
"""Units that a line, or a sum over some of the units, needs; a sum over all needs one."""
FEWER = {1: "no", FITTED: "fewer than three"}


def among(choice: Choice) -> str:
    """Return what follows "units" where not all of them count; "" where they do.

    >>> among(Choice()), among(Choice(filter="all")), among(Choice(variant="unbiased", filter="all"))
    (' with 1 <= log10 n <= 5', '', ' with n > 1')
    """
    if choice.filtered().filter == "frequent":
        return " with 1 <= log10 n <= 5"
    return " with n > 1" if choice.variant == "unbiased" else ""


def too_few(survey: Surveyed, choice: Choice, least: int = FITTED) -> str:
    """Return that the survey has too few units of the choice in every layer; "" where some layer has enough."""
    chosen = choice.filtered()
    if any(points(survey, layer, chosen)["used"].sum() >= least for layer in survey.layer_names):
        return ""
    special = " that are not special" if special_units(survey) and not chosen.kept(survey) else ""
    return f"{FEWER[least]} units{among(chosen)}{special}"


def undrawn_units(
    surveys: Sequence[Surveyed],
    choice: Choice,
    tables: Sequence[pd.DataFrame],
    columns: Sequence[str],
    least: int = FITTED,
    of_all: int | None = None,
) -> str:
    """Return a sentence on the surveys of whose units nothing is drawn; refuse if that is all.

    `columns` are those drawn; `least` units are needed, or `of_all` where all of them count. Where a table of fits
    gives one reason for all layers, that is told.
    """
    enough = least if of_all is None else of_all
    needed = least if choice.filtered().filter == "frequent" else enough

    def why(survey: Surveyed, table: pd.DataFrame) -> str:
        reasons = list(table["reason"].dropna().unique()) if "reason" in table else []
        given = f"{reasons[0]}{among(choice)}" if len(reasons) == 1 else UNDEFINED
        return too_few(survey, choice, needed) or given

    return undrawn(surveys, tables, columns, why, partial(_way, surveys, choice, enough))


def check_points(surveys: Sequence[Surveyed], choice: Choice, tables: Sequence[pd.DataFrame]) -> None:
    """Refuse surveys none of which has a unit to draw as a point, in the fit or not."""
    undrawn_units(surveys, replace(choice, filter="all", specials="kept"), tables, ["m"], 1)


def _way(surveys: Sequence[Surveyed], choice: Choice, least: int) -> str:
    """Return what would help: a larger corpus, and all units where they would be enough."""
    every = replace(choice, filter="all")
    helps = choice.filtered().filter == "frequent" and not all(too_few(one, every, least) for one in surveys)
    return f"{MORE}, or count units that occur fewer than 10 times too with --filter all" if helps else MORE
