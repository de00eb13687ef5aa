"""The first pass over a store: its laws, and its sums against definitions over all rows and pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from theodolite.engines.progress import Listener
from theodolite.errors import InputError, TheodoliteError
from theodolite.hashing import mix, text_hash
from theodolite.statistics.norms import bin_edges
from theodolite.stores import scan as scanning
from theodolite.stores.duplicates import find_duplicates
from theodolite.stores.reader import ArrayReader
from theodolite.stores.scan import Scan, scan_store

ROUNDING = 1e-11  # of float64 sums of a few hundred numbers of size 1 to 3,000


def make_store(count: int = 300, dim: int = 6, seed: int = 0, dtype: str = "float32") -> NDArray[np.floating]:
    """Return vectors with copies, zero rows, rows that are not finite and a coordinate at 3,000."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, dim))
    vectors[:, 0] += 3000
    vectors[count // 2 : count // 2 + 20] = vectors[:20]
    vectors[5], vectors[7, 2], vectors[9, 0] = 0, np.nan, np.inf
    return vectors.astype(dtype)


def scan_rows(vectors: NDArray[np.floating], rows: NDArray[np.int64], sample_size: int = 16) -> Scan:
    scan = Scan(vectors.shape[1], sample_size=sample_size, scatter=True)
    if len(rows):
        scan.update(rows, vectors[rows], mix(1, rows))
    return scan


def assert_equal_scans(one: Scan, other: Scan) -> None:
    """Sums agree to rounding; everything that is counted or chosen agrees exactly, whatever the order."""
    mine, theirs = one.state(), other.state()
    assert mine.keys() == theirs.keys()
    for scan_state in (mine, theirs):
        order = scan_state["hashed_rows"].argsort()
        scan_state["hashes"], scan_state["hashed_rows"] = (
            scan_state["hashes"][order],
            scan_state["hashed_rows"][order],
        )
    for name, values in mine.items():
        exact = values.dtype != torch.float64 or name.startswith(("list", "lowest", "highest"))
        tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": ROUNDING, "atol": ROUNDING * 3000}
        torch.testing.assert_close(values, theirs[name], **tolerance)


@given(
    cuts=st.lists(st.integers(0, 60), max_size=4), order=st.randoms(use_true_random=False), seed=st.integers(0, 9)
)
def test_any_split_in_any_order_equals_the_whole(cuts, order, seed):
    vectors = make_store(60, 3, seed)
    parts = [scan_rows(vectors, rows) for rows in np.split(np.arange(60), sorted(cuts))]
    order.shuffle(parts)
    merged = Scan(3, sample_size=16, scatter=True)
    for part in parts:
        merged.merge(part)
    assert_equal_scans(merged, scan_rows(vectors, np.arange(60)))


@given(first=st.integers(0, 40), second=st.integers(0, 40))
def test_merging_commutes_regroups_and_ignores_empty_scans(first, second):
    vectors = make_store(120, 3)
    a, b, c = (range(first), range(first, first + second), range(first + second, 120))

    def make(rows: range) -> Scan:
        return scan_rows(vectors, np.array(rows, np.int64))

    left, right = make(a), make(b)
    left.merge(make(b))
    right.merge(make(a))
    assert_equal_scans(left, right)
    left.merge(make(c))
    tail, grouped = make(b), make(a)
    tail.merge(make(c))
    grouped.merge(tail)
    assert_equal_scans(left, grouped)
    grouped.merge(Scan(3, sample_size=16, scatter=True))
    assert_equal_scans(left, grouped)


def test_a_scan_is_restored_from_its_state_and_does_not_share_memory():
    vectors = make_store()
    scan = scan_rows(vectors, np.arange(150))
    restored = Scan.from_state(scan.state())
    before = {name: values.clone() for name, values in scan.state().items()}
    restored.update(np.arange(150, 300), vectors[150:], mix(1, np.arange(150, 300)))
    for name, values in scan.state().items():
        assert torch.equal(values, before[name])
    assert_equal_scans(restored, scan_rows(vectors, np.arange(300)))


def test_sums_are_those_of_the_definitions():
    vectors = make_store().astype(np.float64)
    scan = scan_rows(vectors, np.arange(300))
    good = np.isfinite(vectors).all(1) & (vectors != 0).any(1)
    kept = vectors[good]
    norms = np.linalg.norm(kept, axis=1)
    units = kept / norms[:, None]
    assert (scan.rows, scan.nonfinite, scan.zero, scan.count) == (300, 2, 1, 297)
    np.testing.assert_allclose(scan.units, units.sum(0), rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(scan.products, sum(np.outer(u, u) for u in units), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(scan.mean, kept.mean(0), rtol=ROUNDING)
    np.testing.assert_allclose(scan.squares / scan.count, kept.var(0), rtol=1e-9)
    assert np.array_equal(scan.lowest, kept.min(0))
    assert np.array_equal(scan.highest, kept.max(0))
    assert np.array_equal(scan.norms, np.histogram(norms, bin_edges().numpy())[0])
    assert scan.lists["zero"].rows.tolist() == [5]
    assert scan.lists["nonfinite"].rows.tolist() == [7, 9]
    assert scan.lists["longest"].rows[0] == np.flatnonzero(good)[norms.argmax()]


def test_variances_survive_a_large_constant_where_raw_sums_do_not():
    rng = np.random.default_rng(0)
    vectors = rng.normal(scale=1e-3, size=(500, 2))
    vectors[:, 0] += 1e7
    scan = Scan(2)
    for rows in np.split(np.arange(500), 5):
        scan.update(rows, vectors[rows], mix(0, rows))
    found, naive = scan.squares / 500, (vectors**2).mean(0) - vectors.mean(0) ** 2
    assert found == pytest.approx(vectors.var(0), rel=1e-4)
    assert naive[0] != pytest.approx(vectors.var(0)[0], rel=0.5)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e200])
def test_directions_of_tiny_and_huge_rows_are_right(scale):
    vectors = np.array([[3.0, 4.0], [0.0, 1.0]]) * scale
    scan = Scan(2)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scan.update(np.arange(2), vectors, mix(0, np.arange(2)))
    assert scan.units == pytest.approx([0.6, 1.8])
    assert scan.zero == 0


def test_every_exact_copy_is_found_and_no_sample_would_do():
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(6000, 8)).astype(np.float16)
    copied = rng.choice(3000, 600, replace=False)
    vectors[3000:3600] = vectors[copied]
    scan = scan_store(ArrayReader(vectors, name="store", digest="a"), sample_size=400)
    found = find_duplicates(scan.hashes, scan.hashed_rows)
    _, first = np.unique(vectors, axis=0, return_index=True)
    assert set(found["row"]) == set(range(6000)) - set(first)
    assert (vectors[found["row"]] == vectors[found["copy_of"]]).all()
    sample = scan.sample.sorted()["vector"].numpy()
    assert len(sample) - len(np.unique(sample, axis=0)) < 0.03 * len(sample)  # the truth is 10%


