"""Near duplicates among all rows: those of all pairs are found, with their cosines."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from theodolite.stores import near_duplicates
from theodolite.stores.near_duplicates import Signatures, measure_pairs
from theodolite.stores.reader import ArrayReader

BOUND = 0.98


def make_store(count: int = 4000, dim: int = 48, offset: float = 0.0) -> np.ndarray:
    """Return vectors about a mean, 200 of which are noisy copies of others: some above the bound, some below."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(count, dim)) * np.linspace(2, 0.3, dim) + offset
    noise = rng.normal(size=(200, dim)) * np.linspace(2, 0.3, dim) * rng.uniform(0.02, 0.3, size=(200, 1))
    vectors[1000:1200] = vectors[:200] + noise
    return vectors.astype(np.float32)


def all_near_pairs(vectors: np.ndarray) -> dict[tuple[int, int], float]:
    units = vectors.astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    cosines = np.triu(units @ units.T, 1)
    return {(int(i), int(j)): float(cosines[i, j]) for i, j in np.argwhere(cosines >= BOUND)}


def find(vectors: np.ndarray, keep: np.ndarray | None = None) -> tuple[Signatures, dict[tuple[int, int], float]]:
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    mean = units.mean(0).astype(np.float64)
    reader = ArrayReader(vectors, name="store", digest="a")
    signatures = Signatures(mean)
    for block in reader.blocks(rows=700):
        signatures.update(block)
    kept = np.ones(len(vectors), bool) if keep is None else keep
    pairs = signatures.candidates(BOUND, float(mean @ mean), kept)
    table = measure_pairs(reader, pairs, BOUND)
    return signatures, {(row.row, row.nearest): row.cosine for row in table.itertuples()}


@pytest.mark.parametrize("offset", [0.0, 1.5])
def test_near_pairs_are_those_of_all_pairs(offset):
    vectors = make_store(offset=offset)
    truth = all_near_pairs(vectors)
    _, found = find(vectors)
    assert len(truth) > 50
    assert set(found) <= set(truth)  # every listed pair is measured
    assert len(found) >= 0.97 * len(truth)
    for pair, cosine in found.items():
        assert cosine == pytest.approx(truth[pair], abs=1e-6)


def test_rows_that_are_not_kept_are_not_compared():
    vectors = make_store()
    keep = np.ones(len(vectors), bool)
    keep[1000:1200] = False
    assert find(vectors, keep)[1] == {}


def test_more_pairs_than_can_be_measured_keeps_the_closest(monkeypatch):
    monkeypatch.setattr(near_duplicates, "MOST_PAIRS", 20)
    vectors = make_store()
    truth = all_near_pairs(vectors)
    signatures, found = find(vectors)
    assert not signatures.is_complete
    assert len(found) == 20
    assert np.mean(list(found.values())) > np.mean(list(truth.values()))


def test_signatures_continue_from_their_state():
    vectors = make_store()[:600]
    reader, mean = ArrayReader(vectors, name="store", digest="a"), np.zeros(48)
    whole, half, rest = Signatures(mean), Signatures(mean), Signatures(mean)
    blocks = list(reader.blocks(rows=300))
    for block in blocks:
        whole.update(block)
    half.update(blocks[0])
    rest.load(half.state())
    rest.update(blocks[1])
    for name, values in whole.state().items():
        assert torch.equal(values, rest.state()[name])


def test_rows_without_a_direction_have_no_signature():
    vectors = make_store()[:100]
    vectors[4], vectors[9, 2] = 0, np.nan
    signatures = Signatures(np.zeros(48))
    signatures.update(next(ArrayReader(vectors, name="store", digest="a").blocks()))
    assert set(range(100)) - set(signatures.state()["signature_rows"].tolist()) == {4, 9}


def test_two_equal_rows_and_no_rows():
    assert find(np.ones((2, 4), np.float32))[1] == {(0, 1): pytest.approx(1.0)}
    assert find(np.ones((1, 4), np.float32))[1] == {}
