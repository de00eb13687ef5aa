"""Checksums against zlib, and tensor files against the safetensors library."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from theodolite.devices import DeviceTensor, to_cpu
from theodolite.half_precision import widen
from theodolite.storage import checksum as checksums
from theodolite.storage import tensor_file
from theodolite.storage.checksum import Checksum, checksum
from theodolite.storage.files import read_tensors, write_tensors
from theodolite.storage.tensor_file import TYPES, write_safetensors


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_pieces_have_the_checksum_of_the_complete_file(pieces: list[bytes]) -> None:
    total = Checksum()
    for piece in pieces:
        total.add(piece)
    assert total.result() == f"crc32:{zlib.crc32(b''.join(pieces)):08x}"


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 5432])
def test_files_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(checksums, "PIECE", 1000)
    path = tmp_path / "file"
    path.write_bytes(torch.randint(0, 256, (size,)).to(torch.uint8).numpy().tobytes())
    assert checksum(path) == f"crc32:{zlib.crc32(path.read_bytes()):08x}"


def tensors() -> dict[str, torch.Tensor]:
    """One of every type, none but empty, one without an axis, one that is a part of another."""
    random = torch.Generator().manual_seed(0)
    made = {f"{name} é".lower(): torch.arange(7).to(dtype) for dtype, name in TYPES.items()}
    wide = torch.randn(40, 30, generator=random, dtype=torch.float64)
    return made | {
        "empty": torch.zeros(0, 4),
        "one": torch.tensor(0.1, dtype=torch.float64),
        "part": wide[:, ::2],
        "turned": wide.T,
        "front": wide[:33],
    }


@pytest.mark.parametrize("metadata", [{}, {"facts": '"é"\n\\ \u2028'}], ids=["none", "odd"])
@pytest.mark.parametrize("piece", [100, 2**24])
def test_the_file_equals_that_of_the_library_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: dict[str, str], piece: int
) -> None:
    monkeypatch.setattr(tensor_file, "PIECE", piece)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    found = write_safetensors(ours, tensors(), metadata)
    save_file({name: tensor.clone().contiguous() for name, tensor in tensors().items()}, theirs, metadata)
    assert ours.read_bytes() == theirs.read_bytes()
    assert found == checksum(ours) == f"crc32:{zlib.crc32(ours.read_bytes()):08x}"
    read = load_file(ours)
    assert read.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert torch.equal(read[name], tensor)
        assert read[name].dtype == tensor.dtype


def test_an_empty_array_of_numpy_is_written(tmp_path: Path) -> None:
    tensors = {"empty": torch.from_numpy(np.empty(0, np.int64)), "full": torch.ones(2)}
    write_safetensors(tmp_path / "file.safetensors", tensors, {})
    assert load_file(tmp_path / "file.safetensors")["empty"].shape == (0,)


def test_no_tensors_give_a_valid_file(tmp_path: Path) -> None:
    found = write_tensors(tmp_path / "nothing.safetensors", {}, {"key": "yes"})
    assert read_tensors(tmp_path / "nothing.safetensors") == ({}, {"key": "yes"})
    assert found == checksum(tmp_path / "nothing.safetensors")


def test_half_precision_is_written_where_it_loses_nothing(tmp_path: Path) -> None:
    random = torch.Generator().manual_seed(0)
    wide = torch.randn(30, 64, generator=random)
    given = {
        "brain": wide.bfloat16().float(),
        "half": wide.half().float(),
        "single": wide,
        "turned": wide.bfloat16().float().T,
        "double": wide.double(),
        "whole": torch.arange(5),
        "device": DeviceTensor(wide.bfloat16().float(), narrow=True),
        "device, single": DeviceTensor(wide.clone(), narrow=True),
    }
    path = tmp_path / "file.safetensors"
    assert write_tensors(path, given, {}, narrow=True) == checksum(path)
    read = load_file(path)
    types = {"brain": torch.bfloat16, "half": torch.float16, "turned": torch.bfloat16, "device": torch.bfloat16}
    for name, tensor in given.items():
        expected = to_cpu(tensor)
        assert read[name].dtype == types.get(name, expected.dtype), name
        assert torch.equal(widen(read[name]), widen(expected)), name
    save_file(read, tmp_path / "theirs", {})
    assert path.read_bytes() == (tmp_path / "theirs").read_bytes()


def test_half_precision_is_half_as_large(tmp_path: Path) -> None:
    vectors = torch.randn(64, 256).bfloat16().float()
    sizes = []
    for narrow in (False, True):
        write_tensors(tmp_path / "file.safetensors", {"vectors": vectors}, {}, narrow=narrow)
        sizes.append((tmp_path / "file.safetensors").stat().st_size)
    assert sizes[0] - sizes[1] == vectors.nbytes // 2
