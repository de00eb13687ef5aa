"""One survey by 1, 2, 4 ... workers: what each further one is worth, and where the time goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from theodolite.engines.ray.connecting import connected
from theodolite.engines.ray.pool import Pool
from theodolite.errors import InputError
from theodolite.sources.text.checkpoint import resolve
from theodolite.surveys import text
from theodolite.surveys.cluster.cluster import Cluster
from theodolite.surveys.models import survey_checkpoint
from theodolite.surveys.wanted import Wanted

HEADS = {
    "workers": "workers",
    "cores": "cores each",
    "start": "start",
    "pilot": "pilot",
    "shards": "shards",
    "folding": "forward and fold",
    "computing": "core time of that",
    "saving": "saving",
    "waiting": "waiting",
    "merge": "merge",
    "tables": "tables",
    "rate": "positions/s",
    "efficiency": "efficiency",
    "core_efficiency": "by core time",
}
NOTE = """\
In seconds. start: importing and loading the model; shards: from the first one given to the last one saved, which
for a mean worker is forward and fold, saving and waiting; merge and tables: adding what workers saved, reading it
off. efficiency: positions/s for each worker, as a share of the first row's; by core time: the same of the seconds
that cores computed. Where core time is well below forward and fold, other programs used the cores, and only the
last column tells what a worker is worth."""


def run(
    model: str,
    corpus: str,
    *,
    limit: int,
    workers: Sequence[int] | None = None,
    address: str = "local",
    gpus: int = 0,
    shard_chars: int = 2**16,
    told: Callable[[str], None] = lambda text: None,
) -> list[dict[str, float]]:
    """Survey with each number of workers and return a row for each, in seconds.

    On a cluster that is started here each worker has one core, whatever their number. `shards` is the time from
    the first shard given to the last one saved; folding, saving and waiting are shares of it, a mean worker's.
    Where `computing`, the seconds of a core, falls behind `folding`, others used the cores too; the efficiency of
    core seconds does not see them.
    """
    cores = os.cpu_count() or 1
    _check(workers or (), limit, shard_chars, cores if address == "local" else None)
    checkpoint, rows = resolve(model), list[dict[str, float]]()
    text.SHARD_CHARS = shard_chars
    for count in workers or _doubled(cores):
        cpus = count if address == "local" else None
        told(f"surveying with --workers {count}")
        with TemporaryDirectory() as folder, connected(address, cpus=cpus):
            pool, out = Pool(count, gpus), Path(folder) / "survey"
            with Cluster(out, pool) as cluster:
                made = survey_checkpoint(
                    checkpoint,
                    corpus,
                    Wanted(limit=limit),
                    out=out,
                    device="cuda" if gpus else "cpu",
                    here="cpu",
                    engine=cluster,
                )
        rows.append(_row(made.facts, count, pool.room.cpus))
    for row in rows:
        share = rows[0]["workers"] / row["workers"]
        row["efficiency"] = share * row["rate"] / rows[0]["rate"]
        row["core_efficiency"] = share * rows[0]["computing"] / row["computing"]
    return rows


def _check(workers: Sequence[int], limit: int, shard_chars: int, cores: int | None) -> None:
    """Refuse what cannot be measured; `cores` are those of a cluster that is started here."""
    for name, value in (("--limit", limit), ("--shard-chars", shard_chars)):
        if value < 1:
            raise InputError(f"{name} {value}: wanted at least 1.")
    if cores is not None and max(workers, default=1) > cores:
        raise InputError(
            f"--workers {max(workers)}: each has a core of its own with --address local, and this machine has "
            f"{cores}; give fewer, or --address auto on a cluster."
        )


def _row(facts: dict[str, Any], workers: int, cores: int) -> dict[str, float]:
    seconds = facts["times"]["seconds"]
    spent = {name: seconds[f"{name}_of_workers"] / workers for name in ("folding", "computing", "saving")}
    return {
        "workers": workers,
        "cores": cores,
        **{name: seconds[name] for name in ("start", "pilot", "shards", "merge", "tables")},
        **spent,
        "waiting": seconds["shards"] - spent["folding"] - spent["saving"],
        "positions": facts["counts"]["positions"],
        "number_of_shards": facts["counts"]["shards"],
        "rate": facts["counts"]["positions"] / seconds["shards"],
    }


def table(rows: Sequence[dict[str, float]]) -> str:
    """Return the rows as a Markdown table.

    >>> print(table([dict.fromkeys(HEADS, 1.0)]).splitlines()[-1])
    | 1 | 1 | 1.0 | 1.0 | 1.0 | 1.0 | 1.0 | 1.0 | 1.0 | 1.0 | 1.0 | 1 | 1.00 | 1.00 |
    """
    lines = [f"| {' | '.join(HEADS.values())} |", "|" + "---|" * len(HEADS)]
    whole, two = ("workers", "cores", "rate"), ("efficiency", "core_efficiency")
    for row in rows:
        cells = [f"{row[name]:,.{0 if name in whole else 2 if name in two else 1}f}" for name in HEADS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _doubled(most: int) -> list[int]:
    """Return 1, 2, 4 ... and the most itself."""
    return sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})
