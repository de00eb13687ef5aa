"""The result of a check: every rule with its outcome, as a table, JSON and JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from theodolite.checks.cells import Cell
from theodolite.checks.judge import Outcome
from theodolite.checks.rules import Rules
from theodolite.storage.atomic import write_atomically
from theodolite.storage.files import write_json
from theodolite.text import encodable, pluralize

SCHEMA = 1
COLUMNS = (
    "rule table column layer layer_name population key value baseline difference allowed se p p_adjusted broken "
    "reason"
).split()


@dataclass(frozen=True, eq=False)
class CheckResult:
    """What `theodolite.check` found.

    subject, baseline  their labels
    kind      survey, store or series
    rules     the rules that were asked
    outcomes  one per rule
    notes     what differs besides the numbers, such as the weights
    facts     survey.json or store.json of both
    """

    subject: str
    baseline: str
    kind: str
    rules: Rules
    outcomes: Sequence[Outcome]
    notes: Sequence[str]
    facts: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        """Whether every rule holds."""
        return not self.broken

    @property
    def broken(self) -> list[str]:
        """One sentence per broken rule."""
        return [outcome.sentence for outcome in self.outcomes if outcome.broken]

    @property
    def table(self) -> pd.DataFrame:
        """One row per rule and number."""
        rows = [
            {
                **asdict(cell),
                "rule": outcome.rule.title,
                "table": outcome.rule.table,
                "column": outcome.rule.column,
            }
            | {"difference": cell.difference}
            for outcome in self.outcomes
            for cell in outcome.cells
        ]
        return pd.DataFrame(rows, columns=COLUMNS).astype({"layer": "Int64"})

    @property
    def summary(self) -> str:
        """One line: how many rules hold, and how many numbers were tested."""
        tests = sum(cell.p is not None for outcome in self.outcomes for cell in outcome.cells)
        tested = pluralize(tests, "test")
        if self.passed:
            return f"All {pluralize(len(self.outcomes), 'rule')} hold ({tested})."
        verb = "is" if len(self.broken) == 1 else "are"
        return f"{len(self.broken)} of {pluralize(len(self.outcomes), 'rule')} {verb} broken ({tested})."

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the facts as JSON has it."""
        return {
            "schema": SCHEMA,
            "check": {"subject": self.subject, "baseline": self.baseline, "kind": self.kind},
            "passed": self.passed,
            "level": self.rules.level,
            "notes": list(self.notes),
            "rules": [
                {
                    "rule": outcome.rule.title,
                    "limit": outcome.rule.limit,
                    "broken": outcome.broken,
                    "sentence": outcome.sentence,
                    "cells": [_plain(cell) for cell in outcome.cells],
                }
                for outcome in self.outcomes
            ],
        }

    def write_json(self, path: str | Path) -> None:
        """Write the result as JSON."""
        write_json(Path(path), self.as_dict())

    def write_junit(self, path: str | Path) -> None:
        """Write the result as JUnit XML: one test case per rule, which CI systems show."""
        text = self.as_junit()
        write_atomically(Path(path), lambda file: _write(file, text))

    def as_junit(self) -> str:
        """Return the result as JUnit XML."""
        failed = str(len(self.broken))
        counts = {"tests": str(len(self.outcomes)), "failures": failed, "errors": "0", "skipped": "0"}
        root = ElementTree.Element("testsuites", counts)
        suite = ElementTree.SubElement(root, "testsuite", {"name": "theodolite check", **counts})
        for number, outcome in enumerate(self.outcomes, 1):
            name = f"{number:02d} {outcome.rule.title}"
            case = ElementTree.SubElement(
                suite, "testcase", {"classname": f"theodolite.check.{self.kind}", "name": _printable(name)}
            )
            if outcome.broken:
                failure = ElementTree.SubElement(case, "failure", {"message": _printable(outcome.sentence)})
                broken = [cell for cell in outcome.cells if cell.broken]
                lines = [
                    f"{cell.place or outcome.rule.title}: {cell.value} (baseline {cell.baseline})"
                    for cell in broken
                ]
                failure.text = _printable("\n".join([outcome.rule.limit, *lines]))
            else:
                ElementTree.SubElement(case, "system-out").text = _printable(outcome.sentence)
        ElementTree.indent(root)
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"

    def __repr__(self) -> str:
        return f"CheckResult({self.subject!r} against {self.baseline!r}: {self.summary})"

    def _repr_html_(self) -> str:
        """Return the rules as a notebook shows them."""
        rows = [("broken" if one.broken else "holds", one.sentence) for one in self.outcomes]
        return str(pd.DataFrame(rows, columns=["outcome", "rule"]).to_html(index=False))


def _plain(cell: Cell) -> dict[str, Any]:
    return {**asdict(cell), "difference": cell.difference}


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _printable(text: str) -> str:
    """Return the text without characters that XML cannot hold.

    >>> _printable("a\\x00b")
    'a?b'
    """
    kept = (one if one in "\n\t" or (ord(one) >= 32 and ord(one) not in (0xFFFE, 0xFFFF)) else "?" for one in text)
    return encodable("".join(kept))
