"""Run one survey with 1, 2, 4 ... workers: the speed-up per worker, and where the time goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from theodolite.engines.ray.connection import connect
from theodolite.engines.ray.engine import RayEngine
from theodolite.engines.ray.pool import RayPool
from theodolite.errors import InputError
from theodolite.models.checkpoint import resolve
from theodolite.surveys import text_survey
from theodolite.surveys.api import survey_checkpoint
from theodolite.surveys.options import SurveyOptions

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
Times are in seconds. start: importing and loading the model. shards: from assigning the first shard to saving the
last one; for the average worker this is the sum of forward and fold, saving, and waiting. merge, tables: adding
the states of the workers, making the tables. efficiency: positions/s per worker, relative to the first row. by
core time: the same, computed from core seconds. If core time is well below forward and fold, other programs used
the cores, and only the last column shows how the survey scales."""


def run(
    model: str,
    corpus: str,
    *,
    limit: int,
    workers: Sequence[int] | None = None,
    address: str = "local",
    gpus: int = 0,
    shard_chars: int = 2**16,
    say: Callable[[str], None] = lambda text: None,
) -> list[dict[str, float]]:
    """Survey with each number of workers and return one row for each, in seconds.

    With `address="local"` each worker has one core, whatever their number. `shards` is the time from assigning the
    first shard to saving the last one; folding, saving and waiting are its parts for the average worker. If
    `computing`, the core seconds, is below `folding`, other programs used the cores too; `core_efficiency` is not
    affected by them.
    """
    cores = os.cpu_count() or 1
    _check(workers or (), limit, shard_chars, cores if address == "local" else None)
    checkpoint, rows = resolve(model), list[dict[str, float]]()
    text_survey.SHARD_CHARS = shard_chars
    for count in workers or _doubled(cores):
        cpus = count if address == "local" else None
        say(f"surveying with --workers {count}")
        with TemporaryDirectory() as folder, connect(address, cpus=cpus):
            pool, out = RayPool(count, gpus), Path(folder) / "survey"
            with RayEngine(out, pool) as cluster:
                made = survey_checkpoint(
                    checkpoint,
                    corpus,
                    SurveyOptions(limit=limit),
                    out=out,
                    device="cuda" if gpus else "cpu",
                    local_device="cpu",
                    engine=cluster,
                )
        rows.append(_row(made.facts, count, pool.capacity.cpus))
    for row in rows:
        share = rows[0]["workers"] / row["workers"]
        row["efficiency"] = share * row["rate"] / rows[0]["rate"]
        row["core_efficiency"] = share * rows[0]["computing"] / row["computing"]
    return rows


def _check(workers: Sequence[int], limit: int, shard_chars: int, cores: int | None) -> None:
    """Reject sizes that cannot be measured; `cores` is None for a cluster that exists already."""
    for name, value in (("--limit", limit), ("--shard-chars", shard_chars)):
        if value < 1:
            raise InputError(f"{name} must be at least 1 (got {value}).")
    if cores is not None and max(workers, default=1) > cores:
        raise InputError(
            f"--workers {max(workers)}: with --address local each worker needs its own core, and this machine has "
            f"{cores}; give fewer workers, or --address auto on a cluster."
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
