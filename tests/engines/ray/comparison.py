"""A small corpus, the plan of its survey, and comparisons of two surveys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.small_models import sentences

from theodolite.engines.engine import Plan
from theodolite.engines.progress import Listener
from theodolite.models.checkpoint import resolve
from theodolite.surveys import text_survey
from theodolite.surveys.options import SurveyOptions

DOCUMENTS = sentences(90, seed=31)
SHARD_CHARS = 700  # about ten shards
CLOSE = 1e-9
"""Workers add the same float64 terms in another order: each sum moves by some 1e-16 of itself, and what is read
off by a solved system or a fit of few units magnifies that. Measured 2e-15; forward passes are equal."""
RANKS, OF_RANKS = {"rankme", "alpha_req", "effective_rank", "effective_rank_singular"}, 1e-7
"""Logarithms and roots of small eigenvalues. The first vectors of a worker are kept in float64, up to as many as
coordinates, and later ones multiplied in float32, so that some terms differ. Measured 9e-9."""
WORDS = 1e-5
"""Words are numbered as they are met and a batch's rows are sorted by number, so workers add a batch's float32
products in another order too: what merging surveys is held to. Measured 1e-8."""


def make_plan(model: Path, documents: list[Any] | None = None, *, device: str = "cpu", **expected: Any) -> Plan:
    settings = {"batch_tokens": 256, "layers": "0,2", "sample_size": 64, **expected}
    return text_survey.plan(
        resolve(str(model)),
        documents or DOCUMENTS,
        SurveyOptions(**settings),
        device,
        Listener(),
        local_device="cpu",
    )


def assert_same_bits(one: Any, other: Any) -> None:
    """Sums, samples and the list of shards are equal bit for bit."""
    assert one.state.shards == other.state.shards
    assert one.state.positions == other.state.positions
    for index, fold in one.state.folds.items():
        mine, theirs = fold.state(), other.state.folds[index].state()
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def assert_same_numbers(one: Any, other: Any) -> None:
    """Counts and samples are equal, every number is within CLOSE, or WORDS where words are counted."""
    close = WORDS if one.state.units.open else CLOSE
    assert one.state.shards == other.state.shards
    assert one.state.positions == other.state.positions
    left, right = one.layers, other.layers
    assert left[["layer", "population", "n", "types"]].equals(right[["layer", "population", "n", "types"]])
    for column in left.select_dtypes("number"):
        within = max(close, OF_RANKS) if column in RANKS else close
        mine, theirs = left[column].to_numpy(float), right[column].to_numpy(float)
        assert np.allclose(mine, theirs, rtol=within, atol=within, equal_nan=True), column
    keys = ["layer", "population", "unit"]
    tokens, others = one.tokens.set_index(keys).sort_index(), other.tokens.set_index(keys).sort_index()
    assert tokens.index.equals(others.index)
    assert (tokens["n"] == others["n"]).all()
    for column in "qmv":
        assert tokens[column].isna().equals(others[column].isna())  # units without a vector
        assert not (abs(tokens[column] - others[column]) > close * tokens["q"]).any()
    for index, fold in one.state.folds.items():
        drawn, others = (
            fold.sample.population((0, 1, 2, 3)),
            other.state.folds[index].sample.population((0, 1, 2, 3)),
        )
        assert torch.equal(drawn["key"], others["key"])
        assert torch.allclose(drawn["vector"], others["vector"], rtol=close, atol=close)
