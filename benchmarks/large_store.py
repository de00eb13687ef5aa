"""All sections of `theodolite store` on a large file: time and peak memory of each, and what was planted.

    python -m benchmarks.large_store --rows 1000000 --dim 768 --folder large
    python -m benchmarks.large_store --rows 1000000 --dim 768 --folder large --resume  # after an interruption

The file has 2,000 clusters in float16, one coordinate that lifts every cosine, 1% exact copies, 0.5% near copies
and 100 zero rows. It stays in the folder with the results.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import theodolite
from theodolite.engines.progress import Listener, Progress
from theodolite.stores.results import StoreResults

CLUSTERS, BLOCK, ROGUE, ZEROS = 2000, 5000, 7, 100


def make_block(number: int, dim: int) -> NDArray[np.float16]:
    """Return the rows of one block, of length 1 about their clusters."""
    centres = np.random.default_rng(0).standard_normal((CLUSTERS + 1, dim), dtype=np.float32)
    rng = np.random.default_rng([1, number])
    x = centres[rng.integers(0, CLUSTERS, BLOCK)] + centres[CLUSTERS] / 2
    x += rng.standard_normal(x.shape, dtype=np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[:, ROGUE] += 0.5
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float16)


def write_store(path: Path, rows: int, dim: int) -> None:
    """Write the file: the first rows of its second half are copies and near copies of the first, then zeros."""
    copies, near, half = rows // 100, rows // 200, rows // 2 // BLOCK
    with path.open("wb") as file:
        head = {"descr": "<f2", "fortran_order": False, "shape": (rows, dim)}
        np.lib.format.write_array_header_1_0(file, head)
        for number in range(rows // BLOCK):
            x = make_block(number, dim)
            place = np.arange(BLOCK) + (number - half) * BLOCK  # in the second half
            planted = (place >= 0) & (place < copies + near)
            if planted.any():
                x[planted] = make_block(number - half, dim)[planted]
                noisy = planted & (place >= copies)
                noise = np.random.default_rng([2, number]).standard_normal((BLOCK, dim), dtype=np.float32)
                x[noisy] += (noise[noisy] * 0.1 / np.sqrt(dim)).astype(np.float16)
            x[(place >= copies + near) & (place < copies + near + ZEROS)] = 0
            file.write(x.tobytes())


class Sections(Listener):
    """Notes when each section begins: its name, the clock, CPU seconds, and the peak memory until then."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, float, float, int]] = []
        self.printed = 0.0

    def say(self, text: str) -> None:
        """Note the beginning of a section."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        self.marks.append((text, time.monotonic(), time.process_time(), peak))
        print(text, file=sys.stderr, flush=True)

    def progress(self, progress: Progress) -> None:
        """Print the share that is done, twice a minute."""
        if time.monotonic() - self.printed > 30:
            self.printed = time.monotonic()
            print(f"  {progress.share:.1%}", file=sys.stderr, flush=True)

    def describe(self) -> list[dict[str, Any]]:
        """Return the seconds of each section, and the peak memory at its end."""
        self.say("end")
        return [
            {
                "section": name,
                "wall_s": round(later[1] - wall, 1),
                "cpu_s": round(later[2] - cpu, 1),
                "peak_mb": later[3],
            }
            for (name, wall, cpu, _), later in zip(self.marks, self.marks[1:], strict=False)
        ]


def describe_found(made: StoreResults, rows: int) -> dict[str, Any]:
    """Return what was found of what was planted."""
    near = made.tables["near_duplicates"]
    first = np.arange(rows // 100, rows // 100 + rows // 200)
    known = set(zip(near["row"], near["nearest"], strict=True))
    return {
        "zero_rows": len(made.tables["unusable_rows"]),
        "copies_found": int(
            (made.tables["duplicates"]["row"] - rows // 2 == made.tables["duplicates"]["copy_of"]).sum()
        ),
        "copies_planted": rows // 100,
        "near_found": sum((row, row + rows // 2) in known for row in first.tolist()),
        "near_planted": rows // 200,
        "rogue": made.answers.set_index("question")["sentence"]["Does one dimension dominate?"],
    }


def main() -> None:
    """Print a line of JSON for each section, then what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help=f"a multiple of {2 * BLOCK:,}")
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--resume", action="store_true")
    chosen = parser.parse_args()
    if chosen.rows % (2 * BLOCK):
        parser.error(f"--rows must be a multiple of {2 * BLOCK:,} (got {chosen.rows:,}).")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    path, sections = chosen.folder / f"{chosen.rows}-{chosen.dim}.npy", Sections()
    if not path.is_file():
        write_store(path, chosen.rows, chosen.dim)
    made = theodolite.store(
        path, out=chosen.folder / "out", resume=chosen.resume, device=chosen.device, listener=sections
    )
    for row in sections.describe():
        print(json.dumps(row))
    print(json.dumps(describe_found(made, chosen.rows)))


if __name__ == "__main__":
    main()
