"""Files of every format give the rows that were written, from any row on, in any block size."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import save_file
from tests.stores.reading.stored import DIM, FILES, ROWS, WITH_IDS, make_ids, make_table, make_vectors, read_all

from theodolite.errors import InputError
from theodolite.stores.reading import open_store


@pytest.mark.parametrize("form", FILES)
def test_every_format_gives_the_rows_that_were_written(form: str, tmp_path: Path) -> None:
    reader = open_store(FILES[form](tmp_path, make_vectors()))
    assert reader.dim == DIM
    assert reader.count in (ROWS, None)
    for start, rows in ((0, 64), (0, 1000), (131, 7), (ROWS - 1, 10)):
        vectors, ids = read_all(reader, start, rows)
        np.testing.assert_array_equal(vectors.astype(np.float32), make_vectors()[start:])
        assert ids == (make_ids()[start:] if form in WITH_IDS else list(range(start, ROWS)))
    assert list(reader.blocks(ROWS)) == []
    assert reader.notes == []


@pytest.mark.parametrize("form", FILES)
def test_the_digest_is_that_of_the_contents(form: str, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = open_store(FILES[form](tmp_path / "one", make_vectors())).digest
    assert (
        open_store(FILES[form](tmp_path / "one", make_vectors())).digest == first
        if form != "parquet_folder"
        else True
    )
    changed = make_vectors()
    changed[ROWS // 2, 3] += 0.5
    assert open_store(FILES[form](tmp_path / "two", changed)).digest != first


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", ["npy", "npz", "safetensors", "parquet", "feather", "fvecs", "fbin", "hdf5", "jsonl", "csv"]
)
def test_files_are_read_in_bounded_memory(form: str, tmp_path: Path) -> None:
    vectors = make_vectors(20_000, 64)  # 5 MB
    path = FILES[form](tmp_path, vectors)
    before = pa.total_allocated_bytes()
    highest = 0
    tracemalloc.start()
    for block in open_store(path).blocks(rows=256):
        highest = max(highest, pa.total_allocated_bytes() - before)
        del block
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert traced + highest < vectors.nbytes / 2  # 20,000 hashes of ids are 160 kB, a block is 64 kB


def test_half_precision_is_kept_and_bfloat16_is_widened(tmp_path: Path) -> None:
    vectors = make_vectors()
    np.save(tmp_path / "h.npy", vectors.astype(np.float16))
    reader = open_store(tmp_path / "h.npy")
    assert (reader.dtype, next(reader.blocks()).vectors.dtype) == ("float16", np.float16)
    save_file({"e": torch.from_numpy(vectors).bfloat16()}, tmp_path / "b.safetensors")
    reader = open_store(tmp_path / "b.safetensors")
    assert (reader.dtype, next(reader.blocks()).vectors.dtype) == ("bfloat16", np.float32)
    expected = torch.from_numpy(vectors).bfloat16().float().numpy()
    np.testing.assert_array_equal(read_all(reader)[0], expected)
    tensor = open_store(torch.from_numpy(vectors).bfloat16())
    assert tensor.dtype == "bfloat16"
    np.testing.assert_array_equal(read_all(tensor)[0], expected)


def test_arrays_are_stores_with_columns_beside_them() -> None:
    reader = open_store(make_vectors(3), id_column=["a", "b", "c"], label_column=np.arange(3))
    block = next(reader.blocks())
    assert block.ids.tolist() == ["a", "b", "c"]
    assert block.columns["label"].tolist() == [0, 1, 2]
    assert reader.name == "array of (3, 8)"
    with pytest.raises(InputError, match=r"--id-column has 2 values for 3 vectors"):
        open_store(make_vectors(3), id_column=["a", "b"])
    with pytest.raises(
        InputError, match=r"expected a file or a numeric array \(vectors, dim\), got float64 of shape"
    ):
        open_store(np.zeros(3))


def test_columns_of_a_file_are_read_by_name(tmp_path: Path) -> None:
    path = FILES["parquet"](tmp_path, make_vectors())
    block = next(open_store(path, label_column="kind", id_column="kind").blocks(rows=5))
    assert block.columns["label"].tolist() == block.ids.tolist() == [0, 1, 2, 0, 1]
    with pytest.raises(
        InputError, match=r"--text-column 'knd' is not there; its columns are id, kind\. Did you mean 'kind'"
    ):
        open_store(path, text_column="knd")
    with pytest.raises(
        InputError, match=r"--label-column vector: expected one value per vector, got float32 of shape"
    ):
        open_store(path, label_column="vector")


def test_columns_may_be_files(tmp_path: Path) -> None:
    path = FILES["fbin"](tmp_path, make_vectors())
    (tmp_path / "ids.txt").write_text("\n".join(make_ids()) + "\n", "utf-8")
    np.save(tmp_path / "times.npy", np.arange(ROWS))
    reader = open_store(path, id_column=str(tmp_path / "ids.txt"), time_column=str(tmp_path / "times.npy"))
    assert read_all(reader, 100)[1] == make_ids()[100:]
    assert next(reader.blocks(100)).columns["time"][0] == 100


def test_several_columns_of_vectors_are_asked_about(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=make_vectors(), b=make_vectors(3, 2), ids=np.arange(3))
    with pytest.raises(
        InputError, match=r"several columns of vectors: a \(float32 of shape \(500, 8\)\), b .* with --column"
    ):
        open_store(tmp_path / "two.npz")
    assert open_store(tmp_path / "two.npz", column="b").count == 3
    with pytest.raises(InputError, match=r"--column 'c' is not there; its columns are a, b, ids"):
        open_store(tmp_path / "two.npz", column="c")
    with pytest.raises(
        InputError, match=r"--column ids: expected vectors of numbers \(vectors, dim\), got int64 of shape \(3\)"
    ):
        open_store(tmp_path / "two.npz", column="ids")


def test_the_digest_depends_on_the_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=make_vectors(), b=make_vectors())
    digests = {open_store(tmp_path / "two.npz", column=name).digest for name in "ab"}
    assert len(digests) == 2


def test_variable_lists_and_missing_vectors(tmp_path: Path) -> None:
    table = pa.table({"v": [None, [1.0, 2.0], None, [3.0, None]]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    reader = open_store(tmp_path / "a.parquet")
    assert reader.dim == 2
    vectors, _ = read_all(reader)
    np.testing.assert_array_equal(vectors, [[np.nan] * 2, [1, 2], [np.nan] * 2, [3, np.nan]])
    assert reader.notes == ["2 of 4 rows have no vector or only NaN."]


def test_a_block_without_any_vector_is_nan(tmp_path: Path) -> None:
    table = pa.table({"v": [[1.0, 2.0], None, None]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert np.isnan(read_all(open_store(tmp_path / "a.parquet"), rows=1)[0][1:]).all()


def test_pgvector_exports(tmp_path: Path) -> None:
    copied = "7\t[1,2.5]\ta\\tb\n8\t\\N\t\\N\n9\t[3,-4]\tback\\\\slash\n"
    (tmp_path / "copy.tsv").write_text(copied, "utf-8")
    reader = open_store(tmp_path / "copy.tsv", id_column="1", text_column="3")
    vectors, ids = read_all(reader)
    np.testing.assert_array_equal(vectors, [[1, 2.5], [np.nan] * 2, [3, -4]])
    assert ids == ["7", "8", "9"]
    assert next(reader.blocks()).columns["text"].tolist() == ["a\tb", None, "back\\slash"]
    (tmp_path / "copy.csv").write_text('id,embedding\n7,"[1,2.5]"\n8,\n', "utf-8")
    np.testing.assert_array_equal(read_all(open_store(tmp_path / "copy.csv"))[0], [[1, 2.5], [np.nan] * 2])


def test_columns_of_a_wide_csv_that_are_read_by_name_are_no_coordinates(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,group\n1,2,5\n3,4,6\n", "utf-8")
    assert open_store(tmp_path / "a.csv").dim == 3
    reader = open_store(tmp_path / "a.csv", label_column="group")
    np.testing.assert_array_equal(read_all(reader)[0], [[1, 2], [3, 4]])
    (tmp_path / "plain.csv").write_text("1,2,5\n3,4,6\n", "utf-8")
    assert read_all(open_store(tmp_path / "plain.csv"))[0].shape == (2, 3)
    (tmp_path / "odd.csv").write_text("x,y\n" + "1,2\n" * 100 + "1,two\n", "utf-8")
    with pytest.raises(InputError, match=r"row 100 has 'two' in column 'y'"):
        read_all(open_store(tmp_path / "odd.csv"), rows=1000)


def test_benchmark_files_state_their_metric(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["train"], file["test"] = make_vectors(), make_vectors(4)
        file.attrs["distance"] = "angular"
    assert open_store(tmp_path / "a.hdf5", column="train").metric == "cosine"
    assert open_store(tmp_path / "a.hdf5", column="test", metric="dot").metric == "dot"


@pytest.mark.parametrize(
    ("ending", "dtype", "packed"),
    [
        ("ivecs", "<i4", None),
        ("ibin", "<i4", None),
        ("bvecs", "u1", "uint8"),
        ("u8bin", "u1", "uint8"),
        ("i8bin", "i1", "int8"),
    ],
)
def test_benchmark_files_of_whole_numbers(ending: str, dtype: str, packed: str | None, tmp_path: Path) -> None:
    numbers = np.clip(np.round(40 * make_vectors()), 0 if dtype == "u1" else -128, 127).astype(dtype)
    path = tmp_path / f"a.{ending}"
    if ending.endswith("vecs"):
        path.write_bytes(b"".join(np.int32(DIM).tobytes() + row.tobytes() for row in numbers))
    else:
        path.write_bytes(np.array(numbers.shape, "<u4").tobytes() + numbers.tobytes())
    if packed is not None:
        with pytest.raises(InputError, match=r"8 numbers, or 64 signs.*--packed"):
            open_store(path)
    for start, rows in ((0, 64), (131, 7)):
        np.testing.assert_array_equal(read_all(open_store(path, packed=packed), start, rows)[0], numbers[start:])


def test_lines_that_are_lists(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(v) for v in [[1, 2], [3, 4]]), "utf-8")
    np.testing.assert_array_equal(read_all(open_store(tmp_path / "a.jsonl"))[0], [[1, 2], [3, 4]])


def test_a_dataset_of_the_datasets_library(tmp_path: Path) -> None:
    import datasets

    data = datasets.Dataset(make_table(make_vectors()))
    data.save_to_disk(str(tmp_path / "saved"))
    reader = open_store(f"hf:{tmp_path / 'saved'}")
    assert reader.count == ROWS
    vectors, ids = read_all(reader, 130)
    np.testing.assert_array_equal(vectors, make_vectors()[130:])
    assert ids == make_ids()[130:]
    with pytest.raises(InputError, match=r"folder of the datasets library; give hf:"):
        open_store(tmp_path / "saved")


def test_a_streamed_dataset(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    FILES["parquet"](tmp_path / "data", make_vectors())
    reader = open_store(f"hf:{tmp_path / 'data'}")
    vectors, ids = read_all(reader, 130)
    np.testing.assert_array_equal(vectors, make_vectors()[130:])
    assert ids == make_ids()[130:]
