"""Dead and rogue dimensions, and the effective rank, against the definitions over all vectors."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.stores.dimensions import describe_dimensions
from theodolite.stores.pair_scores import pair_moments
from theodolite.stores.reader import ArrayReader
from theodolite.stores.scan import scan_store


def describe(vectors):
    scan = scan_store(ArrayReader(vectors, name="store", digest="a"))
    return describe_dimensions(scan, pair_moments(scan.count, scan.units, scan.products).mean)


def test_the_table_and_the_rank_are_those_of_the_vectors():
    vectors = np.random.default_rng(0).normal(size=(400, 6)) * np.linspace(3, 0.5, 6) + 0.5
    found = describe(vectors)
    table = found.tables["dimensions"]
    np.testing.assert_allclose(table["mean"], vectors.mean(0))
    np.testing.assert_allclose(table["sd"], vectors.std(0))
    np.testing.assert_allclose(table["variance_share"], vectors.var(0) / vectors.var(0).sum())
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [np.outer(units[:, i], units[:, i]) for i in range(6)]
    parts = np.array([part.sum() - np.trace(part) for part in pairs])
    np.testing.assert_allclose(table["cosine_share"], parts / parts.sum())
    shares = np.linalg.eigvalsh(np.cov(units.T, bias=True))
    shares = shares / shares.sum()
    assert found.facts["effective_rank"] == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))


def test_dead_and_rogue_dimensions_are_named():
    vectors = np.random.default_rng(1).normal(size=(300, 8))
    vectors[:, 2], vectors[:, 5] = 1.5, vectors[:, 5] * 1e-5
    vectors[:, 6] += 40
    dead, rogue, _ = describe(vectors).answers
    assert dead.sentence == "2 dimensions of 8 hardly vary (2, 5)."
    assert rogue.sentence.startswith("Dimension 6 alone makes up")
    assert rogue.verdict == "attention"


def test_few_vectors_are_too_few_for_a_rank():
    found = describe(np.random.default_rng(2).normal(size=(30, 12)))
    assert found.answers[2].verdict == "unknown"
    assert "too low" in found.answers[2].reason
