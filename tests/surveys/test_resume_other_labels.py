"""The same vectors or inputs with other labels are another survey: it is not resumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import theodolite
from theodolite.errors import InputError

VECTORS = np.random.default_rng(0).normal(size=(300, 8))
BY_THREE, BY_TWO = ["a", "b", "c"] * 100, ["q"] * 150 + ["r"] * 150


def test_an_arrays_labels_and_shape(tmp_path: Path) -> None:
    theodolite.measure(VECTORS, groups=BY_THREE, out=tmp_path / "out")
    again = theodolite.measure(VECTORS, groups=BY_THREE, out=tmp_path / "out", resume=True)
    assert list(again.units["unit"]) == ["a", "b", "c"]
    for other in ({"vectors": VECTORS, "groups": BY_TWO}, {"vectors": VECTORS}):
        with pytest.raises(InputError, match=r"has other settings; .*:\n  corpus\.labels"):
            theodolite.measure(**other, out=tmp_path / "out", resume=True)
    with pytest.raises(InputError, match=r"corpus\.matrices"):
        theodolite.measure(VECTORS.reshape(600, 4), groups=BY_TWO * 2, out=tmp_path / "out", resume=True)


def test_a_files_labels_and_column(tmp_path: Path) -> None:
    table = {"v": list(VECTORS), "w": list(VECTORS[:, ::-1]), "g": BY_THREE, "h": BY_TWO}
    pd.DataFrame(table).to_parquet(tmp_path / "v.parquet")

    def measured(column: str, groups: str) -> theodolite.Survey:
        file, out = tmp_path / "v.parquet", tmp_path / "out"
        return theodolite.measure(file, column=column, groups=groups, out=out, resume=True)

    measured("v", "g")
    with pytest.raises(InputError, match=r"corpus\.labels"):
        measured("v", "h")
    with pytest.raises(InputError, match=r"corpus\.column: 'v' there, 'w' now"):
        measured("w", "g")


def test_labels_and_counts_of_inputs(tmp_path: Path) -> None:
    net, inputs = nn.Sequential(nn.Linear(4, 3)), [torch.randn(6, 5, 4)]

    def watched(labels: str, count: int) -> theodolite.Survey:
        labelled = {"units": "label", "labels": [list(labels)], "counts": lambda given: [count] * 6}
        return theodolite.watch(net, inputs, ["0"], out=tmp_path / "out", resume=True, **labelled)

    assert list(watched("aabbcc", 5).units["unit"]) == ["a", "b", "c"]
    for labels, count in (("xxyyzz", 5), ("aabbcc", 4)):
        with pytest.raises(InputError, match=r"corpus\.labelled"):
            watched(labels, count)


@pytest.mark.parametrize("dtype", [">f4", "longdouble", "<i2"])
def test_numbers_of_any_kind_are_measured(dtype: str) -> None:
    whole = np.round(VECTORS * 100).astype(dtype)
    found = theodolite.measure(whole).layers["q"].iloc[0]
    assert found == pytest.approx(float(np.square(whole.astype(np.float64)).sum(axis=1).mean()), rel=1e-6)
