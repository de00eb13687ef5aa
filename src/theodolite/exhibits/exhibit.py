"""What an exhibit is: a name, what it needs, and a function from surveys to a plate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import FigureBase

from theodolite.exhibits.needs import Need
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed


@dataclass(frozen=True, eq=False)
class Plate:
    """An exhibit made ready: what is drawn, the caption, and the drawing, which computes nothing.

    `shown` is a table as people read it; a figure has none. `size` is in inches, without the caption.
    """

    data: pd.DataFrame
    caption: str
    draw: Callable[[FigureBase], None]
    size: tuple[float, float] = (7.0, 2.6)
    shown: pd.DataFrame | None = None


Maker = Callable[[Sequence[Surveyed], Choice], Plate]


@dataclass(frozen=True)
class Exhibit:
    """One figure or table of a paper, by the paper's own number."""

    name: str  # PAPER/ID
    title: str
    kind: str  # figure or table
    make: Maker
    needs: tuple[Need, ...] = ()
    options: tuple[str, ...] = ()  # fields of Choice that it heeds; "layer" for layers where it takes one
    reads: tuple[str, ...] = ("layers", "tokens", "units")  # tables of the survey

    @property
    def paper(self) -> str:
        """The paper it is of."""
        return self.name.partition("/")[0]

    @property
    def id(self) -> str:
        """Its number in the paper."""
        return self.name.partition("/")[2]

    @property
    def needed(self) -> str:
        """What it needs, in words."""
        return "; ".join(need.words for need in self.needs) or "surveys"
