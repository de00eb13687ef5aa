"""A toy that collapses is warned about, a healthy one is not."""

from __future__ import annotations

import warnings
from typing import Any

import pandas as pd
import pytest
import torch
from tests.integrations.tiny_training import rows_of, tiny
from tests.small_models import sentences

from theodolite.integrations import CollapseWarning, GeometryProbe, Thresholds
from theodolite.integrations.collapse import CollapseDetector


def _train(pull: float, steps: int = 60) -> GeometryProbe:
    """Train an encoder to tell its tokens apart, or with `pull` to give one and the same state everywhere."""
    model, tokenizer = tiny("encoder")
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    ids = torch.tensor([row["input_ids"] for row in rows_of(tokenizer)])
    probe = GeometryProbe(sentences(30, seed=9), tokenizer, every=5, share=None)
    for step in range(steps + 1):
        probe(model, step)
        out = model(input_ids=ids, labels=ids, output_hidden_states=True)
        states = out.hidden_states[-1].flatten(0, 1)
        loss = out.loss if not pull else pull * (states - torch.ones(states.shape[1])).square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return probe


def test_a_loss_that_pulls_everything_together_is_warned_about() -> None:
    with pytest.warns(CollapseWarning, match=r"step \d+: block 2 is collapsing: its mean cosine was .* and is "):
        probe = _train(pull=1.0)
    assert {each.layer for each in probe.collapses} >= {"block 2"}
    assert probe.series is not None
    assert any("block 2 is collapsing" in note for note in probe.series.notes["collapse"])
    assert len({(each.layer, each.measure) for each in probe.collapses}) == len(probe.collapses), "told once each"


def test_a_healthy_one_is_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapseWarning)
        probe = _train(pull=0.0)
    assert not probe.collapses
    assert probe.series is not None
    assert len(probe.series.steps) == 13


def _rows(rank: float | None, cosine: float) -> pd.DataFrame:
    return pd.DataFrame({"layer_name": ["block 1"], "effective_rank": [rank], "mean_cosine": [cosine]})


def _told(thresholds: Thresholds, *values: tuple[float | None, float]) -> list[tuple[int, str]]:
    found = CollapseDetector(thresholds)
    return [
        (each.step, each.measure)
        for step, value in enumerate(values)
        for each in found.update(step, _rows(*value))
    ]


def test_thresholds_are_of_the_first_measurement() -> None:
    once: Any = Thresholds(rank=0.1, spread=0.1, patience=1)
    assert _told(once, (50.0, 0.2), (5.01, 0.91)) == []
    assert _told(once, (50.0, 0.2), (4.99, 0.2)) == [(1, "effective rank")]
    assert _told(once, (50.0, 0.2), (50.0, 0.921)) == [(1, "mean cosine")]
    assert _told(once, (1.2, 0.99), (1.1, 0.991)) == [], "what was so at the beginning is no collapse"
    assert _told(Thresholds(rank=None, spread=None), *[(50.0, 0.2), *[(1.0, 1.0)] * 5]) == []


def test_patience_lets_a_phase_pass_and_a_recovery_starts_again() -> None:
    low, high = (1.0, 0.2), (50.0, 0.2)
    assert _told(Thresholds(), high, low, low, high, low, low, high) == []
    assert _told(Thresholds(), high, low, low, low, low, high, low, low, low) == [
        (3, "effective rank"),
        (8, "effective rank"),
    ]


def test_equal_vectors_have_no_rank_and_are_a_collapse() -> None:
    assert _told(Thresholds(spread=None, patience=1), (50.0, 0.2), (None, 1.0)) == [(1, "effective rank")]
    assert _told(Thresholds(spread=None, patience=1), (50.0, 0.2), (float("nan"), 1.0)) == [(1, "effective rank")]
