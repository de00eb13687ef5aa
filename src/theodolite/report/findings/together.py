"""What several surveys say together: who is highest and lowest, where that is more than their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from theodolite.report.findings.change import change
from theodolite.report.findings.finding import ALIKE, Finding, apart, at, give_or_take, highest, lowest
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.findings.labels import labels
from theodolite.report.numbers import count, show
from theodolite.report.rows import ORDER, Row, layer_rows, number, populations
from theodolite.report.tables import Tables
from theodolite.report.vectors import of_vectors

# Without massive activations a number is worth telling where it changes by this factor.
FAR = 1.25
VALUE, COLUMN = "value", "column"
Values = Callable[[Row], Row]
Pick = Callable[[list[Row], str], Row | None]


@dataclass(frozen=True)
class Entry:
    """What one survey enters: its extreme of a measure, where it is, and its standard error (NaN: not told)."""

    name: str
    place: str
    value: float
    error: float
    column: str = ""

    def told(self) -> str:
        """Write the value with its error and its place."""
        return f"{give_or_take(self.value, self.error, self.column)} {self.place}".strip()


def together(surveys: Sequence[Tables]) -> list[Finding]:
    """Return what a comparison says, in reading order; nothing for fewer than two surveys."""
    if len(surveys) < 2:
        return []
    population = shared_population(surveys)
    contests = (_cosine, _rank_share, _tradeoff)
    found = [contest(surveys, population) for contest in contests]
    found += [change(surveys[0], surveys[1], population)] if len(surveys) == 2 else []
    return [one for one in found if one is not None]


def cautions(surveys: Sequence[Tables]) -> list[str]:
    """Return why numbers of these surveys may differ for other reasons than the models."""
    made = [
        _documents(surveys)
        or _differing(surveys, "corpus", "They read different corpora", "part of a difference may be the corpus"),
        _differing(
            surveys, "units", "Their units are of different kinds", "V_W, V_B and the trade-off do not compare"
        ),
        _sampled(surveys),
        _populations(surveys),
    ]
    return [text for text in made if text] if len(surveys) > 1 else []


def shared_population(surveys: Sequence[Tables]) -> str:
    """Return the first population that every survey has; empty for none."""
    known = [set(populations(tables)) for tables in surveys]
    common = set.intersection(*known) if known else set()
    return next((name for name in (*ORDER, *sorted(common)) if name in common), "")


def _cosine(surveys: Sequence[Tables], population: str) -> Finding | None:
    entries = _entries(surveys, population, _of("mean_cosine"), highest)
    text = _contest(entries, "The highest mean cosine", "high")
    text += _without(entries, _massive_out(surveys, population, _of("mean_cosine"), highest), "high")
    return _finding(surveys, "together-cosine", "mean_cosine", entries, "high", "highest mean cosine", text)


def _rank_share(surveys: Sequence[Tables], population: str) -> Finding | None:
    """Say whose variance lies in the smallest share of the coordinates there are; widths differ between models."""
    entries = _entries(surveys, population, _with_share, lowest)
    text = _contest(entries, "The lowest effective rank, as a share of the coordinates,", "low")
    text += _without(entries, _massive_out(surveys, population, _with_share, lowest), "low")
    head = "lowest effective rank / coordinates"
    return _finding(surveys, "together-rank", "effective_rank", entries, "low", head, text)


def _tradeoff(surveys: Sequence[Tables], population: str) -> Finding | None:
    entries = _entries(surveys, population, _falling, highest)
    text = _contest(entries, "The tightest trade-off (R² of V on M, slope below 0)", "high")
    return _finding(surveys, "together-tradeoff", "tradeoff_r2", entries, "high", "tightest trade-off, R²", text)


def _without(entries: list[Entry], rest: list[Entry], end: str) -> str:
    """Tell the first without massive activations, where that is another survey or far from what it was."""
    if len(entries) < 2 or len(rest) != len(entries):
        return ""
    first, other = _first(entries, end), _first(rest, end)
    low, high = sorted((abs(first.value), abs(other.value)))
    same = first.name == other.name and high <= FAR * low
    return "" if same else f" Without massive activations it is {_told(other)} (the population without-massive)."


def _massive_out(surveys: Sequence[Tables], population: str, values: Values, pick: Pick) -> list[Entry]:
    return _entries(surveys, "without-massive", values, pick) if population == "all" else []


def _contest(entries: list[Entry], what: str, end: str) -> str:
    """Say who is first and who next, or that the errors do not tell them apart."""
    if len(entries) < 2:
        return ""
    first = _first(entries, end)
    second = _first([one for one in entries if one is not first], end)
    if not apart(first.value, second.value, first.error, second.error):
        why = "the errors do" if first.error > 0 or second.error > 0 else f"a difference below {ALIKE:.0%} does"
        return (
            f"{what} is {first.told()} in {first.name} and {second.told()} in {second.name}: {why} not tell them "
            "apart."
        )
    return f"{what} is {_told(first)}; next comes {_told(second)}."


def _told(entry: Entry) -> str:
    return f"{entry.told()} in {entry.name}"


def _first(entries: list[Entry], end: str) -> Entry:
    pick: Callable[..., Entry] = max if end == "high" else min
    return pick(entries, key=lambda one: one.value)


def _entries(surveys: Sequence[Tables], population: str, values: Values, pick: Pick) -> list[Entry]:
    """Return the extreme of each survey that has one; `values` gives each row as {VALUE: ..., VALUE_se: ...}."""
    found = []
    for name, tables in zip(labels(surveys), surveys, strict=True):
        row = pick([row | values(row) for row in layer_rows(tables, population)], VALUE)
        if row is not None:
            place = "" if of_vectors(tables) else at(row)  # vectors have one layer, which is all there is
            found.append(Entry(name, place, number(row, VALUE), number(row, f"{VALUE}_se"), row.get(COLUMN, "")))
    return found


def _of(column: str) -> Values:
    return lambda row: {VALUE: number(row, column), f"{VALUE}_se": number(row, f"{column}_se"), COLUMN: column}


def _with_share(row: Row) -> Row:
    dims = number(row, "dim")
    return {VALUE: number(row, "effective_rank") / dims if dims > 0 else math.nan}


def _falling(row: Row) -> Row:
    return _of("tradeoff_r2")(row) if number(row, "tradeoff_slope") < 0 else {VALUE: math.nan}


def _finding(
    surveys: Sequence[Tables], key: str, column: str, entries: list[Entry], end: str, head: str, text: str
) -> Finding | None:
    if not text:
        return None
    first = _first(entries, end)
    return _made(surveys, key, show(first.value), f"{head}: {first.name}", text, column, first.place)


def _made(
    surveys: Sequence[Tables], key: str, figure: str, headline: str, text: str, column: str, place: str = ""
) -> Finding:
    formula = formula_id(surveys[0], column)
    return Finding(key, figure, headline, text, column=column, chart="side-by-side", formula=formula, place=place)


def _differing(surveys: Sequence[Tables], key: str, what: str, so: str) -> str:
    named = [_named(tables.facts.get(key)) for tables in surveys]
    return f"{what} ({', '.join(dict.fromkeys(shown for _, shown in named))}): {so}." if _several(named) else ""


def _documents(surveys: Sequence[Tables]) -> str:
    """Say of one corpus, by its name, that not the same documents of it were read, and how many of each."""
    corpora = [corpus for tables in surveys if isinstance(corpus := tables.facts.get("corpus"), dict)]
    names = {str(corpus.get("name") or "") for corpus in corpora}
    differ = _several([_named(tables.facts.get("corpus")) for tables in surveys])
    if not differ or len(names) != 1 or names == {""}:
        return ""
    sizes = [number(corpus, "documents") for corpus in corpora]
    known = all(map(math.isfinite, sizes)) and len(set(sizes)) > 1
    listed = f": {' and '.join(map(count, sizes))}" if known else ""
    return f"They read different documents of {names.pop()}{listed}. Part of a difference may be the corpus."


def _several(named: list[tuple[str, str]]) -> bool:
    told = [identity for identity, _ in named]
    return all(told) and len(set(told)) > 1


def _named(fact: object) -> tuple[str, str]:
    """Return what tells one from another, its checksum where it has one, and what it is called."""
    if isinstance(fact, dict):
        name = str(fact.get("name") or "")
        return str(fact.get("sha256") or name), name or "one without a name"
    return (str(fact), str(fact)) if fact else ("", "")


def _sampled(surveys: Sequence[Tables]) -> str:
    sizes = []
    for tables in surveys:
        rows = layer_rows(tables, shared_population(surveys))
        sizes += [number(row, "twonn_n") for row in (highest(rows, "twonn_n"),) if row is not None]
    if len(sizes) < 2 or min(sizes) >= 0.75 * max(sizes):
        return ""
    return (
        f"TwoNN is of {show(min(sizes))} vectors in one survey and of {show(max(sizes))} in another: it depends "
        "on their number, so compare it only at equal numbers."
    )


def _populations(surveys: Sequence[Tables]) -> str:
    if shared_population(surveys):
        return ""
    return (
        "No population was measured in all of them, so they are not compared; survey again with --populations all."
    )
