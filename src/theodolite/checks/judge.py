"""Judge: every rule against the numbers of a subject and its baseline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from theodolite.checks.cells import Cell, find_cells
from theodolite.checks.rules import Rule, Rules
from theodolite.checks.significance import SurveyTests, check_aspect, compare_vectors
from theodolite.checks.subject import VECTORS, Subject, check_comparable
from theodolite.measures.uncertainty import holm
from theodolite.text import UNDEFINED, format_number, pluralize


@dataclass
class Outcome:
    """A rule with its cells: whether it is broken, and one sentence."""

    rule: Rule
    cells: list[Cell]

    @property
    def broken(self) -> bool:
        """Whether one of the numbers breaks the rule."""
        return any(cell.broken for cell in self.cells)

    @property
    def worst(self) -> Cell:
        """The cell that breaks the rule most, or is nearest to it; of significant changes the largest."""
        return max(self.cells, key=partial(_severity, self.rule))

    @property
    def sentence(self) -> str:
        """The outcome in one line: the worst number, what was allowed, and how many more break the rule."""
        worst, rule = self.worst, self.rule
        more = sum(cell.broken for cell in self.cells) - 1
        others = f"; and at {pluralize(more, 'more place')}" if self.broken and more > 0 else ""
        place = f" at {worst.place}" if worst.place else ""
        return f"{rule.title}{place}: {_describe(rule, worst)}{others}"


def judge(subject: Subject, baseline: Subject, rules: Rules) -> list[Outcome]:
    """Return the outcome of every rule. p-values are corrected for the number of tests of all rules (Holm)."""
    check_comparable(subject, baseline)
    tests = SurveyTests(subject, baseline)
    stores: Any = None
    outcomes = []
    for number, rule in enumerate(rules.rules, 1):
        where = f"{rules.source or 'rules'}, rule {number}"
        if rule.table == VECTORS:
            check_aspect(rule, subject, where)
            stores = compare_vectors(subject, baseline) if stores is None else stores
            row = stores.loc[rule.column]
            value, expected, p = (
                None if np.isnan(row[name]) else float(row[name]) for name in ("value", "expected", "p")
            )
            outcomes.append(Outcome(rule, [Cell(None, "", "", "", value, expected, str(row["reason"]), p=p)]))
            continue
        cells = find_cells(rule, subject, baseline, where)
        for cell in cells:
            if rule.test:
                tests.fill(rule, cell, where)
            _apply_limits(rule, cell)
        outcomes.append(Outcome(rule, cells))
    _correct([cell for outcome in outcomes for cell in outcome.cells if cell.p is not None], rules.level)
    return outcomes


def _correct(cells: list[Cell], level: float) -> None:
    """Set the corrected p-values, and which of them are significant."""
    adjusted = holm([float(cell.p) for cell in cells if cell.p is not None])
    for cell, p in zip(cells, adjusted.tolist(), strict=True):
        cell.p_adjusted = p
        cell.broken |= p <= level


def _apply_limits(rule: Rule, cell: Cell) -> None:
    """Set whether a cell is outside the limits of its rule."""
    value, baseline = cell.value, cell.baseline
    if rule.equal:
        cell.broken = value != baseline
        return
    if rule.absolute is not None or rule.relative is not None:
        if value is None or baseline is None:
            cell.broken = (value is None) != (baseline is None)
        else:
            cell.allowed = (rule.absolute or 0.0) + (rule.relative or 0.0) * abs(baseline)
            cell.broken = not abs(value - baseline) <= cell.allowed
    if rule.min is not None:
        cell.broken |= value is None or not value >= rule.min
    if rule.max is not None:
        cell.broken |= value is None or not value <= rule.max


def _severity(rule: Rule, cell: Cell) -> tuple[bool, float]:
    """Return a key that sorts cells by how far they are beyond what the rule allows."""
    if cell.p_adjusted is not None:
        share = abs(cell.difference or 0.0) / (abs(cell.baseline or 0.0) or 1.0)
        return cell.broken, share if cell.broken else -cell.p_adjusted
    if not isinstance(cell.value, float):
        return cell.broken, float("inf") if cell.broken else 0.0
    size = abs(cell.difference or 0.0) / cell.allowed if cell.allowed else abs(cell.difference or 0.0)
    beyond = [rule.min - cell.value] if rule.min is not None else []
    beyond += [cell.value - rule.max] if rule.max is not None else []
    return cell.broken, max([size, *beyond] if cell.allowed is not None else beyond or [size])


def _describe(rule: Rule, cell: Cell) -> str:
    """Return a cell in words: its number, that of the baseline, and what was allowed."""
    shown, before = (_show(rule, one) for one in (cell.value, cell.baseline))
    reason = f" ({cell.reason})" if cell.reason and cell.value is None else ""
    text = f"{shown}{reason}"
    if rule.table == VECTORS:
        text = f"{shown} (expected {before})" if cell.value is not None else "not tested"
    elif rule.test or rule.equal or rule.absolute is not None or rule.relative is not None:
        text += f", baseline {before}"
        if cell.difference is not None and cell.baseline:
            text += f" ({_signed(100 * cell.difference / abs(cell.baseline))}%)"
    if cell.p_adjusted is not None:
        return f"{text}; p = {format_number(cell.p_adjusted, 2)} after correction"
    if cell.allowed is not None:
        text += f"; allowed ±{format_number(cell.allowed, 3)}"
    bounds = [f"at least {format_number(rule.min)}"] if rule.min is not None else []
    bounds += [f"at most {format_number(rule.max)}"] if rule.max is not None else []
    return f"{text}; {', '.join(bounds)}" if bounds else text


def _signed(percent: float) -> str:
    text = format_number(percent, 3)
    return text if percent < 0 else f"+{text}"


def _show(rule: Rule, value: Any) -> str:
    if value is None:
        return "undefined"
    if isinstance(value, str):
        return repr(value)
    whole = float(value).is_integer() and abs(value) < 1e15 and rule.table in ("counts",)
    return f"{value:,.0f}" if whole else format_number(float(value)) or UNDEFINED
