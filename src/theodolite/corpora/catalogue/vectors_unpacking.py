"""Unpack the stored vectors of the catalogue into one Arrow file with the columns id and vector."""

from pathlib import Path
from tempfile import TemporaryDirectory

from theodolite.corpora.catalogue.archive import copy_members
from theodolite.corpora.catalogue.cache import Facts

VECTORS_FILE = "vectors.arrow"
_ROWS = 8192  # rows in a record batch


def unpack_vectors(archive: Path, member: str, folder: Path) -> Facts:
    """Write the array and the ids, which are the first column of a Parquet file, into one file."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    with TemporaryDirectory(dir=archive.parent) as work:
        array, table = Path(work) / "array.npy", Path(work) / "ids.parquet"
        copy_members(archive, dict(zip(member.split(), (array, table), strict=True)))
        vectors = np.load(array, mmap_mode="r", allow_pickle=False)
        ids = pq.read_table(table).column(0).combine_chunks()
        kind = pa.list_(pa.from_numpy_dtype(vectors.dtype), vectors.shape[1])
        schema = pa.schema({"id": ids.type, "vector": kind})
        with pa.OSFile(str(folder / VECTORS_FILE), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for first in range(0, len(ids), _ROWS):
                part = np.ascontiguousarray(vectors[first : first + _ROWS])
                lists = pa.FixedSizeListArray.from_arrays(part.reshape(-1), type=kind)
                writer.write_batch(pa.record_batch([ids[first : first + _ROWS], lists], schema=schema))
        return {"rows": len(ids), "dim": int(vectors.shape[1])}
