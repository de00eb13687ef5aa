"""Surveys on a real cluster: a head and two nodes, each a process tree of its own, in a network of their own.

Run as `python -m tests.engines.ray.cluster_program FOLDER` within new network and process namespaces: nothing
listens beyond loopback, and all that was started ends with the program. Leaves surveys and results.json.
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

from tests.engines.ray import faults
from tests.engines.ray.nodes import ADDRESS, WAIT, Heard, kill, oddly, on_cluster, start_head, start_node
from tests.engines.ray.poisoned import POISON, SLOW, poisoned
from tests.engines.ray.surveyed import DOCUMENTS, SHARD_CHARS, planned
from tests.object_store import s3
from tests.small_models import make

from theodolite.errors import TheodoliteError
from theodolite.surveys import checkpoints
from theodolite.surveys import text as text_surveys
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.models import survey
from theodolite.surveys.run import run


def straggler(model: Path, root: Path) -> dict[str, Any]:
    """One shard takes as long as all others together; the idle worker folds the others."""
    slow = [f"{DOCUMENTS[0]} {SLOW}", *DOCUMENTS[1:]]
    plan = planned(model, slow)
    run(plan, out=root / "straggler-local")
    heard = Heard()
    on_cluster(replace(plan, remake=partial(poisoned, plan.remake, 3.0)), root / "straggler", heard)
    return {"shares": heard.shares, "first": plan.weight(0), "shards": len(plan.shards)}


def killed(model: Path, root: Path, node: subprocess.Popen[bytes]) -> dict[str, Any]:
    """A node is killed in mid-survey of a corpus with one document that raises."""
    documents = [*DOCUMENTS[:50], f"{DOCUMENTS[50]} {POISON}", *DOCUMENTS[51:]]
    plan, heard = planned(model, documents), Heard(3, lambda: kill(node))
    slowly = partial(poisoned, plan.remake, 0.0, 0.1)
    on_cluster(replace(plan, remake=slowly), root / "killed", heard)
    read = plan.read

    def without(shards: Any) -> Any:
        for shard, numbered in read(shards):
            yield shard, [each for each in numbered if each[0] != 50]

    run(replace(plan, read=without, pilot_from=root / "killed"), out=root / "killed-local")
    return {"warned": heard.warned}


DRIVER = """
import sys
from tests.engines.ray import cluster_program
cluster_program.small_steps()
from theodolite.cli import main
main()
"""


def driver(model: Path, root: Path) -> dict[str, Any]:
    """The driver, which is the command, is killed; the same command with --resume goes on."""
    corpus, out = root / "corpus.txt", root / "driver"
    corpus.write_text("\n".join(DOCUMENTS * 4), encoding="utf-8")
    command = [sys.executable, "-c", DRIVER, "survey", str(model), "--corpus", str(corpus), "--out", str(out)]
    command += ["--engine", "ray", "--address", ADDRESS, "--workers", "2", "--layers", "0,2", "--quiet"]
    command += ["--batch-tokens", "64", "--sample-size", "64"]
    process = subprocess.Popen(command)
    until = time.monotonic() + WAIT
    while not list(out.glob("workers/*/checkpoints/0*")):
        if time.monotonic() > until or process.poll() is not None:
            raise TimeoutError("the driver saved nothing")
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    ended = {"finished": (out / "survey.json").exists(), "unfinished": (out / "unfinished.json").exists()}
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    survey(model, corpus, out=root / "driver-local", layers="0,2", batch_tokens=64, sample_size=64)
    return {**ended, "code": done.returncode, "said": done.stdout + done.stderr}


def bucket(model: Path, root: Path, store: str) -> dict[str, Any]:
    """Workers save to a bucket; what is left there is fetched for the test to see."""
    plan, out, heard = planned(model), Bucket(f"{store}/runs/survey"), Heard()
    on_cluster(plan, out, heard)
    run(plan, out=root / "bucket-local")
    for name in out.below():
        (out / name).get(root / "bucket" / name)
    return {"shares": heard.shares}


def refused(model: Path, root: Path) -> dict[str, str]:
    """What the cluster cannot give is a sentence."""
    said = {}
    for name, options in {"gpus": {"gpus_per_worker": 1}, "workers": {"workers": 9}}.items():
        try:
            survey(model, DOCUMENTS, out=root / name, engine="ray", address=ADDRESS, **options)  # type: ignore[arg-type]
        except TheodoliteError as error:
            said[name] = str(error)
    return said


def small_steps() -> None:
    """Make many small shards, and save after every one."""
    text_surveys.SHARD_CHARS = SHARD_CHARS
    checkpoints.SHARE = float("inf")
    survey.__kwdefaults__["checkpoint_every"] = 0.0


def main() -> None:
    """Start a store and the cluster, go through the scenes, and write what came of them."""
    root = Path(sys.argv[1])
    small_steps()
    with s3() as store:  # first: the nodes learn from this process where it is
        scenes(root, store)


def scenes(root: Path, store: str) -> None:
    """Go through them on one cluster."""
    model, results, began = make("bert", root / "model"), dict[str, Any](), time.monotonic()
    faults.small_disk(root)  # before the nodes, which see it too
    start_head(Path(os.environ["RAY_FOLDER"]))
    nodes = [start_node(), start_node(*oddly(root / "odd"))]
    results["seconds"] = {"cluster": time.monotonic() - began}
    each: dict[str, Callable[[], dict[str, Any]]] = {
        "refused": lambda: refused(model, root),
        "commands": lambda: faults.commands(model, root, nodes[1]),
        "versions": lambda: faults.versions(model, root),
        "straggler": lambda: straggler(model, root),
        "driver": lambda: driver(model, root),
        "bucket": lambda: bucket(model, root, store),
        "pictures": lambda: faults.pictures(root),
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
