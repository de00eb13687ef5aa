"""The result: one line per broken rule, a table, JSON and JUnit XML."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from tests.checks.subjects import draw, make_subject

from theodolite.checks.judge import judge
from theodolite.checks.result import CheckResult
from theodolite.checks.rules import parse_rules


def make_result(limit: float) -> CheckResult:
    rng = np.random.default_rng(0)
    subject = make_subject({"q": draw(rng)}, rank=[1.0, 5.0, 7.0])
    rules = parse_rules(
        {"rule": [{"column": "rank", "max": limit, "name": "rank <\x01&>"}, {"column": "q", "test": True}]}
    )
    return CheckResult("a", "b", "survey", rules, judge(subject, subject, rules), ["A note."], {})


def test_a_broken_rule_is_one_line_with_its_worst_number() -> None:
    result = make_result(4)
    assert not result.passed
    assert result.broken == ["rank <\x01&> at layer 2 (block 2): 7; at most 4; and at 1 more place"]
    assert result.summary == "1 of 2 rules is broken (3 tests)."
    assert make_result(9).summary == "All 2 rules hold (3 tests)."
    assert result.table["broken"].tolist() == [False, True, True, False, False, False]
    assert result.table["layer"].tolist() == [0, 1, 2, 0, 1, 2]


def test_json_has_every_number(tmp_path: Path) -> None:
    make_result(4).write_json(tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert (found["passed"], [rule["broken"] for rule in found["rules"]]) == (False, [True, False])
    assert [cell["value"] for cell in found["rules"][0]["cells"]] == [1.0, 5.0, 7.0]
    assert found["rules"][1]["cells"][0]["p"] == 1.0


def test_junit_has_a_case_per_rule_and_can_be_parsed(tmp_path: Path) -> None:
    make_result(4).write_junit(tmp_path / "a.xml")
    root = ElementTree.parse(tmp_path / "a.xml").getroot()
    assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "2", "1")
    cases = list(root.iter("testcase"))
    assert [case.get("name") for case in cases] == ["01 rank <?&>", "02 q"]
    failure = cases[0].find("failure")
    assert failure is not None
    assert "layer 2 (block 2)" in str(failure.get("message"))
    assert cases[1].find("failure") is None
