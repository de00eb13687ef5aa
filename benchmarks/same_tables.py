"""Whether two survey folders hold the same numbers, bit for bit: `python -m benchmarks.same_tables BEFORE AFTER`.

Compares every column of every Parquet table, and every tensor of every safetensors file. Use it before and after a
change that must not change numbers:

    theodolite survey minilm-l6 --corpus chitchat --limit 100 --out before/minilm-l6    # on the old commit
    theodolite survey minilm-l6 --corpus chitchat --limit 100 --out after/minilm-l6     # on the new commit
    python -m benchmarks.same_tables before/minilm-l6 after/minilm-l6 --except effective_rank_singular

The reasons in the column `undefined` are texts: which columns they explain is compared, their words are not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import load_file


def compare_folders(before: Path, after: Path, ignored: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield one line for every difference."""
    names = [{path.name for path in folder.iterdir() if path.suffix in SUFFIXES} for folder in (before, after)]
    for folder, found in zip((before, after), names, strict=True):
        if not found:
            yield f"{folder} has no table: is it the folder of a survey?"
    for name in sorted(names[0] ^ names[1]):
        yield f"{name} is in {before if name in names[0] else after} only"
    for name in sorted(names[0] & names[1]):
        for line in SUFFIXES[Path(name).suffix](before / name, after / name):
            if line.split(":")[0] not in ignored:
                yield f"{name}: {line}"


def compare_tables(before: Path, after: Path) -> Iterator[str]:
    """Yield one line for every column of two Parquet tables that differs."""
    old, new = pd.read_parquet(before), pd.read_parquet(after)
    if list(old.columns) != list(new.columns) or len(old) != len(new):
        yield f"columns or rows: {len(old)} x {list(old.columns)} before, {len(new)} x {list(new.columns)} after"
        return
    for column in old.columns:
        left, right = (_comparable(table[column]) for table in (old, new))
        if old[column].dtype != new[column].dtype or left != right:
            count = sum(a != b for a, b in zip(left, right, strict=True))
            yield f"{column}: {count} of {len(old)} values differ"


def _comparable(values: pd.Series) -> list[bytes]:
    """Return each value as bytes, so that NaN equals itself and -0.0 does not equal 0.0."""
    if values.name == "undefined":
        return [json.dumps(sorted(json.loads(text))).encode() if text else b"" for text in values.fillna("")]
    if values.dtype.kind == "f":
        return [value.tobytes() for value in values.to_numpy()]
    return [repr(value).encode() for value in values]


def compare_tensors(before: Path, after: Path) -> Iterator[str]:
    """Yield one line for every tensor of two safetensors files that differs."""
    old, new = load_file(before), load_file(after)
    for name in sorted(old.keys() ^ new.keys()):
        yield f"{name}: in one of the files only"
    for name in sorted(old.keys() & new.keys()):
        same = old[name].dtype == new[name].dtype and old[name].shape == new[name].shape
        if not same or not torch.equal(*(part[name].view(-1).view(torch.uint8) for part in (old, new))):
            yield f"{name}: differs"


SUFFIXES = {".parquet": compare_tables, ".safetensors": compare_tensors}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--except", dest="ignored", nargs="*", default=[], metavar="COLUMN")
    given = parser.parse_args()
    lines = list(compare_folders(given.before, given.after, frozenset(given.ignored)))
    print("\n".join(lines) if lines else f"{given.before} and {given.after} are equal bit for bit")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
