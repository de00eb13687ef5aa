"""Stores that are empty, uneven, damaged, ambiguous or that change: what is said about them."""

import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.stores.reading.stored import FILES, make_vectors, read_all

from theodolite.errors import InputError
from theodolite.stores.reading import open_store

EMPTY = "npy npz parquet feather jsonl csv fvecs fbin hdf5".split()


@pytest.mark.parametrize("form", EMPTY)
def test_empty_stores_are_rejected(form: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"SOURCE .*(holds no vectors|has no column of vectors)"):
        open_store(FILES[form](tmp_path, make_vectors(0)))


@pytest.mark.parametrize("form", FILES)
def test_one_vector_is_a_store(form: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(
        read_all(open_store(FILES[form](tmp_path, make_vectors(1))))[0].astype(np.float32), make_vectors(1)
    )


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv", "fvecs"])
def test_mixed_dimensions_name_the_row(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(pa.table({"v": [[1.0, 2.0]] * 5 + [[1.0]]}), path)
    elif ending == "jsonl":
        path.write_text('{"v": [1, 2]}\n' * 5 + '{"v": [1]}\n')
    elif ending == "csv":
        path.write_text("v\n" + '"[1, 2]"\n' * 5 + "[1]\n")
    else:
        row = np.array([2, 0, 0], "<i4").tobytes()
        path.write_bytes(row * 5 + np.array([1, 0, 0], "<i4").tobytes())
    for rows in (1, 64):
        with pytest.raises(InputError, match=r"SOURCE .*same length, but row 5 has 1 coordinates"):
            list(open_store(path).blocks(rows=rows))


def test_missing_and_repeated_ids_are_counted(tmp_path: Path) -> None:
    ids = ["a", None, "b", "", "a", "a", None]
    pyarrow.parquet.write_table(pa.table({"id": ids, "v": [[1.0, 2.0]] * 7}), tmp_path / "a.parquet")
    for rows in (1, 3, 100):
        reader = open_store(tmp_path / "a.parquet")
        read_all(reader, rows=rows)
        assert reader.notes == [
            "3 of 7 rows have no id; tables list them by row number.",
            "2 of 7 rows repeat the id of another, such as rows 0 and 4. Ids should be unique.",
        ]
        read_all(reader, rows=rows)
        assert len(reader.notes) == 2, "a second pass adds nothing"


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    path = FILES["npy"](tmp_path, make_vectors())
    reader = open_store(path)
    blocks = reader.blocks(rows=100)
    next(blocks)
    np.save(path, make_vectors() + 1)
    os.utime(path, ns=(1, 1))
    list(blocks)
    assert len(reader.notes) == 1
    assert f"{path} changed while it was read: results mix two versions." in reader.notes[0]


def test_a_file_that_shrinks_while_it_is_read_ends_with_an_error(tmp_path: Path) -> None:
    path = FILES["npy"](tmp_path, make_vectors())
    blocks = open_store(path).blocks(rows=100)
    next(blocks)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(InputError, match=r"SOURCE .*a\.npy': the file ends in row 2\d\d of 500"):
        list(blocks)


@pytest.mark.parametrize("form", FILES)
def test_damaged_files_are_named(form: str, tmp_path: Path) -> None:
    path = FILES[form](tmp_path, make_vectors())
    file = path if path.is_file() else next(path.iterdir())
    file.write_bytes(b"\x93garbage" + bytes(range(200)))
    with pytest.raises(InputError, match=rf"SOURCE '{re.escape(str(path))}'"):
        list(open_store(path).blocks())


@pytest.mark.parametrize("form", ["npy", "npz", "parquet", "fvecs", "fbin", "safetensors", "hdf5"])
def test_truncated_files_are_rejected(form: str, tmp_path: Path) -> None:
    path = FILES[form](tmp_path, make_vectors())
    os.truncate(path, path.stat().st_size - 5)
    with pytest.raises(InputError, match=r"SOURCE "):
        list(open_store(path).blocks())


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"cannot be read as \.npy: .* \(it holds Python objects\)"):
        open_store(tmp_path / "a.npy")


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"SOURCE '.*none\.npy': there is no such file"):
        open_store(tmp_path / "none.npy")
    (tmp_path / "a.docx").write_text("x")
    with pytest.raises(InputError, match=r"ends in one of \.npy, \.npz"):
        open_store(tmp_path / "a.docx")
    with pytest.raises(InputError, match=r"the folder has no \.parquet files"):
        open_store(tmp_path)
    with pytest.raises(InputError, match=r"--metric must be one of cosine, dot, euclidean \(got 'l2'\)"):
        open_store(make_vectors(), metric="l2")


def test_parquet_files_of_different_columns_are_rejected(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"v": [[1.0]]}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pa.table({"w": [[1.0]]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet has the columns w, but a\.parquet has v"):
        open_store(tmp_path)
