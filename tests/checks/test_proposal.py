"""Proposed rules: their errors by definition, and how often documents of the same source break them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.checks.subjects import draw, make_subject

from theodolite.checks import proposal
from theodolite.checks.judge import judge
from theodolite.checks.proposal import SPECTRAL, _calibrate, _jackknife_spectrum, propose_rules
from theodolite.measures.uncertainty import jackknife
from theodolite.tables.shape import spectral_numbers


def exact_errors(x: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """The definition: all eigenvalues of the covariance again without each group."""

    def without(one: int) -> np.ndarray:
        kept = x[group != one]
        values = np.linalg.eigvalsh(np.cov(kept.T, bias=True))[::-1]
        numbers = spectral_numbers(np.maximum(values, 0))
        return np.array([numbers[name] for name in SPECTRAL])

    return dict(zip(SPECTRAL, jackknife(int(group.max()) + 1, without), strict=True))


def test_errors_of_the_spectrum_are_nearly_those_of_leaving_groups_out() -> None:
    """To first order, 14% too much here; the error of independent vectors would be less than half."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(20), 60)
    centres = rng.normal(size=(20, 12)) * np.linspace(3, 0.2, 12)
    x = centres[group] + rng.normal(size=(1200, 12)) * np.linspace(2, 0.5, 12)
    found, expected = _jackknife_spectrum(x, group), exact_errors(x, group)
    alone = exact_errors(x, rng.permutation(group))  # the wrong one: documents ignored
    for name in SPECTRAL:
        assert found[name] == pytest.approx(expected[name], rel=0.2)
        assert alone[name] < 0.5 * expected[name]


def test_too_few_groups_have_no_error() -> None:
    assert _jackknife_spectrum(np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 9) == {}


def test_numbers_with_errors_are_tested_and_others_limited() -> None:
    rng = np.random.default_rng(0)
    base = make_subject(
        {"q": draw(rng), "mean_cosine": draw(rng)},
        twonn=[5.0, 6.0, 7.0],
        twonn_se=[0.1, 0.1, 0.2],
        nonfinite=[0] * 3,
    )
    rules, comments = propose_rules(base)
    by_column = {rule.column: rule for rule in rules.rules}
    assert [name for name, rule in by_column.items() if rule.test] == ["q", "mean_cosine"]
    # sqrt(2) * 1.7 standard errors of the layer where they are most, times t(19) at 0.01 / 2 / 3 limits.
    assert by_column["twonn"].relative == pytest.approx(np.sqrt(2) * 1.7 * 0.2 / 7 * 3.4, rel=0.05)
    assert by_column["nonfinite"].max == 0
    assert by_column["documents"].relative == 0.1
    assert rules.level == 0.04
    assert any("In 1,000 splits of the baseline's groups" in line for line in comments)
    assert not any(outcome.broken for outcome in judge(base, base, rules))


@pytest.mark.slow
def test_documents_of_the_same_source_break_proposed_rules_rarely() -> None:
    alarms = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        sides = [
            make_subject({"q": draw(rng, 6), "mean_cosine": draw(rng, 6)}, corpus=str(side)) for side in range(2)
        ]
        rules, _ = propose_rules(sides[0])
        alarms += any(outcome.broken for outcome in judge(sides[1], sides[0], rules))
    assert alarms <= 150 * 0.05 + 2 * np.sqrt(150 * 0.05 * 0.95)


def test_a_change_of_two_standard_deviations_of_a_group_is_caught() -> None:
    rng = np.random.default_rng(0)
    base, other = make_subject({"q": draw(rng)}), make_subject({"q": draw(rng, shift=2.0)}, corpus="other")
    assert any(outcome.broken for outcome in judge(other, base, propose_rules(base)[0]))


def test_the_level_is_lowered_until_few_splits_are_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    base = make_subject({"q": draw(np.random.default_rng(0))})
    smallest = np.linspace(0, 0.2, 1000)  # a fifth of the splits are below 0.04
    monkeypatch.setattr(proposal, "_split_halves", lambda values, rng: smallest)
    level, alarms = _calibrate(base, {"q": [0, 1, 2]}, 0.04, 0.05, 0)
    assert (level, alarms <= 0.05) == (0.01, True)
