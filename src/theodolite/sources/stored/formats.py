"""The formats of files of vectors: which ending is read by which table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from theodolite.errors import InputError, TheodoliteError, first_line
from theodolite.sources.stored.array_files import NpyTable, NpzTable, SafetensorsTable
from theodolite.sources.stored.arrow_files import ArrowTable, ParquetTable
from theodolite.sources.stored.binary_files import BIN, VECS, BinTable, VecsTable
from theodolite.sources.stored.hdf5 import Hdf5Table
from theodolite.sources.stored.table import Table
from theodolite.sources.stored.text_files import CsvTable, JsonLinesTable
from theodolite.storage.file_names import FACTS

FORMATS: dict[str, Callable[[Path], Table]] = {
    ".npy": NpyTable,
    ".npz": NpzTable,
    ".safetensors": SafetensorsTable,
    ".parquet": ParquetTable,
    ".arrow": ArrowTable,
    ".feather": ArrowTable,
    ".jsonl": JsonLinesTable,
    ".csv": CsvTable,
    ".tsv": CsvTable,
    **dict.fromkeys(VECS, VecsTable),
    **dict.fromkeys(BIN, BinTable),
    **dict.fromkeys((".h5", ".hdf5"), Hdf5Table),
}
"""Ending -> table. A file of vectors is recognised by its name."""


def open_file(path: Path) -> Table:
    """Open a file of vectors, or a folder of Parquet files, by its ending."""
    if path.is_dir():
        if (path / FACTS).is_file():
            raise InputError(
                "the folder holds a survey, not vectors; `theodolite show` prints it, and `theodolite export` "
                "writes its sampled vectors."
            )
        parts = sorted(path.rglob("*.parquet"))
        if not parts:
            raise InputError(
                f"the folder has no .parquet files; give a folder that has, or a file: {', '.join(FORMATS)}."
            )
        return ParquetTable(*parts)
    if not path.is_file():
        raise InputError("there is no such file.")
    make = FORMATS.get(path.suffix.lower())
    if make is None:
        raise InputError(f"the name of a file of vectors ends in one of {', '.join(FORMATS)}.")
    try:
        return make(path)
    except TheodoliteError:
        raise
    except Exception as error:  # the library of each format has its own errors
        if path.suffix.lower() in (".npy", ".npz"):  # the errors of numpy speak of magic strings and pickles
            raise InputError(
                f"it cannot be read as {path.suffix}: expected numbers as numpy.save or numpy.savez writes them "
                f"({first_line(error)})."
            ) from error
        raise InputError(f"it cannot be read as {path.suffix}: {first_line(error)}") from error
