"""Findings that compare several surveys, and the largest change between two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from theodolite.report.catalogue import find_formula_id
from theodolite.report.findings.finding import ALIKE, Finding, differs, format_with_error, highest, locate, lowest
from theodolite.report.tables import (
    POPULATION_ORDER,
    Row,
    Tables,
    label_surveys,
    layer_name,
    layer_rows,
    number,
    populations,
)
from theodolite.report.vectors import hide_layer_name, is_vector_survey
from theodolite.studies.choice import default_population
from theodolite.text import format_count, format_number, join_words

CHANGE_MEASURES = {
    "mean_cosine": "mean cosine",
    "effective_rank": "effective rank",
    "twonn": "TwoNN",
    "tradeoff_r2": "R² of V on M",
}
# The largest of many differences exceeds two standard errors by chance; it has to exceed this many.
CHANGE_ERRORS = 3.0
Pair = tuple[Row, Row]


def largest_change(before: Tables, after: Tables, population: str) -> Finding | None:
    """Describe where each measure changes most from the first survey to the second, if by more than its error."""
    first, second = (layer_rows(tables, population) for tables in (before, after))
    if not first or [layer_name(row) for row in first] != [layer_name(row) for row in second]:
        return None
    widest = {
        column: pair for column in CHANGE_MEASURES if (pair := _widest_pair(first, second, column)) is not None
    }
    if not widest:
        return None
    moved = {column: pair for column, pair in widest.items() if _exceeds_errors(column, pair)}
    a, b = label_surveys([before, after])
    if not moved:
        listed = ", ".join(CHANGE_MEASURES[column] for column in widest)
        where = " at any layer" if len(first) > 1 else ""
        text = f"{b} does not differ from {a}{where} by more than the errors, or 5% without errors: {listed}."
        return _change_finding(before, "none", "change beyond the errors", text, "mean_cosine", "")
    changes = "; ".join(_describe_change(column, pair) for column, pair in moved.items())
    column, pair = next(iter(moved.items()))
    still = [label for name, label in CHANGE_MEASURES.items() if name in widest and name not in moved]
    unchanged = f" No change beyond the errors: {', '.join(still)}." if still else ""
    place = _locate_unless_vectors(pair[0])
    head = f"{'largest ' if place else ''}change of the {CHANGE_MEASURES[column]}{f', {place}' if place else ''}"
    text = f"From {a} to {b}: {changes}.{unchanged}"
    return _change_finding(before, f"{_signed(_difference(column, pair), 3)}", head, text, column, place)


def _widest_pair(first: list[Row], second: list[Row], column: str) -> Pair | None:
    pairs = [pair for pair in zip(first, second, strict=True) if math.isfinite(_difference(column, pair))]
    return max(pairs, key=lambda pair: abs(_difference(column, pair)), default=None)


def _difference(column: str, pair: Pair) -> float:
    return number(pair[1], column) - number(pair[0], column)


def _exceeds_errors(column: str, pair: Pair) -> bool:
    (a, b), (a_error, b_error) = ([number(row, name) for row in pair] for name in (column, f"{column}_se"))
    return differs(a, b, a_error, b_error, times=CHANGE_ERRORS)


def _describe_change(column: str, pair: Pair) -> str:
    error = math.hypot(*(number(row, f"{column}_se") for row in pair))
    give = f" ± {format_number(error, 2)}" if error > 0 else ""
    values = " to ".join(format_number(number(row, column)) for row in pair)
    where = f" {place}" if (place := _locate_unless_vectors(pair[0])) else ""
    return f"{CHANGE_MEASURES[column]} {values}{where} ({_signed(_difference(column, pair), 3)}{give})"


def _locate_unless_vectors(row: Row) -> str:
    return "" if layer_name(row) == "vectors" else locate(row)  # vectors have one layer only


def _signed(value: float, digits: int) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{format_number(abs(value), digits)}"


def _change_finding(tables: Tables, figure: str, headline: str, text: str, column: str, place: str) -> Finding:
    formula = find_formula_id(tables, column)
    return Finding(
        "together-change",
        figure,
        headline,
        text,
        column=column,
        chart="side-by-side",
        formula=formula,
        place=place,
    )


# A value without massive activations is reported if it differs by this factor.
FACTOR = 1.25
VALUE, COLUMN = "value", "column"
Values = Callable[[Row], Row]
Pick = Callable[[list[Row], str], Row | None]


@dataclass(frozen=True)
class Entry:
    """The extreme of a measure in one survey, its layer, and its standard error (NaN if unknown)."""

    name: str
    place: str
    value: float
    error: float
    column: str = ""

    def describe(self) -> str:
        """Return the value with its error and its layer."""
        return f"{format_with_error(self.value, self.error, self.column)} {self.place}".strip()


def compare_surveys(surveys: Sequence[Tables]) -> list[Finding]:
    """Return the findings of a comparison, in reading order; none for fewer than two surveys."""
    if len(surveys) < 2:
        return []
    surveys = [hide_layer_name(tables) for tables in surveys]
    population = shared_population(surveys)
    comparisons = (_compare_cosine, _compare_rank, _compare_tradeoff)
    found = [compare(surveys, population) for compare in comparisons]
    found += [largest_change(surveys[0], surveys[1], population)] if len(surveys) == 2 else []
    return [one for one in found if one is not None]


def comparison_cautions(surveys: Sequence[Tables]) -> list[str]:
    """Return the reasons other than the models why numbers of these surveys may differ."""
    cautions = [
        _documents_caution(surveys)
        or _fact_caution(
            surveys, "corpus", "The surveys use different corpora", "part of a difference may come from the corpus"
        ),
        _fact_caution(
            surveys, "units", "The surveys use different units", "V_W, V_B and the trade-off are not comparable"
        ),
        _sample_caution(surveys),
        _population_caution(surveys),
    ]
    return [text for text in cautions if text] if len(surveys) > 1 else []


def shared_population(surveys: Sequence[Tables]) -> str:
    """Return the default population if every survey has it, or else the first that all have; empty for none."""
    known = [set(populations(tables)) for tables in surveys]
    common = set.intersection(*known) if known else set()
    order = (default_population([tables.facts for tables in surveys]), *POPULATION_ORDER, *sorted(common))
    return next((name for name in order if name in common), "")


def _compare_cosine(surveys: Sequence[Tables], population: str) -> Finding | None:
    entries = _entries(surveys, population, _column_values("mean_cosine"), highest)
    text = _compare_leaders(entries, "The highest mean cosine", "high")
    text += _without_massive(
        entries, _entries_without_massive(surveys, population, _column_values("mean_cosine"), highest), "high"
    )
    return _leader_finding(surveys, "together-cosine", "mean_cosine", entries, "high", "highest mean cosine", text)


def _compare_rank(surveys: Sequence[Tables], population: str) -> Finding | None:
    """Compare effective ranks as a share of the coordinates, because widths differ between models."""
    entries = _entries(surveys, population, _rank_values, lowest)
    text = _compare_leaders(entries, "The lowest effective rank, as a share of the coordinates,", "low")
    text += _without_massive(entries, _entries_without_massive(surveys, population, _rank_values, lowest), "low")
    head = "lowest effective rank / coordinates"
    return _leader_finding(surveys, "together-rank", "effective_rank", entries, "low", head, text)


def _compare_tradeoff(surveys: Sequence[Tables], population: str) -> Finding | None:
    entries = _entries(surveys, population, _tradeoff_values, highest)
    text = _compare_leaders(entries, "The tightest trade-off (R² of V on M, negative slope)", "high")
    return _leader_finding(
        surveys, "together-tradeoff", "tradeoff_r2", entries, "high", "tightest trade-off, R²", text
    )


def _without_massive(entries: list[Entry], others: list[Entry], end: str) -> str:
    """Describe the leader without massive activations, if it is another survey or has another value."""
    if len(entries) < 2 or len(others) != len(entries):
        return ""
    first, other = _leader(entries, end), _leader(others, end)
    low, high = sorted((abs(first.value), abs(other.value)))
    same = first.name == other.name and high <= FACTOR * low
    return "" if same else f" Without massive activations it is {_in_survey(other)} (population without-massive)."


def _entries_without_massive(
    surveys: Sequence[Tables], population: str, values: Values, pick: Pick
) -> list[Entry]:
    return _entries(surveys, "without-massive", values, pick) if population == "all" else []


def _compare_leaders(entries: list[Entry], what: str, end: str) -> str:
    """Describe the first two surveys, or that their difference is within the errors."""
    if len(entries) < 2:
        return ""
    first = _leader(entries, end)
    second = _leader([one for one in entries if one is not first], end)
    if not differs(first.value, second.value, first.error, second.error):
        limit = "within the errors" if first.error > 0 or second.error > 0 else f"below {ALIKE:.0%}"
        return f"{what} is {_in_survey(first)} and {_in_survey(second)}: the difference is {limit}."
    return f"{what} is {_in_survey(first)}; the next is {_in_survey(second)}."


def _in_survey(entry: Entry) -> str:
    return f"{entry.describe()} in {entry.name}"


def _leader(entries: list[Entry], end: str) -> Entry:
    pick: Callable[..., Entry] = max if end == "high" else min
    return pick(entries, key=lambda one: one.value)


def _entries(surveys: Sequence[Tables], population: str, values: Values, pick: Pick) -> list[Entry]:
    """Return the extreme of each survey that has one; `values` gives each row as {VALUE: ..., VALUE_se: ...}."""
    found = []
    for name, tables in zip(label_surveys(surveys), surveys, strict=True):
        row = pick([row | values(row) for row in layer_rows(tables, population)], VALUE)
        if row is not None:
            place = "" if is_vector_survey(tables) else locate(row)  # vectors have one layer only
            found.append(Entry(name, place, number(row, VALUE), number(row, f"{VALUE}_se"), row.get(COLUMN, "")))
    return found


def _column_values(column: str) -> Values:
    return lambda row: {VALUE: number(row, column), f"{VALUE}_se": number(row, f"{column}_se"), COLUMN: column}


def _rank_values(row: Row) -> Row:
    dims = number(row, "dim")
    return {VALUE: number(row, "effective_rank") / dims if dims > 0 else math.nan}


def _tradeoff_values(row: Row) -> Row:
    return _column_values("tradeoff_r2")(row) if number(row, "tradeoff_slope") < 0 else {VALUE: math.nan}


def _leader_finding(
    surveys: Sequence[Tables], key: str, column: str, entries: list[Entry], end: str, head: str, text: str
) -> Finding | None:
    if not text:
        return None
    first = _leader(entries, end)
    return _made(surveys, key, format_number(first.value), f"{head}: {first.name}", text, column, first.place)


def _made(
    surveys: Sequence[Tables], key: str, figure: str, headline: str, text: str, column: str, place: str = ""
) -> Finding:
    formula = find_formula_id(surveys[0], column)
    return Finding(key, figure, headline, text, column=column, chart="side-by-side", formula=formula, place=place)


def _fact_caution(surveys: Sequence[Tables], key: str, what: str, so: str) -> str:
    named = [_identify(tables.facts.get(key)) for tables in surveys]
    return (
        f"{what} ({', '.join(dict.fromkeys(shown for _, shown in named))}): {so}."
        if _all_known_and_differ(named)
        else ""
    )


def _documents_caution(surveys: Sequence[Tables]) -> str:
    """Return a caution if the surveys use different documents of a corpus with the same name."""
    corpora = [corpus for tables in surveys if isinstance(corpus := tables.facts.get("corpus"), dict)]
    names = {str(corpus.get("name") or "") for corpus in corpora}
    differ = _all_known_and_differ([_identify(tables.facts.get("corpus")) for tables in surveys])
    if not differ or len(names) != 1 or names == {""}:
        return ""
    sizes = [number(corpus, "documents") for corpus in corpora]
    known = all(map(math.isfinite, sizes)) and len(set(sizes)) > 1
    listed = f" ({join_words(list(map(format_count, sizes)))})" if known else ""
    return (
        f"The surveys use different documents of {names.pop()}{listed}. "
        "Part of a difference may come from the corpus."
    )


def _all_known_and_differ(named: list[tuple[str, str]]) -> bool:
    identities = [identity for identity, _ in named]
    return all(identities) and len(set(identities)) > 1


def _identify(fact: object) -> tuple[str, str]:
    """Return what identifies a model or corpus (its checksum, else its name), and its name."""
    if isinstance(fact, dict):
        name = str(fact.get("name") or "")
        return str(fact.get("sha256") or name), name or "unnamed"
    return (str(fact), str(fact)) if fact else ("", "")


def _sample_caution(surveys: Sequence[Tables]) -> str:
    sizes = []
    for tables in surveys:
        rows = layer_rows(tables, shared_population(surveys))
        sizes += [number(row, "twonn_n") for row in (highest(rows, "twonn_n"),) if row is not None]
    if len(sizes) < 2 or min(sizes) >= 0.75 * max(sizes):
        return ""
    return (
        f"TwoNN uses {format_number(min(sizes))} vectors in one survey and {format_number(max(sizes))} in "
        "another. It depends on their number, so compare it only for equal numbers."
    )


def _population_caution(surveys: Sequence[Tables]) -> str:
    if shared_population(surveys):
        return ""
    return (
        "No population was measured in all surveys, so they are not compared. Survey again with --populations all."
    )
