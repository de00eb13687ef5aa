"""Search of a vector store: time against FAISS's flat search and the bare matrix product, memory of a large file.

    python -m benchmarks.stores                         # CPU: ratios against FAISS
    python -m benchmarks.stores --device cuda           # GPU: ratios against the matrix product
    python -m benchmarks.stores --device cuda --dtype float16 --queries 4096  # rows sent in half precision
    python -m benchmarks.stores --rows 1000000 --dim 768 --queries 200 --stream  # float16 file, peak memory

Both sides of a ratio are measured alternately, and the smallest of the times is taken. CPU times are those of the
process, over all threads, which another load changes less than the clock. On a GPU, "ours" sends every block from
the host, as "product_from_host" does; "resident" searches rows in the memory of the GPU, as "product" does.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from theodolite.stores.reader import ArrayReader, Block
from theodolite.stores.search import METRICS, search

REPEATS, CHUNK = 3, 4096


def make_rows(count: int, dim: int, seed: int) -> NDArray[np.float32]:
    """Return rows of length 1 about 64 centres."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((64, dim), dtype=np.float32)
    x = centres[rng.integers(0, 64, count)] + rng.standard_normal((count, dim), dtype=np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def measure_alternately(calls: dict[str, Callable[[], object]], device: str) -> dict[str, dict[str, float]]:
    """Return the smallest CPU and wall seconds of each call."""
    best = {name: {"cpu": np.inf, "wall": np.inf} for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            if device != "cpu":
                torch.cuda.synchronize()
            found = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
            best[name] = {kind: min(best[name][kind], value) for kind, value in found.items()}
    return best


def compare(
    rows: int, dim: int, count: int, k: int, metric: str, device: str, threads: int, dtype: str
) -> dict[str, Any]:
    """Compare the search of vectors in memory with FAISS on a CPU, and with the matrix product."""
    x, queries = make_rows(rows, dim, 1).astype(dtype), make_rows(count, dim, 2)
    reader = ArrayReader(x, name="rows", digest="0")
    on_device, asked = torch.from_numpy(x).to(device).float(), torch.from_numpy(queries).to(device)
    block = 65_536 if device != "cpu" else 2048

    def multiply() -> None:
        for part in on_device.split(block):
            torch.mm(asked, part.T)

    def multiply_from_host() -> None:
        for part in torch.from_numpy(x).split(block):
            torch.mm(asked, part.to(device).float().T)

    def search_resident() -> None:
        parts = on_device.split(block)
        search(
            (Block(block * number, part) for number, part in enumerate(parts)), queries, k, metric, device=device
        )  # type: ignore[arg-type]

    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: search(reader, queries, k, metric, device=device),
        "product": multiply,
    }
    outcome: dict[str, Any] = {
        "rows": rows,
        "dim": dim,
        "queries": count,
        "k": k,
        "metric": metric,
        "dtype": dtype,
    }
    pairs = [("ours", "product")]
    if device == "cpu":
        import faiss

        faiss.omp_set_num_threads(threads)
        index = (faiss.IndexFlatL2 if metric == "euclidean" else faiss.IndexFlatIP)(dim)
        index.add(x.astype(np.float32))
        pairs.append(("ours", "faiss"))
        calls["faiss"] = lambda: index.search(queries, k)
        outcome["same_rows"] = float(
            (index.search(queries, k)[1] == search(reader, queries, k, metric).rows).mean()
        )
    else:
        calls |= {"product_from_host": multiply_from_host, "resident": search_resident}
        pairs = [("ours", "product_from_host"), ("resident", "product")]
        same = (
            search(reader, queries[:64], k, metric).rows
            == search(reader, queries[:64], k, metric, device=device).rows
        )
        outcome["same_rows"] = float(same.mean())
    found = measure_alternately(calls, device)
    for name, other in pairs:
        for kind in ("cpu", "wall") if device == "cpu" else ("wall",):
            outcome[f"{kind}_{name}_over_{other}"] = round(found[name][kind] / found[other][kind], 3)
    return outcome | {"seconds": found}


def stream(rows: int, dim: int, count: int, k: int, device: str) -> dict[str, Any]:
    """Search a float16 file that is larger than the memory used, and return the time and the peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        with path.open("wb") as file:  # a mapped file would count as memory of the process
            head = {"descr": "<f2", "fortran_order": False, "shape": (rows, dim)}
            np.lib.format.write_array_header_1_0(file, head)
            for start in range(0, rows, CHUNK):
                file.write(make_rows(min(CHUNK, rows - start), dim, start).astype(np.float16).data)
        reader = _FileReader(path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        queries, wall, cpu = make_rows(count, dim, 2), time.perf_counter(), time.process_time()
        search(reader, queries, k, "cosine", device=device)  # type: ignore[arg-type]
        return {
            "rows": rows,
            "dim": dim,
            "queries": count,
            "file_mb": round(path.stat().st_size / 1e6),
            "wall_s": round(time.perf_counter() - wall, 1),
            "cpu_s": round(time.process_time() - cpu, 1),
            "peak_mb_before_search": before // 1024,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }


class _FileReader(ArrayReader):
    """Reads blocks with ordinary reads, for the same reason."""

    def __init__(self, path: Path) -> None:
        super().__init__(np.load(path, mmap_mode="r"), name=path.name, digest="0")
        self.path, self.offset = path, self.vectors.offset  # type: ignore[attr-defined]
        self.rows_in_file, self.vectors = len(self.vectors), np.empty((0, self.dim), np.float16)

    def blocks(self, start: int = 0, *, rows: int = 8192) -> Any:
        """Yield all rows from number `start` on."""
        with self.path.open("rb") as file:
            file.seek(self.offset + start * self.dim * 2)
            for first in range(start, self.rows_in_file, rows):
                count = min(rows, self.rows_in_file - first)
                yield Block(first, np.fromfile(file, np.float16, count * self.dim).reshape(count, self.dim))


def main() -> None:
    """Print the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, nargs="+", default=[50, 384, 768])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("-k", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--metric", nargs="+", choices=METRICS, default=["dot", "euclidean"])
    parser.add_argument("--dtype", choices=["float16", "float32"], default="float32", help="how rows are stored")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--stream", action="store_true", help="search a float16 file and report peak memory")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    for dim in chosen.dim:
        for k in chosen.k:
            if chosen.stream:
                print(json.dumps(stream(chosen.rows, dim, chosen.queries, k, chosen.device)), flush=True)
                continue
            for metric in chosen.metric:
                found = compare(
                    chosen.rows, dim, chosen.queries, k, metric, chosen.device, chosen.threads, chosen.dtype
                )
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
