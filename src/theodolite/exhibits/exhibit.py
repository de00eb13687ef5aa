"""Exhibits: a name, what it needs, the options it uses, and a function from surveys to a plate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.needs import Need
from theodolite.studies.choice import AUTO, Choice
from theodolite.studies.survey_data import SurveyData


@dataclass(frozen=True, eq=False)
class Plate:
    """An exhibit ready to be drawn: the numbers, the caption, and a function that draws and computes nothing.

    `shown` is a table formatted for readers, None for a figure. `size` is in inches, without the caption.
    """

    data: pd.DataFrame
    caption: str
    draw: Callable[[FigureBase], None]
    size: tuple[float, float] = (7.0, 2.6)
    shown: pd.DataFrame | None = None


Maker = Callable[[Sequence[SurveyData], Choice], Plate]


@dataclass(frozen=True)
class Exhibit:
    """One figure or table of a paper."""

    name: str  # PAPER/ID
    title: str
    kind: str  # figure or table
    make: Maker
    needs: tuple[Need, ...] = ()
    options: tuple[
        str, ...
    ] = ()  # fields of Choice that it uses; "layer" in place of "layers" if it draws one layer
    reads: tuple[str, ...] = ("layers", "tokens", "units")  # the tables of a survey that it reads
    populations: tuple[str, ...] = ()  # those that it has; empty: those of the surveys

    @property
    def paper(self) -> str:
        """The paper that it belongs to."""
        return self.name.partition("/")[0]

    @property
    def id(self) -> str:
        """Its number in the paper."""
        return self.name.partition("/")[2]

    @property
    def needed(self) -> str:
        """What it needs, as text."""
        return "; ".join(need.description for need in self.needs) or "surveys"


OPTIONS = ("population", "variant", "filter", "specials", "depth", "steps")


def find_unused_options(found: Exhibit, choice: Choice) -> dict[str, str]:
    """Return the options that were given and that an exhibit does not use, each with a message."""
    defaults = Choice()
    unused = {
        option: f"does not use --{option}; omit it"
        for option in OPTIONS
        if option not in found.options and getattr(choice, option) not in (getattr(defaults, option), AUTO)
    }
    if choice.layers and not {"layer", "layers"} & set(found.options):
        unused["layers"] = "does not use --layer; omit it"
    elif len(choice.layers) > 1 and "layers" not in found.options:
        unused["layers"] = "draws one layer; give --layer once"
    return unused


def drop_unused_options(found: Exhibit, choice: Choice) -> Choice:
    """Return the choice with the default for every option that the exhibit does not use."""
    defaults = Choice(AUTO)
    return replace(choice, **{option: getattr(defaults, option) for option in find_unused_options(found, choice)})


def add_survey_column(table: pd.DataFrame, label: str) -> pd.DataFrame:
    """Return the table with the label of the survey as its first column, for the data of a plate."""
    labelled = table.drop(columns="survey", errors="ignore")
    labelled.insert(0, "survey", label)
    return labelled
