"""Merged parts of a store against the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.shared import slow

from theodolite.api.store import store
from theodolite.errors import InputError
from theodolite.stores.merge import merge_results
from theodolite.stores.results import open_results
from theodolite.stores.score_floor import DOCUMENTS


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 6)) + 1
    x[450:470] = x[:20]  # copies in another part
    x[5] = x[405] = 0
    x[7, 2] = x[590, 1] = np.nan
    return x.astype(np.float32)


@pytest.mark.parametrize("cuts", [slow([0, 400, 600]), [0, 100, 300, 600]])
def test_merged_parts_equal_the_whole(vectors: np.ndarray, cuts: list[int], tmp_path: Path) -> None:
    whole = store(vectors, cost=False, metric="dot")
    folders = [tmp_path / str(start) for start in cuts[:-1]]
    for folder, start, end in zip(folders, cuts[:-1], cuts[1:], strict=True):
        store(vectors[start:end], cost=False, metric="dot", out=folder)
    merged = merge_results(folders)
    assert [section.name for section in merged.sections] == ["rows", "dimensions", "floor"]
    for name, table in {**merged["rows"].tables, **merged["dimensions"].tables}.items():
        pd.testing.assert_frame_equal(table, whole.tables[name][table.columns], check_exact=False, rtol=1e-6)
    mine, its = (each["floor"].facts["pairs"][DOCUMENTS] for each in (merged, whole))
    for name in ("mean_cosine", "sd_cosine", "threshold"):  # all rows are in the samples
        assert mine[name] == pytest.approx(its[name], rel=1e-9)
    duplicates = merged.tables["duplicates"]
    assert duplicates["row"].tolist() == list(np.setdiff1d(np.arange(450, 470), [455, 457]))
    assert duplicates["copy_of"].tolist() == list(np.setdiff1d(np.arange(20), [5, 7]))
    assert merged.facts["store"]["rows"] == 600
    assert [one.sentence for one in merged["rows"].answers] == [one.sentence for one in whole["rows"].answers]
    # Merged results can be saved and merged again.
    merged.save(tmp_path / "merged")
    assert open_results(tmp_path / "merged").facts["store"]["rows"] == 600
    with pytest.raises(InputError, match="is given twice"):
        merge_results([tmp_path / "merged", folders[0]])


def test_parts_of_different_stores_are_rejected(vectors: np.ndarray, tmp_path: Path) -> None:
    store(vectors, cost=False, out=tmp_path / "a")
    store(vectors[:, :4], cost=False, out=tmp_path / "b")
    with pytest.raises(InputError, match="different coordinates: 6, 4"):
        merge_results([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(InputError, match="at least two folders"):
        merge_results([tmp_path / "a"])