def test_negative_zero_equals_zero_and_one_changed_bit_does_not():
    vectors = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, np.nextafter(np.float32(1), np.float32(2))]], np.float32)
    scan = scan_store(ArrayReader(vectors, name="store", digest="a"))
    assert find_duplicates(scan.hashes, scan.hashed_rows)["row"].tolist() == [1]


def test_the_sample_is_that_of_smallest_hash_and_does_not_depend_on_block_size():
    reader = ArrayReader(make_store(1000), name="store", digest="a")
    whole = scan_store(reader, sample_size=50)
    small = Scan(6, sample_size=50)
    for block in reader.blocks(rows=37):
        small.update(block.rows, block.vectors, mix(text_hash("a"), block.rows))
    assert_equal_scans(whole, small)
    keys = mix(text_hash("a"), np.arange(1000))
    good = [row for row in np.argsort(keys, kind="stable") if row not in (5, 7, 9)]
    assert whole.sample.sorted()["row"].tolist() == good[:50]


class StopAfter(Listener):
    """Asks to stop after a number of blocks."""

    def __init__(self, blocks: int) -> None:
        self.left = blocks

    def stop(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_an_interrupted_scan_resumes_bit_for_bit():
    reader = ArrayReader(make_store(20_000), name="store", digest="a")
    whole = scan_store(reader)
    saved: list[dict[str, torch.Tensor]] = []
    with pytest.raises(TheodoliteError, match=r"Stopped after 16,384 rows. Continue with --resume."):
        scan_store(reader, save=lambda scan: saved.append(scan.state()), listener=StopAfter(1))
    resumed = scan_store(reader, scan=Scan.from_state(saved[-1]))
    for name, values in whole.state().items():
        assert torch.equal(values, resumed.state()[name]), name


def test_checkpoints_are_written_while_reading(monkeypatch):
    monkeypatch.setattr(scanning, "CHECKPOINT_SECONDS", -1.0)
    saved: list[int] = []
    reader = ArrayReader(make_store(20_000), name="store", digest="a")
    scan_store(reader, save=lambda scan: saved.append(scan.rows))
    assert saved == [8192, 16384, 20000]


def test_a_store_that_loses_rows_while_it_is_read_is_reported():
    reader = ArrayReader(make_store(100), name="store.npy", digest="a")
    reader.count = 120
    with pytest.raises(
        TheodoliteError, match=r"store.npy has changed while it was read: it had 120 rows, and 100"
    ):
        scan_store(reader)


def test_scans_of_different_widths_do_not_merge():
    with pytest.raises(InputError, match="Scans of 2 and of 3 coordinates cannot be merged"):
        Scan(2).merge(Scan(3))
