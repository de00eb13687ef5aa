"""python -m theodolite.bench NAME: what a cluster is worth, measured where it stands."""

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
    one = benchmarks.add_parser("scaling", help=(scaling.__doc__ or "").splitlines()[0])
    one.add_argument("--model", default="minilm-l6")
    one.add_argument("--corpus", default="chitchat")
    one.add_argument("--limit", type=int, default=400, help="documents")
    one.add_argument("--workers", default=None, help="such as 1,2,4; default: 1, 2, 4 ... up to the cores here")
    one.add_argument("--address", default="local", help="local, auto or HOST:PORT")
    one.add_argument("--gpus-per-worker", type=int, default=0)
    one.add_argument("--shard-chars", type=int, default=2**16, help="smaller than a survey's, for a short run")
    one.add_argument("--json", action="store_true")
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
            told=lambda text: print(text, file=sys.stderr),
        )
    except TheodoliteError as error:
        print(f"theodolite: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(json.dumps(found, indent=2) if given.json else f"{scaling.table(found)}\n\n{scaling.NOTE}")


def _numbers(text: str) -> list[int]:
    """Return the numbers of workers, each of which there can be.

    >>> _numbers("1,2")
    [1, 2]
    """
    each = text.split(",")
    if not all(one.strip().isdecimal() and int(one) for one in each):
        raise InputError(f"--workers {text}: wanted numbers of workers from 1 on, such as 1,2,4.")
    return [int(one) for one in each]


if __name__ == "__main__":
    main()
