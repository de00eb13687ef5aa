"""Surveys on a real cluster: a head and two nodes, each with its own processes, in their own network.

Run as `python -m tests.engines.ray.cluster_program FOLDER` within new network and process namespaces: nothing
listens beyond loopback, and every process ends with the program. Writes surveys and results.json.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.engines.ray import faults, small_memory
from tests.engines.ray.comparison import DOCUMENTS, SHARD_CHARS, make_plan
from tests.engines.ray.failing_sources import FAILS_IN_PREPARE, SLOW, make_failing_source, wait_until
from tests.engines.ray.nodes import (
    ADDRESS,
    RecordingListener,
    kill,
    odd_machine,
    start_head,
    start_node,
    survey_on_cluster,
)
from tests.object_store import s3
from tests.small_models import make

from theodolite.engines.ray import engine, reachability
from theodolite.errors import TheodoliteError
from theodolite.state import checkpoints
from theodolite.storage.bucket import Bucket
from theodolite.surveys import text_survey as text_surveys
from theodolite.surveys.api import survey
from theodolite.surveys.run import run


def straggler(model: Path, root: Path) -> dict[str, Any]:
    """One shard ends only after all others have; the other worker folds them."""
    slow = [f"{DOCUMENTS[0]} {SLOW}", *DOCUMENTS[1:]]
    plan = make_plan(model, slow)
    run(plan, out=root / "straggler-local")
    release, pilot = root / "release", len(plan.pilot_documents)
    listener = RecordingListener(len(plan.shards) - 1, release.touch)
    slowly = partial(make_failing_source, plan.remake, release=release, pilot=pilot)
    survey_on_cluster(replace(plan, remake=slowly), root / "straggler", listener)
    return {"shares": listener.shares, "first": plan.weight(0), "shards": len(plan.shards)}


def killed(model: Path, root: Path, node: subprocess.Popen[bytes]) -> dict[str, Any]:
    """A node is killed during the survey of a corpus with one document that raises an error."""
    documents = [*DOCUMENTS[:50], f"{DOCUMENTS[50]} {FAILS_IN_PREPARE}", *DOCUMENTS[51:]]
    plan, listener = make_plan(model, documents), RecordingListener(3, lambda: kill(node))
    survey_on_cluster(replace(plan, remake=partial(make_failing_source, plan.remake)), root / "killed", listener)
    read = plan.read

    def without(shards: Any) -> Any:
        for shard, numbered in read(shards):
            yield shard, [each for each in numbered if each[0] != 50]

    run(replace(plan, read=without, pilot_from=root / "killed"), out=root / "killed-local")
    return {"warned": listener.warned}


DRIVER = """
import sys, time
from tests.engines.ray import cluster_program
from theodolite.engines.ray.driver import Driver
cluster_program.small_steps()
if "--resume" not in sys.argv:
    Driver._mark_saved = lambda self, worker: time.sleep(10**6)  # until it is killed
from theodolite.cli import main
main()
"""


def driver(model: Path, root: Path) -> dict[str, Any]:
    """The command, which is the driver, is killed once a worker has saved; then it is run again with --resume."""
    corpus, out = root / "corpus.txt", root / "driver"
    corpus.write_text("\n".join(DOCUMENTS * 4), encoding="utf-8")
    command = [sys.executable, "-c", DRIVER, "survey", str(model), "--corpus", str(corpus), "--out", str(out)]
    command += ["--engine", "ray", "--address", ADDRESS, "--workers", "2", "--layers", "0,2", "--quiet"]
    command += ["--batch-tokens", "64", "--sample-size", "64"]
    process = subprocess.Popen(command)
    wait_until(lambda: bool(list(out.glob("workers/*/checkpoints/0*"))) or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    ended = {"finished": (out / "survey.json").exists(), "unfinished": (out / "unfinished.json").exists()}
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    survey(model, corpus, out=root / "driver-local", layers="0,2", batch_tokens=64, sample_size=64)
    return {**ended, "code": done.returncode, "output": done.stdout + done.stderr}


def bucket(model: Path, root: Path, store: str) -> dict[str, Any]:
    """Workers save to a bucket; the finished survey is downloaded for the test."""
    plan, out, listener = make_plan(model), Bucket(f"{store}/runs/survey"), RecordingListener()
    survey_on_cluster(plan, out, listener)
    run(plan, out=root / "bucket-local")
    for name in out.below():
        (out / name).get(root / "bucket" / name)
    return {"shares": listener.shares}


def rejected(model: Path, root: Path) -> dict[str, str]:
    """Requests that exceed the cluster."""
    messages = {}
    for name, options in {"gpus": {"gpus_per_worker": 1}, "workers": {"workers": 9}}.items():
        try:
            survey(model, DOCUMENTS, out=root / name, engine="ray", address=ADDRESS, **options)  # type: ignore[arg-type]
        except TheodoliteError as error:
            messages[name] = str(error)
    return messages


def small_steps() -> None:
    """Make many small shards, save after every one, and be patient: the machine may be busy."""
    engine.START_TIMEOUT, reachability.TIMEOUT = 1800.0, 600.0
    text_surveys.SHARD_CHARS = SHARD_CHARS
    checkpoints.SHARE = float("inf")
    survey.__kwdefaults__["checkpoint_every"] = 0.0


def main() -> None:
    """Start an object store and the cluster, run the scenes, and write their results."""
    root = Path(sys.argv[1])
    small_steps()
    with s3() as store:  # first: the nodes inherit its address from this process
        scenes(root, store)


def scenes(root: Path, store: str) -> None:
    """Run all scenes on one cluster."""
    model, results, began = make("bert", root / "model"), dict[str, Any](), time.monotonic()
    faults.small_disk(root)  # before the nodes, so that they see it
    start_head(Path(os.environ["RAY_FOLDER"]))
    nodes = [start_node(), start_node(*odd_machine(root / "odd"))]
    results["seconds"] = {"cluster": time.monotonic() - began}
    each: dict[str, Callable[[], dict[str, Any]]] = {
        "rejected": lambda: rejected(model, root),
        "commands": lambda: faults.commands(model, root, nodes[1]),
        "versions": lambda: faults.versions(model, root),
        "straggler": lambda: straggler(model, root),
        "driver": lambda: driver(model, root),
        "bucket": lambda: bucket(model, root, store),
        "pictures": lambda: faults.pictures(root),
        "small memory": lambda: small_memory.scene(model, root),
        "full machine": lambda: faults.full_machine(model, root, store, nodes[1]),
        "full folder": lambda: faults.full_folder(model, root),
        "killed": lambda: killed(model, root, nodes[1]),
    }
    for name, scene in each.items():
        began = time.monotonic()
        try:
            results[name] = scene()
        except Exception as error:
            results[name] = {"error": f"{type(error).__name__}: {error}"}
        results["seconds"][name] = time.monotonic() - began
    (root / "results.json").write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
