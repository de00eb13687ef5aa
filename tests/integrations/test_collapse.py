"""A collapsing toy model gives a warning, a healthy one does not."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tests.integrations.tiny_training import rows_of, tiny
from tests.small_models import sentences

from theodolite.integrations import CollapseWarning, GeometryProbe, Thresholds
from theodolite.integrations.collapse import CollapseDetector
from theodolite.studies.series import Series


def _train(pull: float, steps: int = 60) -> GeometryProbe:
    """Train an encoder to distinguish its tokens, or with `pull` to give the same state everywhere."""
    model, tokenizer = tiny("encoder")
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    ids = torch.tensor([row["input_ids"] for row in rows_of(tokenizer)])
    probe = GeometryProbe(sentences(15, seed=9), tokenizer, every=5, share=None)
    for step in range(steps + 1):
        probe(model, step)
        out = model(input_ids=ids, labels=ids, output_hidden_states=True)
        states = out.hidden_states[-1].flatten(0, 1)
        loss = out.loss if not pull else pull * (states - torch.ones(states.shape[1])).square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return probe


def test_a_collapsing_loss_gives_a_warning() -> None:
    with pytest.warns(CollapseWarning, match=r"step \d+: block 2 is collapsing: its mean cosine was .* and is "):
        probe = _train(pull=1.0)
    assert {each.layer for each in probe.collapses} >= {"block 2"}
    assert probe.series is not None
    assert any("block 2 is collapsing" in note for note in probe.series.notes["collapse"])
    assert len({(each.layer, each.measure) for each in probe.collapses}) == len(probe.collapses), (
        "each is reported once"
    )


def test_a_healthy_loss_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapseWarning)
        probe = _train(pull=0.0)
    assert not probe.collapses
    assert probe.series is not None
    assert len(probe.series.steps) == 13


def _collapsing(probe: GeometryProbe, steps: range) -> dict[str, float]:
    """Measure an encoder whose states become equal from step 2 on, without training it."""
    model, _ = tiny("encoder")
    numbers = {}
    for step in steps:
        with torch.no_grad():
            model.bert.encoder.layer[-1].output.LayerNorm.weight.fill_(1e-3 + 1e-6 * step if step > 1 else 1.0)
            model.bert.encoder.layer[-1].output.LayerNorm.bias.fill_(1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            numbers = probe.measure(model, step)
    return numbers


@pytest.mark.parametrize("back", [5, 3])
@pytest.mark.slow
def test_a_resumed_run_keeps_the_collapses_before_it(back: int, tmp_path: Path) -> None:
    """Resumed after the collapse (reported at step 4), or at step 3 with two of the three measurements seen."""
    tokenizer = tiny("encoder")[1]
    options: dict[str, Any] = {"share": None, "layers": [1, 2]}
    whole = GeometryProbe(sentences(15, seed=9), tokenizer, **options)
    expected = _collapsing(whole, range(6))["geometry/collapsed_layers"]
    assert expected == 1
    _collapsing(GeometryProbe(sentences(15, seed=9), tokenizer, out=tmp_path / "s", **options), range(back + 1))
    resumed = GeometryProbe(sentences(15, seed=9), tokenizer, out=tmp_path / "s", resume=True, **options)
    assert _collapsing(resumed, range(back, 6))["geometry/collapsed_layers"] == expected
    assert [str(each) for each in resumed.collapses] == [str(each) for each in whole.collapses]
    assert whole.series is not None
    assert Series.read(tmp_path / "s").notes == whole.series.notes
    # A run that does not check for collapse keeps the notes, too.
    unchecked = GeometryProbe(
        sentences(15, seed=9), tokenizer, out=tmp_path / "s", resume=True, collapse=None, **options
    )
    _collapsing(unchecked, range(6, 7))
    assert Series.read(tmp_path / "s").notes == whole.series.notes


def _rows(rank: float | None, cosine: float) -> pd.DataFrame:
    return pd.DataFrame({"layer_name": ["block 1"], "effective_rank": [rank], "mean_cosine": [cosine]})


def _collapses(thresholds: Thresholds, *values: tuple[float | None, float]) -> list[tuple[int, str]]:
    found = CollapseDetector(thresholds)
    return [
        (each.step, each.measure)
        for step, value in enumerate(values)
        for each in found.update(step, _rows(*value))
    ]


def test_thresholds_are_relative_to_the_first_measurement() -> None:
    once: Any = Thresholds(rank=0.1, spread=0.1, patience=1)
    assert _collapses(once, (50.0, 0.2), (5.01, 0.91)) == []
    assert _collapses(once, (50.0, 0.2), (4.99, 0.2)) == [(1, "effective rank")]
    assert _collapses(once, (50.0, 0.2), (50.0, 0.921)) == [(1, "mean cosine")]
    assert _collapses(once, (1.2, 0.99), (1.1, 0.991)) == [], "what was so at the beginning is no collapse"
    assert _collapses(Thresholds(rank=None, spread=None), *[(50.0, 0.2), *[(1.0, 1.0)] * 5]) == []


def test_patience_ignores_a_short_phase_and_a_recovery_resets_it() -> None:
    low, high = (1.0, 0.2), (50.0, 0.2)
    assert _collapses(Thresholds(), high, low, low, high, low, low, high) == []
    assert _collapses(Thresholds(), high, low, low, low, low, high, low, low, low) == [
        (3, "effective rank"),
        (8, "effective rank"),
    ]


def test_equal_vectors_have_no_rank_and_are_a_collapse() -> None:
    assert _collapses(Thresholds(spread=None, patience=1), (50.0, 0.2), (None, 1.0)) == [(1, "effective rank")]
    assert _collapses(Thresholds(spread=None, patience=1), (50.0, 0.2), (float("nan"), 1.0)) == [
        (1, "effective rank")
    ]
