"""Surveys that give an exhibit nothing to draw: the reason, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from theodolite.errors import InputError
from theodolite.exhibits.drawing.axes import clean_label, format_reason
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.units import count_special_units, select_units
from theodolite.studies.survey_data import UNDEFINED_EVERYWHERE, SurveyData

LARGER_CORPUS = "survey a larger corpus"


def describe_empty_surveys(
    surveys: Sequence[SurveyData],
    tables: Sequence[pd.DataFrame],
    columns: Sequence[str],
    explain: Callable[[SurveyData, pd.DataFrame], str],
    suggest: Callable[[], str] = lambda: LARGER_CORPUS,
) -> str:
    """Return a sentence on the surveys whose tables have no number in any of the columns. Raise if all are such.

    `explain` returns the reason for one survey, and `suggest` what to do.
    """
    empty = [
        (
            f"{survey.model} on {survey.corpus}" if survey.facts.get("model") else survey.model,
            explain(survey, table),
        )
        for survey, table in zip(surveys, tables, strict=True)
        if not np.isfinite(table[list(columns)].to_numpy(np.float64, na_value=np.nan)).any()
    ]
    if len(empty) == len(surveys):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in empty)
        raise InputError(f"There is nothing to draw. {reasons}; {suggest()}.")
    names = ", ".join(f"{clean_label(name)} ({format_reason(reason)})" for name, reason in empty)
    return f"Not drawn: {names}." if names else ""


FIT_MINIMUM = 3
"""The least number of units for a fit, or for a sum over some of the units. A sum over all units needs one."""
FEWER = {1: "no", FIT_MINIMUM: "fewer than three"}


def describe_filter(choice: Choice) -> str:
    """Return the words after "units" that say which of them are used, "" if all are.

    >>> describe_filter(Choice()), describe_filter(Choice(filter="all"))
    (' with 1 <= log10 n <= 5', '')
    >>> describe_filter(Choice(variant="unbiased", filter="all"))
    ' with n > 1'
    """
    if choice.with_filter().filter == "frequent":
        return " with 1 <= log10 n <= 5"
    return " with n > 1" if choice.variant == "unbiased" else ""


def explain_too_few(survey: SurveyData, choice: Choice, least: int = FIT_MINIMUM) -> str:
    """Return that every layer of the survey has too few of the chosen units, "" if some layer has enough."""
    chosen = choice.with_filter()
    if any(select_units(survey, layer, chosen)["used"].sum() >= least for layer in survey.layer_names):
        return ""
    special = (
        " that are not special" if count_special_units(survey) and not chosen.includes_specials(survey) else ""
    )
    return f"{FEWER[least]} units{describe_filter(chosen)}{special}"


def describe_empty_units(
    surveys: Sequence[SurveyData],
    choice: Choice,
    tables: Sequence[pd.DataFrame],
    columns: Sequence[str],
    least: int = FIT_MINIMUM,
    of_all: int | None = None,
) -> str:
    """Return a sentence on the surveys without enough units to draw anything. Raise if all are such.

    `columns` are drawn. They need `least` units, or `of_all` if all units are used. If a table of fits gives one
    reason for all layers, the sentence states it.
    """
    enough = least if of_all is None else of_all
    needed = least if choice.with_filter().filter == "frequent" else enough

    def explain(survey: SurveyData, table: pd.DataFrame) -> str:
        reasons = list(table["reason"].dropna().unique()) if "reason" in table else []
        given = f"{reasons[0]}{describe_filter(choice)}" if len(reasons) == 1 else UNDEFINED_EVERYWHERE
        return explain_too_few(survey, choice, needed) or given

    return describe_empty_surveys(
        surveys, tables, columns, explain, partial(_suggest_remedy, surveys, choice, enough)
    )


def check_points(surveys: Sequence[SurveyData], choice: Choice, tables: Sequence[pd.DataFrame]) -> None:
    """Raise if no survey has a unit to draw as a point, whether in the fit or not."""
    describe_empty_units(surveys, replace(choice, filter="all", specials="kept"), tables, ["m"], 1)


def _suggest_remedy(surveys: Sequence[SurveyData], choice: Choice, least: int) -> str:
    """Return what to do: survey a larger corpus, or use all units if they would be enough."""
    every = replace(choice, filter="all")
    helps = choice.with_filter().filter == "frequent" and not all(
        explain_too_few(one, every, least) for one in surveys
    )
    return (
        f"{LARGER_CORPUS}, or include units that occur fewer than 10 times with --filter all"
        if helps
        else LARGER_CORPUS
    )
