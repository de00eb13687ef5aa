"""Run all benchmarks: one table of ratios, one JSON file.

    python -m benchmarks --out build/bench.json
    python -m benchmarks --only fold twonn
    python -m benchmarks --quick

Both sides of each ratio are measured alternately in one run. Nothing here passes or fails. A part that cannot run
on this machine is reported in the table and does not stop the others.
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

from benchmarks.results import Row, describe_machine, format_table, get_machine

PARTS = (
    "fold",
    "reading",
    "naive_loop",
    "twonn",
    "iso_score",
    "mean_cosine",
    "memory",
    "few_vectors",
    "corpus_size",
    "merging",
    "tables",
    "callback",
)


def main() -> None:
    """Run the parts, print the table and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="NAME", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes that only check that everything runs")
    chosen = parser.parse_args()
    found = run_parts(chosen.only or PARTS, chosen.quick)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"\n{found['date']}, {describe_machine(found['machine'])}\n")
    print(format_table(row for part in found["parts"].values() for row in part["rows"]))
    if chosen.quick:
        print("\nquick sizes: these numbers only show that everything runs")
    print(f"\nwritten to {chosen.out}")


def run_parts(names: tuple[str, ...] | list[str], quick: bool) -> dict[str, Any]:
    """Return the date, the machine and the results of each part."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    found: dict[str, Any] = {"date": now, "machine": get_machine(), "quick": quick, "parts": {}}
    for name in names:
        print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
        started = time.perf_counter()
        found["parts"][name] = run_part(name, quick)
        print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)
    return found


def run_part(name: str, quick: bool) -> dict[str, Any]:
    """Return the results of a part, or a row with the reason why it could not run."""
    try:
        part = import_module(f"benchmarks.{name}")
        made: dict[str, Any] = part.run(quick=quick)
    except Exception as error:  # one failed part must not stop the others
        why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        return {"rows": [Row(name, None, why=why).to_dict()]}
    return made


if __name__ == "__main__":
    main()
