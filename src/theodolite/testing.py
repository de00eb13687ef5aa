"""For tests of your own: assert that the geometry of a model has not changed.

from theodolite.testing import assert_geometry

def test_geometry():
    survey = theodolite.survey("models/new", corpus="tests/documents.txt")
    assert_geometry(survey, "tests/baseline", rules="tests/rules.toml")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.api.check import RuleSource
    from theodolite.checks.result import CheckResult
    from theodolite.checks.subject import Source


def assert_geometry(
    subject: Source, baseline: Source, *, rules: RuleSource | None = None, **options: Any
) -> CheckResult:
    """Raise AssertionError with one line per broken rule; return the result if every rule holds.

    subject, baseline: surveys, stores or series, in memory or as folders; rules: a TOML file, a dict, or a list of
    rules; the options are those of `theodolite.check`. Input that cannot be compared raises InputError.
    """
    __tracebackhide__ = True
    from theodolite.api.check import check

    result = check(subject, baseline, rules=rules, **options)
    if not result.passed:
        lines = "\n".join(f"  {line}" for line in (*result.broken, *(f"note: {note}" for note in result.notes)))
        raise AssertionError(f"{result.subject}: {result.summary}\n{lines}")
    return result
