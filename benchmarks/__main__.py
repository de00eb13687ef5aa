"""Run every benchmark, print one table, write one JSON file."""

from __future__ import annotations

import argparse
import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import callback, fold, memory, twonn

BOUNDS = {
    "fold_over_forward": 1.15,
    "fold_over_forward_everything": 1.30,
    "twonn_over_fastest_peer": 1.0,
    "callback_share_of_training": 0.02,
}


def main() -> None:
    """Print and write the ratios; nothing here passes or fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    out = parser.parse_args().out
    now = datetime.now(UTC).isoformat(timespec="seconds")
    found: dict[str, Any] = {"date": now, "machine": platform.platform()}
    for part in (fold, twonn, memory, callback):
        print(f"{part.__name__}: {(part.__doc__ or '').splitlines()[0]}", flush=True)
        found |= part.run()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print()
    for name, value in found.items():
        if isinstance(value, float):
            bound = f"   (at most {BOUNDS[name]})" if name in BOUNDS else ""
            print(f"{name:<36} {value:>12,.3f}{bound}")
    print(f"\nwritten to {out}")


if __name__ == "__main__":
    main()
