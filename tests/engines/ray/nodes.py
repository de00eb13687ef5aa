"""A head and nodes as users start them, one of them odd, and a survey on them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from theodolite.engines.ray.connecting import connected
from theodolite.engines.ray.pool import Pool
from theodolite.errors import TheodoliteError
from theodolite.surveys.cluster.cluster import Cluster
from theodolite.surveys.listener import Listener, Progress
from theodolite.surveys.plan import Plan
from theodolite.surveys.run import run
from theodolite.surveys.storage import Place

PORT = 6399
ADDRESS = f"127.0.0.1:{PORT}"
WAIT = 60.0
ODD = "odd-machine"


def ray_start(
    *options: str, within: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a node as users do; it stays a child of this program."""
    command = [*within, sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
    command += ["--object-store-memory=80000000", *options]
    return subprocess.Popen(command, env={**os.environ, **(environment or {})})


def start_head(folder: Path) -> None:
    """Start a head that lends nothing, so that every worker is on a node that can be killed."""
    place = ["--node-ip-address=127.0.0.1", f"--port={PORT}", f"--temp-dir={folder}"]
    ray_start("--head", *place, "--num-cpus=0", "--include-dashboard=false")
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
            with connected(ADDRESS):
                return
        except (OSError, TheodoliteError):
            time.sleep(0.3)
    raise TimeoutError("the head did not start")


def start_node(
    within: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a node with one core, and wait until the cluster knows it: two at once would fight over a socket."""
    import ray

    with connected(ADDRESS):
        before = sum(node["Alive"] for node in ray.nodes())
        place = [f"--address={ADDRESS}", "--num-cpus=1", "--node-ip-address=127.0.0.1"]
        process = ray_start(*place, within=within, environment=environment)
        until = time.monotonic() + WAIT
        while sum(node["Alive"] for node in ray.nodes()) <= before:
            if time.monotonic() > until:
                raise TimeoutError("a node did not start")
            time.sleep(0.1)
    return process


def oddly(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command before, and the environment of, a machine that is not like the others.

    It has a name and a disk for temporary files of its own, another disk where others have the shared folder
    `unseen`, and looks for packages in `packages` first.
    """
    for name in ("unseen", "temporary", "packages"):
        (folder / name).mkdir(parents=True)
    (folder / "hosts").write_text(f"127.0.0.1 localhost {ODD}\n")
    there = [
        f"hostname {ODD}",
        f"mount --bind {folder}/hosts /etc/hosts",
        f"mount -t tmpfs none {folder}/unseen",
        f"mount -t tmpfs -o size=8m none {folder}/temporary",
        'exec "$@"',
    ]
    within = ["unshare", "--mount", "--uts", "sh", "-ec", "; ".join(there), "sh"]
    path = os.pathsep.join([str(folder / "packages"), os.environ["PYTHONPATH"]])
    return within, {"TMPDIR": str(folder / "temporary"), "PYTHONPATH": path}


def as_seen_by(node: subprocess.Popen[bytes], path: Path) -> Path:
    """Return where a node's own disk is found from here."""
    return Path(f"/proc/{node.pid}/root") / path.relative_to("/")


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a node as a power cut would: all of its processes at once."""
    tree = psutil.Process(process.pid)
    for each in [*tree.children(recursive=True), tree]:
        each.kill()


class Heard(Listener):
    """Keeps what is said, and does something after so many shards."""

    def __init__(self, after: int = -1, do: Callable[[], None] = lambda: None) -> None:
        self.warned: list[str] = []
        self.shares: list[float] = []
        self.after, self.do = after, do

    def warn(self, text: str) -> None:
        self.warned.append(text)

    def progress(self, progress: Progress) -> None:
        self.shares.append(progress.share)
        if len(self.shares) == self.after:
            self.do()


def on_cluster(plan: Plan, out: Place, heard: Listener, **options: Any) -> Any:
    with connected(ADDRESS), Cluster(out, Pool(2, 0)) as cluster:
        return run(plan, out=out, engine=cluster, listener=heard, checkpoint_every=0.0, **options)
