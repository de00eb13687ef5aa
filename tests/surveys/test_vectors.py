"""theodolite.measure in Python: tensors, missing labels, and numbers that are too large."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import theodolite
from theodolite import errors
from theodolite.engines.progress import Listener
from theodolite.errors import InputError

VECTORS = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32) + 1


class Recording(Listener):
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64])
@pytest.mark.parametrize("grad", [False, True])
def test_tensors_are_measured_as_they_are(dtype: torch.dtype, grad: bool) -> None:
    tensor = torch.from_numpy(VECTORS).to(dtype)
    if grad and dtype.is_floating_point:
        tensor.requires_grad_()
    found = theodolite.measure(tensor)
    x = tensor.detach().double().numpy()
    assert found.layers["q"].iloc[0] == pytest.approx((x**2).sum(axis=1).mean(), rel=1e-9)
    assert found.facts["corpus"]["documents"] == 300


def test_a_part_of_a_tensor_and_labels_in_a_tensor() -> None:
    labels = torch.arange(300) % 3
    found = theodolite.measure(torch.from_numpy(VECTORS).T.contiguous().T, groups=labels)
    assert sorted(found.units["unit"]) == ["0", "1", "2"]


def _labels(missing: Any) -> list[Any]:
    return [missing if row % 10 == 0 else "ab"[row % 2] for row in range(300)]


def test_the_pilot_reads_vectors() -> None:
    listener = Recording()
    theodolite.measure(VECTORS, listener=listener)
    assert "reading vectors for the pilot (centres of the layers)" in listener.said


@pytest.mark.parametrize("missing", [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT])
def test_vectors_without_a_label_are_counted_and_left_out(missing: Any) -> None:
    listener = Recording()
    found = theodolite.measure(VECTORS, groups=_labels(missing), listener=listener)
    assert listener.warnings == ["30 of 300 vectors have no label and were left out; omit --groups to measure all"]
    kept = np.arange(300) % 10 != 0
    plain = theodolite.measure(VECTORS[kept], groups=[label for label in _labels("") if label])
    assert sorted(found.units["unit"]) == ["a", "b"]
    for column in ("n", "types", "q", "m", "v_within", "v_between"):
        assert found.layers[column].iloc[0] == pytest.approx(plain.layers[column].iloc[0], rel=1e-12)
    assert (found.facts["corpus"]["documents"], found.facts["corpus"]["read"]) == (270, 300)


def test_missing_labels_in_a_file(tmp_path: Path) -> None:
    pd.DataFrame({"v": list(VECTORS), "g": _labels(None)}).to_parquet(tmp_path / "v.parquet")
    listener = Recording()
    found = theodolite.measure(tmp_path / "v.parquet", groups="g", out=tmp_path / "s", listener=listener)
    assert len(listener.warnings) == 1
    assert sorted(theodolite.open(tmp_path / "s").units["unit"]) == ["a", "b"]
    assert int(found.layers["n"].iloc[0]) == 270
    numbers = np.where(np.arange(300) % 10 == 0, np.nan, np.arange(300) % 2)
    np.savez(tmp_path / "v.npz", v=VECTORS, g=numbers)
    assert sorted(theodolite.measure(tmp_path / "v.npz", groups="g", column="v").units["unit"]) == ["0.0", "1.0"]
    with pytest.raises(InputError, match="groups: all 300 labels are missing; omit groups"):
        theodolite.measure(VECTORS, groups=[None] * 300)


def test_labels_must_be_one_per_vector() -> None:
    x = np.random.default_rng(0).normal(size=(50, 4))
    for groups, given in ((x, r"the shape \(50, 4\)"), (3, "int"), ("a", "str")):
        with pytest.raises(InputError, match=rf"groups: expected one label per vector \(vectors,\), got {given}"):
            theodolite.measure(x, groups=groups)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"vectors: the array is empty; its shape is \(0, 4\)"):
        theodolite.measure(x[:0])


def test_watched_items_require_labels() -> None:
    inputs = [torch.randn(2, 3, 4)]
    with pytest.raises(InputError, match=r"labels of input 0: a label is missing \(nan\)"):
        theodolite.watch(torch.nn.Linear(4, 4), inputs, "", labels=[["a", float("nan")]], units="label")  # type: ignore[list-item]


def test_numbers_whose_squares_overflow_are_named() -> None:
    vectors = VECTORS.astype(np.float64)
    vectors[7, 2] = 1e200
    with pytest.raises(InputError, match=r"vectors: row 7 has a coordinate of 1e\+200, whose square overflows\. "):
        theodolite.measure(vectors)
    vectors[7, 2] = np.inf  # not a number to divide: excluded and counted, as before
    assert int(theodolite.measure(vectors).layers["nonfinite"].iloc[0]) == 1
    large = theodolite.measure(VECTORS.astype(np.float64) * 1e30).layers.iloc[0]
    plain = theodolite.measure(VECTORS.astype(np.float64)).layers.iloc[0]
    assert large["q"] == pytest.approx(1e60 * plain["q"], rel=1e-6)
    assert large["mean_cosine"] == pytest.approx(plain["mean_cosine"], abs=1e-6)


def test_the_size_of_the_sample_is_checked() -> None:
    with pytest.raises(InputError, match=r"--sample-size -3 is too small: expected at least 0"):
        theodolite.measure(VECTORS, sample_size=-3)
    assert json.loads(theodolite.measure(VECTORS, sample_size=0).layers["undefined"].iloc[0])["twonn"]


def test_python_sees_warnings_at_the_line_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that nobody gave must not swallow what the command line prints."""
    monkeypatch.setattr(errors, "show_flags", False)
    broken = VECTORS.copy()
    broken[3], broken[7, 2] = np.nan, np.inf
    with pytest.warns(UserWarning, match="excluded|no label") as caught:
        theodolite.measure(broken, groups=_labels(None))
    assert [str(one.message) for one in caught] == [
        "30 of 300 vectors have no label and were left out; omit groups to measure all",
        "layer 0 (vectors): 2 NaN or infinite states were excluded",
    ]
    assert {one.filename for one in caught} == {__file__}


def test_files_of_other_formats_are_measured_alike(tmp_path):
    from tests.stores.reading.stored import FILES, make_vectors

    expected = theodolite.measure(make_vectors()).layers["mean_cosine"].tolist()
    for form in ("jsonl", "csv", "feather", "fvecs", "fbin", "hdf5"):
        (tmp_path / form).mkdir()
        found = theodolite.measure(FILES[form](tmp_path / form, make_vectors())).layers["mean_cosine"].tolist()
        assert found == pytest.approx(expected, rel=1e-6), form  # text formats are measured in float64


def test_vectors_in_8_bits_are_not_measured_as_numbers(tmp_path):
    (tmp_path / "a.u8bin").write_bytes(np.array([2, 4], "<u4").tobytes() + bytes(8))
    np.save(tmp_path / "b.npy", np.ones((6, 4), np.uint8))
    np.savez(tmp_path / "c.npz", codes=np.ones((6, 4), np.int8))
    for name, kind in (("a.u8bin", "uint8"), ("b.npy", "uint8"), ("c.npz", "int8")):
        with pytest.raises(InputError, match=rf"is in {kind}, which may be packed signs or quantized numbers"):
            theodolite.measure(tmp_path / name)
