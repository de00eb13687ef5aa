"""Reference ranges: the models of the catalogue, measured by `python -m manual.reference_surveys`."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from theodolite.report.findings.finding import highest, locate, lowest
from theodolite.report.findings.warnings import VECTORS_PER_DIMENSION
from theodolite.report.tables import Row, Tables, layer_rows, number
from theodolite.text import format_number, format_percent

FILE = "reference-models.csv"
MEDIA = {"speech": "speech models", "vision": "vision models", "convolution": "convolutional nets"}
KINDS = {"encoder": "encoders", "decoder": "decoders", **MEDIA}
"""The kinds of model that are compared with their own kind only, and their plural."""


@dataclass(frozen=True)
class Measure:
    """A measure that has a reference range; a survey is judged by the lowest or highest value of its layers."""

    key: str
    label: str
    end: Literal["lowest", "highest"]
    column: str
    is_share: bool = False  # divided by the number of coordinates

    def value(self, row: Row) -> float:
        """Return the value at a layer; NaN if it is undefined, or if too few vectors decide a share."""
        value, dims = number(row, self.column), number(row, "dim")
        if not self.is_share:
            return value
        return value / dims if dims > 0 and number(row, "n") >= VECTORS_PER_DIMENSION * dims else math.nan

    def format(self, value: float) -> str:
        """Return a value with two significant digits."""
        return format_percent(value, 2) if self.is_share else format_number(value, 2)


MEASURES = (
    Measure("mean_cosine", "mean cosine", "highest", "mean_cosine"),
    Measure("effective_rank_share", "effective rank / coordinates", "lowest", "effective_rank", is_share=True),
    Measure("twonn", "intrinsic dimension (TwoNN)", "highest", "twonn"),
)


@dataclass(frozen=True)
class Span:
    """The lowest and the highest value of a measure over the layers of a survey, and where they are."""

    low: float
    high: float
    low_place: str = ""
    high_place: str = ""
    models: tuple[str, ...] = ()  # of a reference range
    low_error: float = math.nan  # standard errors, if the survey has them
    high_error: float = math.nan


def measure_span(tables: Tables, population: str, measure: Measure) -> Span | None:
    """Return the range of a measure over the layers of a survey; None if no layer defines it."""
    rows = [{**row, "value": measure.value(row)} for row in layer_rows(tables, population)]
    low, high = lowest(rows, "value"), highest(rows, "value")
    if low is None or high is None:
        return None
    errors = [number(row, f"{measure.column}_se") for row in (low, high)]
    return Span(number(low, "value"), number(high, "value"), locate(low), locate(high), (), *errors)


def find_kind(facts: Mapping[str, Any]) -> str:
    """Return the kind of a survey's model; empty if no model of its kind is in the table.

    >>> find_kind({"model": {"modality": "text", "causal": True}}), find_kind({"model": {"modality": "vision"}})
    ('decoder', 'vision')
    """
    model, layers = facts.get("model"), facts.get("layers")
    if not isinstance(model, Mapping):
        return ""
    stacks = (
        {each.get("stack") for each in layers if isinstance(each, Mapping)} if isinstance(layers, list) else set()
    )
    modality = model.get("modality")
    if modality in MEDIA:
        return str(modality)
    if modality != "text" or len(stacks) > 1 or not isinstance(model.get("causal"), bool):
        return ""
    return "decoder" if model["causal"] else "encoder"


def find_reference(kind: str, population: str, measure: str) -> Span | None:
    """Return the range of a measure over the layers of all reference models of a kind; None if there is none."""
    return combine([row for row in read_table() if _key(row) == (kind, population, measure)])


def combine(rows: Sequence[Mapping[str, str]]) -> Span | None:
    """Return the range of several rows of the table, with their models.

    >>> row = {"model": "a", "lowest": "0.1", "highest": "0.3", "lowest_layer": "x", "highest_layer": "y"}
    >>> combine([row, {**row, "model": "b", "lowest": "0.2", "highest": "0.5"}]).high
    0.5
    """
    if not rows:
        return None
    low = min(rows, key=lambda row: float(row["lowest"]))
    high = max(rows, key=lambda row: float(row["highest"]))
    models = tuple(dict.fromkeys(row["model"] for row in rows))
    return Span(float(low["lowest"]), float(high["highest"]), low["lowest_layer"], high["highest_layer"], models)


@cache
def read_table() -> tuple[dict[str, str], ...]:
    """Return the rows of the table of measured models."""
    text = files("theodolite.report").joinpath("assets", FILE).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def _key(row: Mapping[str, str]) -> tuple[str, str, str]:
    return row["kind"], row["population"], row["measure"]
