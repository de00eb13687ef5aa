"""Run one part by itself: `python -m benchmarks.NAME` prints its table and optionally writes its numbers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.results import describe_machine, format_table, get_machine


def run_from_command_line(run: Callable[..., dict[str, Any]], about: str | None, **sizes: Any) -> None:
    """Read the options --quick, --json and one for each size, run the part and print its results."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small size that only checks that it runs")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    for name, size in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(size), default=size)
    chosen = vars(parser.parse_args())
    path = chosen.pop("json")
    where = get_machine()
    found = run(**chosen)
    print(describe_machine(where))
    print(format_table(found["rows"]))
    rest = {name: value for name, value in found.items() if name != "rows"}
    if rest:
        print(json.dumps(rest, indent=2))
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": where, **found}, indent=2) + "\n", encoding="utf-8")
