"""theodolite.check: compare a survey, a store or a checkpoint with a baseline, rule by rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.checks.judge import judge
from theodolite.checks.proposal import propose_rules
from theodolite.checks.result import CheckResult
from theodolite.checks.rules import LEVEL, Rules, format_rules, parse_rules, read_rules
from theodolite.checks.subject import VECTORS, Source, Subject, list_changes, open_subject
from theodolite.errors import InputError
from theodolite.report.check_page import RuleCard, write_check_page
from theodolite.storage.atomic import write_atomically

RuleSource = str | Path | Rules | Mapping[str, Any] | Sequence[Mapping[str, Any]]


def check(
    subject: Source,
    baseline: Source,
    *,
    rules: RuleSource | None = None,
    step: int | None = None,
    baseline_step: int | None = None,
    level: float = LEVEL,
    page: str | Path | None = None,
) -> CheckResult:
    """Compare a survey, the results of a store, or a step of a series with a baseline of the same kind.

    subject, baseline  folders, or objects in memory
    rules              a TOML file, or its contents as a dict, or a list of dicts with one rule each; by default
                       those that `write_rules` proposes from the baseline
    step, baseline_step
                       of a series; by default the last
    level              share of false alarms of proposed rules
    page               an HTML file to write
    """
    mine = open_subject(subject, step=step)
    theirs = open_subject(baseline, step=baseline_step, option="--baseline")
    chosen = _find_rules(rules, theirs, level)
    outcomes = judge(mine, theirs, chosen)
    notes = list_changes(mine, theirs) + _rules_notes(chosen, theirs)
    facts = {"checked": mine.facts, "baseline": theirs.facts}
    result = CheckResult(mine.label, theirs.label, mine.kind, chosen, outcomes, notes, facts)
    if page is not None:
        write_page(result, page)
    return result


def write_rules(
    baseline: Source,
    out: str | Path,
    *,
    step: int | None = None,
    level: float = LEVEL,
    overwrite: bool = False,
) -> Rules:
    """Write rules that other documents of the same source keep in all but a share `level` of checks."""
    path = Path(out)
    if path.exists() and not overwrite:
        raise InputError(f"--rules {path} exists already; give --overwrite to replace it.")
    _check_level(level)
    found, comments = propose_rules(open_subject(baseline, step=step, option="--baseline"), level=level)
    text = format_rules(found, comments)
    write_atomically(path, lambda file: _write(file, text))
    return found


def write_page(result: CheckResult, path: str | Path) -> None:
    """Write the result as an HTML page."""
    table = result.table
    sizes = [len(outcome.cells) for outcome in result.outcomes]
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    cards = [
        RuleCard(
            outcome.rule.title,
            outcome.rule.column,
            outcome.broken,
            outcome.sentence,
            outcome.rule.limit,
            table.iloc[end - size : end].reset_index(drop=True),
        )
        for outcome, size, end in zip(result.outcomes, sizes, ends, strict=True)
    ]
    write_check_page(
        Path(path), result.subject, result.baseline, result.summary, result.notes, cards, result.facts
    )


def _find_rules(rules: RuleSource | None, baseline: Subject, level: float) -> Rules:
    if rules is None:
        _check_level(level)
        return propose_rules(baseline, level=level)[0]
    if isinstance(rules, Rules):
        return rules
    if isinstance(rules, str | Path):
        return read_rules(rules)
    return parse_rules(rules if isinstance(rules, Mapping) else {"rule": list(rules)})


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"--level must be between 0 and 1 (got {level}).")


def _rules_notes(rules: Rules, baseline: Subject) -> list[str]:
    """Return notes if tests ignore which rows belong together, or if the rules are of another baseline."""
    if any(rule.table == VECTORS for rule in rules.rules):
        return [
            "Tests of vectors count every row as a document; if several rows are of one document, compare the "
            "stores with `theodolite store --against --groups`."
        ]
    made = rules.baseline
    digest = (baseline.facts.get("model") or {}).get("sha256")
    if made and (made.get("name", baseline.title) != baseline.title or made.get("weights", digest) != digest):
        return [f"The rules were written from another baseline ({made.get('name')}); renew them with --init."]
    return []


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
