"""The verdict: one sentence on each survey or series, and its main numbers beside those of reference models.

The rules, in the order of the sentence:

1. Direction: the highest mean cosine of the default population, in the words of `DIRECTIONS`.
2. Dimension: the lowest effective rank as a share of the coordinates, in the words of `DIMENSIONS`; with fewer
   than ten vectors per coordinate, that they are too few.
3. At most one remark, the first that applies: values that are not finite; sinks that the population leaves out and
   that would change the mean cosine or the rank; positions that cause the mean cosine; one coordinate that makes
   up more than half of it.

What is undefined is called undefined, with the reason that the survey gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from theodolite.measures.group_differences import Z
from theodolite.report.findings.anisotropy import MAIN_DROP, attribute_peak
from theodolite.report.findings.finding import differs, highest, locate, lowest
from theodolite.report.findings.rogue import is_dominated_by_one
from theodolite.report.findings.training import average_over_blocks, find_turning_points
from theodolite.report.findings.warnings import VECTORS_PER_DIMENSION
from theodolite.report.references import (
    KINDS,
    MEASURES,
    Measure,
    Span,
    find_kind,
    find_reference,
    measure_span,
)
from theodolite.report.tables import (
    Row,
    Tables,
    layer_rows,
    number,
    populations,
    select_defined,
    undefined_reasons,
)
from theodolite.report.vectors import hide_layer_name, is_vector_survey, reword_for_vectors
from theodolite.text import format_count, format_number, format_percent, join_words, pluralize

DIRECTIONS = (
    (0.1, "have hardly any direction in common"),
    (0.3, "share a direction weakly"),
    (0.6, "share a direction clearly"),
    (0.9, "share a direction strongly"),
    (math.inf, "point in almost the same direction"),
)
"""What is said of a mean cosine below each limit."""

DIMENSIONS = (
    (0.05, "vary along very few directions"),
    (0.25, "use a small part of their space"),
    (0.5, "use a good part of their space"),
    (math.inf, "use most of their space"),
)
"""What is said of an effective rank below each limit, as a share of the coordinates."""

COSINE, RANK, _ = MEASURES
CHANGES = {
    "mean_cosine": "mean cosine",
    "effective_rank": "effective rank",
    "twonn": "intrinsic dimension (TwoNN)",
}


@dataclass(frozen=True)
class Reading:
    """One number of a survey beside the range of the reference models of its kind.

    `word` is high, low or usual, or "reference" for a model that is one of them and therefore within their range;
    it is empty, and `reference` None, if no model of the kind was measured.
    """

    measure: Measure
    span: Span
    word: str = ""
    kind: str = ""
    reference: Span | None = None

    @property
    def value(self) -> float:
        """The value that the survey is judged by."""
        return self.span.high if self.measure.end == "highest" else self.span.low

    @property
    def place(self) -> str:
        """The layer of the value, such as "at block 5"."""
        return self.span.high_place if self.measure.end == "highest" else self.span.low_place

    def describe_reference(self) -> str:
        """Return the range of the reference models and their names; empty if there are none."""
        if self.reference is None:
            return ""
        ends = " to ".join(self.measure.format(value) for value in (self.reference.low, self.reference.high))
        return f"{KINDS[self.kind]} measured here: {ends} ({join_words(self.reference.models)})"


def describe_verdict(tables: Tables) -> str:
    """Return the verdict on a survey: one sentence."""
    shared = hide_layer_name(tables)
    known = populations(shared)
    rows = layer_rows(shared, known[0]) if known else []
    if not rows:
        return "The survey has no layers, so there is nothing to judge."
    direction, dimension = _describe_direction(rows), _describe_dimension(rows)
    if not direction and not dimension:
        return f"Neither the mean cosine nor the effective rank is defined{_reason(rows, 'mean_cosine')}."
    subject = "The vectors" if direction else "The mean cosine is undefined" + _reason(rows, "mean_cosine")
    if direction and dimension:
        text = f"{subject} {direction} and {dimension}"
    elif direction:
        text = f"{subject} {direction}; {_explain_no_rank(rows)}"
    else:
        text = f"{subject}; the vectors {dimension}"
    remark = _find_remark(shared, known[0], rows)
    text = f"{text}{f'; {remark}' if remark else ''}."
    return reword_for_vectors(text) if is_vector_survey(tables) else text


def collect_readings(tables: Tables) -> list[Reading]:
    """Return the numbers that the verdict rests on, with their reference ranges."""
    shared = hide_layer_name(tables)
    kind, known = find_kind(tables.facts), populations(shared)
    found = []
    for measure in MEASURES:
        span = measure_span(shared, known[0], measure) if known else None
        if span is not None:
            reference = find_reference(kind, known[0], measure.key)
            ends = (span.high, span.high_error) if measure.end == "highest" else (span.low, span.low_error)
            word = _compare(*ends, reference)
            if reference and word == "usual" and _model_name(tables) in reference.models:
                word = "reference"
            found.append(Reading(measure, span, word, kind, reference))
    return found


def describe_series_verdict(series: Tables) -> str:
    """Return the verdict on a series: how its main measures changed from the first step to the last."""
    known = populations(series)
    changed, steady = [], []
    ends: set[float] = set()
    for column, label in CHANGES.items():
        curve, _ = average_over_blocks(series, known[0], column) if known else ([], 0)
        if len(curve) < 2:
            continue
        ends |= {curve[0].step, curve[-1].step}
        first, last = curve[0], curve[-1]
        if differs(first.value, last.value, first.error, last.error):
            verb = "rose" if last.value > first.value else "fell"
            changed.append(
                f"the {label} {verb} from {format_number(first.value, 2)} to {format_number(last.value, 2)}"
            )
        elif len(find_turning_points(curve)) > 1:
            steady.append(f"the {label} changed and returned to {format_number(last.value, 2)}")
        else:
            steady.append(f"the {label} stayed at {format_number(last.value, 2)}")
    if not ends:
        return "No main measure is defined at two or more steps, so there is no change to judge."
    span = f"From step {format_count(min(ends))} to {format_count(max(ends))}"
    return f"{span} {join_words([*changed, *steady])}, on average over the layers."


def _compare(value: float, error: float, reference: Span | None) -> str:
    """Return whether the 95% interval of a value is above or below a range; all are rounded as they are printed.

    Without a standard error, the value decides by itself.
    """
    if reference is None:
        return ""
    half = Z * error if math.isfinite(error) else 0.0
    least, most, low, high = map(_rounded, (value - half, value + half, reference.low, reference.high))
    return "high" if least > high else "low" if most < low else "usual"


def _model_name(tables: Tables) -> str:
    model = tables.facts.get("model")
    return str(model.get("name")) if isinstance(model, Mapping) else ""


def _rounded(value: float) -> float:
    """Return a value as it is printed, with two digits, so that words and numbers never disagree."""
    return float(f"{value:.2g}")


def _describe_direction(rows: list[Row]) -> str:
    top = highest(rows, "mean_cosine")
    if top is None:
        return ""
    value = number(top, "mean_cosine")
    words = next(words for limit, words in DIRECTIONS if _rounded(value) < limit)
    up_to = "of up to " if len(select_defined(rows, "mean_cosine")) > 1 else ""
    return f"{words} (mean cosine {up_to}{format_number(value, 2)}{_at(top)})"


def _describe_dimension(rows: list[Row]) -> str:
    shares = [{**row, "value": RANK.value(row)} for row in rows]
    defined = select_defined(shares, "value")
    if not defined:
        return ""
    low = min(defined, key=lambda row: number(row, "value"))
    share, dims = number(low, "value"), number(low, "dim")
    words = next(words for limit, words in DIMENSIONS if _rounded(share) < limit)
    least = "at least " if len(defined) > 1 else ""
    rank = format_number(number(low, "effective_rank"), 3)
    return f"{words} (effective rank {least}{rank} of {pluralize(dims, 'dimension')}{_at(low)})"


def _explain_no_rank(rows: list[Row]) -> str:
    few = [
        row for row in select_defined(rows, "n") if number(row, "n") < VECTORS_PER_DIMENSION * number(row, "dim")
    ]
    if few and select_defined(rows, "effective_rank"):
        row = few[0]
        return (
            f"{pluralize(number(row, 'n'), 'vector')} are too few to judge how many of "
            f"{pluralize(number(row, 'dim'), 'dimension')} they use"
        )
    return f"the effective rank is undefined{_reason(rows, 'effective_rank')}"


def _find_remark(tables: Tables, base: str, rows: list[Row]) -> str:
    """Return the first remark that applies; empty if none does."""
    top = highest(rows, "mean_cosine") or {}
    remarks = (_remark_nonfinite, _remark_sinks, _remark_cause, _remark_coordinate)
    return next((text for remark in remarks if (text := remark(tables, base, top))), "")


def _remark_nonfinite(tables: Tables, base: str, top: Row) -> str:
    worst = highest([row for name in populations(tables) for row in layer_rows(tables, name)], "nonfinite") or {}
    count = number(worst, "nonfinite")
    verb = "is" if count == 1 else "are"
    return f"{pluralize(count, 'vector')} {verb} not finite{_at(worst)} and left out" if count > 0 else ""


def _remark_sinks(tables: Tables, base: str, top: Row) -> str:
    """Describe what the positions that the population leaves out would do to the mean cosine, or to the rank."""
    with_all = highest(layer_rows(tables, "all"), "mean_cosine")
    if base == "all" or with_all is None or not top:
        return ""
    value, other = number(top, "mean_cosine"), number(with_all, "mean_cosine")
    if abs(other - value) >= MAIN_DROP:
        return f"with sinks, which are left out, the mean cosine would be up to {format_number(other, 2)}"
    without, rank = (lowest(layer_rows(tables, name), "effective_rank") for name in (base, "all"))
    if without is None or rank is None or 2 * number(rank, "effective_rank") > number(without, "effective_rank"):
        return ""
    least = format_number(number(rank, "effective_rank"), 2)
    return f"with sinks, which are left out, the effective rank would fall to {least}{_at(rank)}"


def _remark_cause(tables: Tables, base: str, top: Row) -> str:
    """Describe which positions cause the highest mean cosine of all positions."""
    if base != "all" or not top:
        return ""
    same_layer = {
        name: number(row, "mean_cosine")
        for name in ("without-first", "without-massive")
        for row in layer_rows(tables, name)
        if number(row, "layer") == number(top, "layer") and math.isfinite(number(row, "mean_cosine"))
    }
    cause = attribute_peak(number(top, "mean_cosine"), same_layer) if same_layer else ""
    if not cause.endswith(("causes it", "cause it")):
        return ""
    rest = min(same_layer.values())
    verb = "causes" if cause.endswith("causes it") else "cause"
    who = cause.removesuffix(f" {verb} it").replace(", not only at the first position,", "")
    them = "it" if verb == "causes" else "them"
    return (
        f"{who[0].lower()}{who[1:]} {verb} this: without {them} the mean cosine is {format_number(rest, 2)} there"
    )


def _remark_coordinate(tables: Tables, base: str, top: Row) -> str:
    if not top or not is_dominated_by_one(top):
        return ""
    share = min(number(top, "rogue_cosine_share"), 1.0)
    coordinate = number(top, "rogue_coordinate")
    name = f"coordinate {round(coordinate)}" if math.isfinite(coordinate) else "one coordinate"
    return f"{name} alone makes up {format_percent(share, 2)} of that cosine"


def _at(row: Row) -> str:
    place = locate(row)
    return "" if place == "over all vectors" else f", {place}"


def _reason(rows: Sequence[Row], column: str) -> str:
    why = next((reason for row in rows if (reason := undefined_reasons(row).get(column))), "")
    return f" ({why})" if why else ""
