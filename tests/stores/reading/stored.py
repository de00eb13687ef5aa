"""The same rows in many stores, for the tests of reading."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from theodolite.stores.reading import StoreReader

ROWS, DIM = 500, 8


def make_vectors(rows: int = ROWS, dim: int = DIM) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(rows, dim)).astype(np.float32)


def make_ids(rows: int = ROWS) -> list[str]:
    return [f"doc-{row}" for row in range(rows)]


def make_table(vectors: NDArray[Any]) -> pa.Table:
    lists = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), vectors.shape[1])
    count = len(vectors)
    return pa.table({"id": make_ids(count), "vector": lists, "kind": [row % 3 for row in range(count)]})


def write_npy(folder: Path, vectors: NDArray[Any]) -> Path:
    np.save(folder / "a.npy", vectors)
    return folder / "a.npy"


def write_npy_by_columns(folder: Path, vectors: NDArray[Any]) -> Path:
    np.save(folder / "a.npy", np.asfortranarray(vectors))
    return folder / "a.npy"


def write_npz(folder: Path, vectors: NDArray[Any]) -> Path:
    np.savez_compressed(folder / "a.npz", vectors=vectors, id=np.array(make_ids(len(vectors))))
    return folder / "a.npz"


def write_npz_by_columns(folder: Path, vectors: NDArray[Any]) -> Path:
    np.savez(folder / "a.npz", vectors=np.asfortranarray(vectors))
    return folder / "a.npz"


def write_safetensors(folder: Path, vectors: NDArray[Any]) -> Path:
    save_file({"vectors": torch.from_numpy(vectors)}, folder / "a.safetensors")
    return folder / "a.safetensors"


def write_parquet(folder: Path, vectors: NDArray[Any]) -> Path:
    pyarrow.parquet.write_table(make_table(vectors), folder / "a.parquet", row_group_size=90)
    return folder / "a.parquet"


def write_parquet_folder(folder: Path, vectors: NDArray[Any]) -> Path:
    table = make_table(vectors)
    (folder / "parts").mkdir()
    for number, first in enumerate(range(0, len(vectors), 130)):
        pyarrow.parquet.write_table(table.slice(first, 130), folder / f"parts/{number}.parquet")
    return folder / "parts"


def write_feather(folder: Path, vectors: NDArray[Any]) -> Path:
    pyarrow.feather.write_feather(make_table(vectors), str(folder / "a.feather"), chunksize=70)
    return folder / "a.feather"


def write_arrow_stream(folder: Path, vectors: NDArray[Any]) -> Path:
    table = make_table(vectors)
    with pa.OSFile(str(folder / "a.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=110)
    return folder / "a.arrow"


def write_jsonl(folder: Path, vectors: NDArray[Any]) -> Path:
    rows = zip(make_ids(len(vectors)), vectors.tolist(), strict=True)
    lines = [json.dumps({"id": name, "vector": vector, "kind": "x"}) for name, vector in rows]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder / "a.jsonl"


def write_csv(folder: Path, vectors: NDArray[Any]) -> Path:
    lines = [f'{name},"{vector.tolist()}"' for name, vector in zip(make_ids(len(vectors)), vectors, strict=True)]
    (folder / "a.csv").write_text("\n".join(["id,embedding", *lines]), "utf-8")
    return folder / "a.csv"


def write_wide_csv(folder: Path, vectors: NDArray[Any]) -> Path:
    rows = zip(make_ids(len(vectors)), vectors.tolist(), strict=True)
    header = ",".join(["id", *(f"x{i}" for i in range(vectors.shape[1]))])
    (folder / "a.csv").write_text("\n".join([header, *(",".join([i, *map(str, v)]) for i, v in rows)]), "utf-8")
    return folder / "a.csv"


def write_fvecs(folder: Path, vectors: NDArray[Any]) -> Path:
    with (folder / "a.fvecs").open("wb") as stream:
        for vector in vectors:
            stream.write(np.int32(len(vector)).tobytes() + vector.astype("<f4").tobytes())
    return folder / "a.fvecs"


def write_fbin(folder: Path, vectors: NDArray[Any]) -> Path:
    (folder / "a.fbin").write_bytes(np.array(vectors.shape, "<u4").tobytes() + vectors.astype("<f4").tobytes())
    return folder / "a.fbin"


def write_hdf5(folder: Path, vectors: NDArray[Any]) -> Path:
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        file["group/vectors"] = vectors
        file["id"] = make_ids(len(vectors))
    return folder / "a.h5"


FILES: dict[str, Callable[[Path, NDArray[Any]], Path]] = {
    name.removeprefix("write_"): function
    for name, function in list(globals().items())
    if name.startswith("write_")
}
WITH_IDS = "npz parquet parquet_folder feather arrow_stream jsonl csv wide_csv hdf5".split()


def read_all(reader: StoreReader, start: int = 0, rows: int = 64) -> tuple[NDArray[Any], list[Any]]:
    """Return all vectors from row `start` on, and their ids."""
    blocks = list(reader.blocks(start, rows=rows))
    assert [block.start for block in blocks] == list(range(start, start + sum(map(len, blocks)), rows))
    return np.concatenate([block.vectors for block in blocks]), [i for block in blocks for i in block.ids.tolist()]
