"""python -m theodolite.bench NAME: measure how a survey scales on your own cluster."""

from __future__ import annotations

import argparse
import json
import sys

from transformers.utils import logging

from theodolite.bench import scaling
from theodolite.errors import InputError, TheodoliteError


def main() -> None:
    """Run one benchmark and print its table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m theodolite.bench", description=__doc__)
    benchmarks = parser.add_subparsers(required=True, metavar="NAME")
    parsed = benchmarks.add_parser("scaling", help=(scaling.__doc__ or "").splitlines()[0])
    parsed.add_argument("--model", default="minilm-l6")
    parsed.add_argument("--corpus", default="chitchat")
    parsed.add_argument("--limit", type=int, default=400, help="number of documents")
    parsed.add_argument(
        "--workers", default=None, help="such as 1,2,4; default: 1, 2, 4 ... up to the cores of this machine"
    )
    parsed.add_argument("--address", default="local", help="local, auto or HOST:PORT")
    parsed.add_argument("--gpus-per-worker", type=int, default=0)
    parsed.add_argument(
        "--shard-chars",
        type=int,
        default=2**16,
        help="characters per shard; smaller than in a survey, for a short run",
    )
    parsed.add_argument("--json", action="store_true")
    given = parser.parse_args()
    logging.disable_progress_bar()
    try:
        found = scaling.run(
            given.model,
            given.corpus,
            limit=given.limit,
            workers=_numbers(given.workers) if given.workers else None,
            address=given.address,
            gpus=given.gpus_per_worker,
            shard_chars=given.shard_chars,
            say=lambda text: print(text, file=sys.stderr),
        )
    except TheodoliteError as error:
        print(f"theodolite: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(json.dumps(found, indent=2) if given.json else f"{scaling.table(found)}\n\n{scaling.NOTE}")


def _numbers(text: str) -> list[int]:
    """Return the numbers of workers in a comma-separated list.

    >>> _numbers("1,2")
    [1, 2]
    """
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) for part in parts):
        raise InputError(f"--workers {text}: expected positive integers separated by commas, such as 1,2,4.")
    return [int(part) for part in parts]


if __name__ == "__main__":
    main()
