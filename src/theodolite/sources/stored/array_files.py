"""Arrays in files: .npy, .npz and .safetensors."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.sources.stored.table import TEXT, Batch, Field, FileTable


class RawRows:
    """Rows of one type and width, one after the other in a file, read without mapping it.

    A mapped file that shrinks while it is read ends the process; a plain read ends with an error.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> None:
        self.path, self.dtype, self.shape, self.offset = path, dtype, shape, offset
        self.width = int(np.prod(shape[1:], dtype=np.int64))

    def read(self, start: int, rows: int) -> NDArray[Any]:
        """Return rows `start` to `start + rows`, fewer at the end."""
        rows = min(rows, self.shape[0] - start)
        offset = self.offset + start * self.width * self.dtype.itemsize
        values = np.fromfile(self.path, self.dtype, rows * self.width, offset=offset)
        if len(values) != rows * self.width:
            at = start + len(values) // max(self.width, 1)
            raise InputError(f"the file ends in row {at:,} of {self.shape[0]:,}.")
        return values.reshape(rows, *self.shape[1:])


class NpyTable(FileTable):
    """A file of numpy.save: one array."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as stream:
            shape, fortran, dtype = _read_header(stream)
            offset = stream.tell()
        self.fields = {"vectors": _field(dtype, shape)}
        self._rows: RawRows | None = None if fortran else RawRows(path, dtype, shape, offset)
        self._count = shape[0] if shape else 0

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the array; a file in column order is mapped."""
        mapped = np.load(self.path, mmap_mode="r", allow_pickle=False) if self._rows is None else None
        for first in range(start, self._count, rows):
            part = mapped[first : first + rows] if mapped is not None else None
            yield {"vectors": np.ascontiguousarray(part) if self._rows is None else self._rows.read(first, rows)}


class NpzTable(FileTable):
    """A file of numpy.savez, compressed or not: named arrays, each decompressed as it is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.fields, self._fortran = {}, set()
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                with archive.open(member) as stream:
                    shape, fortran, dtype = _read_header(stream)
                name = member.removesuffix(".npy")
                self.fields[name] = _field(dtype, shape)
                if fortran and len(shape) > 1:
                    self._fortran.add(name)

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the named arrays; an array in column order is read whole."""
        with zipfile.ZipFile(self.path) as archive:
            streams = {name: self._rows(archive, name, start, rows) for name in names}
            while True:
                batch = {name: next(stream, None) for name, stream in streams.items()}
                parts = {name: part for name, part in batch.items() if part is not None}
                if len(parts) < len(batch) or not parts:
                    return
                yield parts

    def _rows(self, archive: zipfile.ZipFile, name: str, start: int, rows: int) -> Iterator[NDArray[Any]]:
        with archive.open(f"{name}.npy") as stream:
            if name in self._fortran:
                whole = npy_format.read_array(stream, allow_pickle=False)
                yield from (np.ascontiguousarray(whole[i : i + rows]) for i in range(start, len(whole), rows))
                return
            shape, _, dtype = _read_header(stream)
            size = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
            stream.seek(start * size, 1)
            for first in range(start, shape[0], rows):
                count = min(rows, shape[0] - first)
                values = np.frombuffer(stream.read(count * size), dtype)
                yield values.reshape(count, *shape[1:])


class SafetensorsTable(FileTable):
    """A file of safetensors: named tensors, read in slices."""

    def __init__(self, path: Path) -> None:
        from safetensors import safe_open

        super().__init__(path)
        with safe_open(path, framework="pt") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118 - not a mapping
            self.fields = {
                name: Field(_SAFETENSORS.get(part.get_dtype(), part.get_dtype()), tuple(part.get_shape()))
                for name, part in slices.items()
            }

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the named tensors; types that NumPy does not have become float32."""
        from safetensors import safe_open

        count = min(self.fields[name].shape[0] or 0 for name in names)
        with safe_open(self.path, framework="pt") as tensors:
            slices = {name: tensors.get_slice(name) for name in names}
            for first in range(start, count, rows):
                yield {name: _to_numpy(part[first : first + rows]) for name, part in slices.items()}


_SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8",
    "F8_E5M2": "float8", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


def _to_numpy(tensor: Any) -> NDArray[Any]:
    import torch

    known = (torch.float64, torch.float32, torch.float16)
    plain = tensor.float() if tensor.is_floating_point() and tensor.dtype not in known else tensor
    return np.asarray(plain.numpy())


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns come first, and type of an array; the stream is then at the first value."""
    version = npy_format.read_magic(stream)
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    return shape, fortran, dtype


def _field(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Field:
    return Field(dtype.name if dtype.kind in "fiub" else TEXT, shape)
