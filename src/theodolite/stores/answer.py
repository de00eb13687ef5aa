"""Answers: what a section of a store's report states first, with its number, interval and reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

Verdict = Literal["good", "attention", "bad", "unknown"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question about a store.

    question  as a user asks it: "Are there duplicates?"
    verdict   how to colour it; "unknown" if it could not be answered
    sentence  the answer in one sentence, with its number
    value     the number; None if there is none
    low, high a 95% interval of the value; None if the value is exact or undefined
    reason    how the number was found, or why there is none
    advice    what to do, if anything
    """

    question: str
    verdict: Verdict
    sentence: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    advice: str = ""


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a store's results: answers, tables (name -> rows) and facts that can be stored as JSON."""

    name: str
    answers: list[Answer]
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
