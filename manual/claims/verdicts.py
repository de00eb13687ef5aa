"""Claims, what was found on each model and corpus, and the rules by which a number decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from manual.sinks.tables import format_interval
from theodolite.studies.anisotropy.layers import Z

Verdict = Literal["held", "did not hold", "cannot be decided here"]
HELD: Verdict = "held"
NOT: Verdict = "did not hold"
OPEN: Verdict = "cannot be decided here"


@dataclass(frozen=True)
class Finding:
    """What one model shows on one corpus."""

    model: str
    corpus: str
    numbers: str
    verdict: Verdict


@dataclass(frozen=True)
class Claim:
    """A claim of a paper in our words, with the rule, and what decides it: a function of tables, or a page."""

    section: str
    claim: str
    rule: str = ""
    test: Callable[[], Sequence[Finding]] | None = None
    findings: tuple[Finding, ...] = ()
    page: str = ""  # of docs/, which has the numbers of the findings
    missing: str = field(default="no model of this kind is in the catalogue")

    def find(self) -> Sequence[Finding]:
        """Return the findings, computed now if they come from tables."""
        return self.findings if self.test is None else self.test()


def decide(value: float, error: float, least: float = 0.0) -> Verdict:
    """Return whether a number is above `least`, by its 95% interval; by the number itself if it has no error.

    >>> decide(0.3, 0.02, 0.2), decide(0.3, 0.1, 0.2), decide(0.1, 0.01, 0.2)
    ('held', 'cannot be decided here', 'did not hold')
    """
    if not math.isfinite(value):
        return OPEN
    half = Z * error if math.isfinite(error) else 0.0
    if value - half > least:
        return HELD
    return NOT if value + half < least or half == 0 else OPEN


def combine(*verdicts: Verdict) -> Verdict:
    """Return the verdict on all parts of a claim together.

    >>> combine("held", "cannot be decided here"), combine("held", "did not hold", "cannot be decided here")
    ('cannot be decided here', 'did not hold')
    """
    for worst in (NOT, OPEN):
        if worst in verdicts:
            return worst
    return HELD


def apart(later: pd.Series, earlier: pd.Series, column: str) -> tuple[float, float]:
    """Return the difference of a column of two rows and its error, as if the two were independent.

    Numbers of the same documents vary together, so the interval is rather too wide.
    """
    errors = [row.get(f"{column}_se", math.nan) for row in (later, earlier)]
    return float(later[column] - earlier[column]), math.hypot(*errors)


def write(row: pd.Series, column: str) -> str:
    """Return a number of a layer with its interval and the layer."""
    return f"{format_interval(row[column], row.get(f'{column}_se', math.nan))} at {row['layer_name']}"
