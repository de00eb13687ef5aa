"""Rules: TOML read and written, and one sentence for everything that is wrong with a file."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.checks.rules import Rule, Rules, format_rules, parse_rules, read_rules
from theodolite.errors import InputError

numbers = st.floats(0, 1e6, allow_nan=False)
limits = st.fixed_dictionaries({}, optional={"min": numbers, "max": numbers, "relative": numbers}).filter(bool)
rules = st.builds(
    lambda column, where, layers, asked: Rule(column=column, where=where, layers=layers, **asked),
    st.text(min_size=1).filter(lambda text: text.isprintable()),
    st.dictionaries(st.sampled_from(["unit", "question"]), st.text(st.characters(codec="utf-8")), max_size=1),
    st.none() | st.integers(-1, 40) | st.just("0-3,-1") | st.tuples(st.integers(0, 3), st.integers(4, 9)),
    limits | st.just({"test": True, "ignore": 0.01}) | st.just({"equal": True}),
)


@given(st.lists(rules, min_size=1, max_size=4), st.floats(0.001, 0.5))
def test_written_rules_are_read_as_the_same(made: list[Rule], level: float) -> None:
    text = format_rules(Rules(tuple(made), level, {"kind": "survey", "name": 'a "b"\n\\'}), ["a comment"])
    found = parse_rules(tomllib.loads(text))
    assert found.rules == tuple(made)
    assert found.level == level
    assert found.baseline == {"kind": "survey", "name": 'a "b"\n\\'}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "has no rules"),
        ({"rule": []}, "has no rules"),
        ({"rules": [{}]}, "'rules' is not a key of a file of rules. Did you mean 'rule'?"),
        ({"schema": 7, "rule": [{}]}, "has schema 7; this version reads schema 1"),
        ({"level": 2, "rule": [{}]}, "level must be between 0 and 1 (got 2)"),
        ({"rule": [{"max": 1}]}, "rule 1 names no column"),
        ({"rule": [{"column": "q"}]}, "rule 1 allows everything; add one of absolute, relative"),
        ({"rule": [{"column": "q", "maximum": 1}]}, "'maximum' is not a key of a rule."),
        ({"rule": [{"column": "q", "max": "1"}]}, "max must be a number (got '1')"),
        ({"rule": [{"column": "q", "relative": -1}]}, "relative must be at least 0 (got -1)"),
        ({"rule": [{"column": "q", "test": 1}]}, "test must be true or false (got 1)"),
        ({"rule": [{"column": "q", "test": True, "relative": 1}]}, "test excludes absolute, relative and equal"),
        ({"rule": [{"column": "q", "equal": True, "max": 1}]}, "equal excludes max"),
        ({"rule": [{"column": "q", "max": 1, "ignore": 1}]}, "ignore is for tests; use relative"),
        ({"rule": [{"column": "q", "max": 1, "layers": 1.5}]}, "layers must be a number, a list of numbers"),
        ({"rule": [{"column": "q", "max": 1, "where": "the"}]}, "where must name columns and values"),
        ({"rule": ["q"]}, "rule 1 is not a table of keys"),
    ],
)
def test_wrong_rules_are_explained(content: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_rules(content, "--rules r.toml")
    assert message in caught.value.message
    assert caught.value.message.startswith("--rules r.toml")
    assert caught.value.message.count("\n") == 0


def test_files_that_cannot_be_read_are_named(tmp_path: Any) -> None:
    with pytest.raises(InputError, match=r"there is no such file\. Write one with --init"):
        read_rules(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_text("[[rule]\ncolumn = 1", encoding="utf-8")
    with pytest.raises(InputError, match=r"bad.toml is not valid TOML: .*line 1"):
        read_rules(tmp_path / "bad.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        read_rules(tmp_path / "bytes.toml")


def test_a_maximum_of_0_is_a_limit() -> None:
    rule = parse_rules({"rule": [{"column": "nonfinite", "max": 0}]}).rules[0]
    assert (rule.max, rule.limit) == (0, "at most 0")
