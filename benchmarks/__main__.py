"""Every benchmark one after the other: one table of ratios, one JSON file.

    python -m benchmarks --out build/bench.json
    python -m benchmarks --only fold twonn
    python -m benchmarks --quick

Each ratio is measured side by side in one run; nothing here passes or fails. A part that cannot run here says so
in the table and leaves the others alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.machine import in_words, machine
from benchmarks.row import Row, table

PARTS = (
    "fold",
    "reading",
    "naive_loop",
    "twonn",
    "iso_score",
    "mean_cosine",
    "memory",
    "corpus_size",
    "merging",
    "tables",
    "callback",
)


def main() -> None:
    """Run the parts, print and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="NAME", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="sizes that only show that everything runs")
    chosen = parser.parse_args()
    found = everything(chosen.only or PARTS, chosen.quick)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"\n{found['date']}, {in_words(found['machine'])}\n")
    print(table(row for part in found["parts"].values() for row in part["rows"]))
    if chosen.quick:
        print("\nquick sizes: that everything runs is all that these numbers say")
    print(f"\nwritten to {chosen.out}")


def everything(names: tuple[str, ...] | list[str], quick: bool) -> dict[str, Any]:
    """Return the date, the machine and what each part found."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    found: dict[str, Any] = {"date": now, "machine": machine(), "quick": quick, "parts": {}}
    for name in names:
        print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
        began = time.perf_counter()
        found["parts"][name] = one(name, quick)
        print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    return found


def one(name: str, quick: bool) -> dict[str, Any]:
    """Return what a part found, or a row that says why it could not run."""
    try:
        part = import_module(f"benchmarks.{name}")
        made: dict[str, Any] = part.run(quick=quick)
    except Exception as error:  # whatever it is, the others are still worth having
        why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        return {"rows": [Row(name, None, why=why).told()]}
    return made


if __name__ == "__main__":
    main()
