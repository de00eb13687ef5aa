"""One machine of a cluster has too little memory for vectors of all units. Workers import this by name."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
from tests.engines.ray.comparison import make_plan
from tests.engines.ray.nodes import ODD, RecordingListener, survey_on_cluster

from theodolite.engines.ray import engine
from theodolite.engines.ray.worker import Worker
from theodolite.environment import MEMORY_SHARE
from theodolite.errors import TheodoliteError
from theodolite.statistics import rare_units
from theodolite.surveys.run import run


class SmallMachineWorker(Worker):
    """A worker that finds `free` bytes of memory on the odd machine."""

    def __init__(self, free: int) -> None:
        super().__init__()
        if platform.node() == ODD:
            psutil.virtual_memory = lambda: SimpleNamespace(available=free)


@contextmanager
def free_on_odd_machine(free: int) -> Iterator[None]:
    """Let the odd machine have that many free bytes."""
    engine.Worker = partial(SmallMachineWorker, free)  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        engine.Worker = Worker  # type: ignore[misc]


@contextmanager
def few_sampled() -> Iterator[None]:
    """Sample few rare units, so that a small corpus has units without a vector. Only the driver chooses them."""
    defaults, least = rare_units.choose_units.__kwdefaults__, rare_units.MIN_SAMPLED
    sampled = defaults["sampled"]
    rare_units.MIN_SAMPLED, defaults["sampled"] = 2, 10
    try:
        yield
    finally:
        rare_units.MIN_SAMPLED, defaults["sampled"] = least, sampled


def scene(model: Path, root: Path) -> dict[str, Any]:
    """Survey on the cluster without options for memory; then once more, interrupted and resumed."""
    with few_sampled():
        upper_bound = run(make_plan(model)).facts["memory"]["bytes"]
        need = run(make_plan(model, memory=upper_bound - 1)).facts["memory"]["bytes"]  # units are counted
        listener, again, out = RecordingListener(), RecordingListener(), root / "small-memory-resumed"
        plan = make_plan(model)
        with free_on_odd_machine(int((need - 1) / MEMORY_SHARE)):
            made = survey_on_cluster(make_plan(model), root / "small-memory", listener)
            try:
                survey_on_cluster(plan, out, RecordingListener(3, interrupt))
            except TheodoliteError:
                finished = (out / "survey.json").exists()
        survey_on_cluster(make_plan(model), out, again, resume=True)
        chosen = made.facts["settings"]["min_count"]
        run(make_plan(model, min_count=chosen), out=root / "small-memory-local")
    return {
        "min_count": chosen,
        "need": need,
        "share": made.facts["engine"]["memory_per_worker"],
        "warned": listener.warned,
        "finished": finished,
        "folded": len(again.shares),
        "shards": len(plan.shards),
    }


def interrupt() -> None:
    """End a run as an error of the driver would."""
    raise TheodoliteError("interrupted")
