"""Start a head and nodes as users do, one of them on a different machine, and survey on them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from tests.engines.ray.failing_sources import wait_until

from theodolite.engines.engine import Plan
from theodolite.engines.progress import Listener, Progress
from theodolite.engines.ray.connection import connect
from theodolite.engines.ray.engine import RayEngine
from theodolite.engines.ray.pool import RayPool
from theodolite.errors import TheodoliteError
from theodolite.storage.location import Location
from theodolite.surveys.run import run

PORT = 6399
ADDRESS = f"127.0.0.1:{PORT}"
ODD = "odd-machine"


def ray_start(
    *options: str, within: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a node as users do, as a child of this program."""
    command = [*within, sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
    command += ["--object-store-memory=80000000", *options]
    return subprocess.Popen(command, env={**os.environ, **(environment or {})})


def start_head(folder: Path) -> None:
    """Start a head without cores, so that every worker is on a node that can be killed."""
    place = ["--node-ip-address=127.0.0.1", f"--port={PORT}", f"--temp-dir={folder}"]
    head = ray_start("--head", *place, "--num-cpus=0", "--include-dashboard=false")

    def is_running() -> bool:
        if head.poll() is not None:
            raise RuntimeError(f"the head has ended with {head.returncode}")
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=60).close()
            with connect(ADDRESS):
                return True
        except (OSError, TheodoliteError):
            return False

    wait_until(is_running)


def start_node(
    within: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a node with one core, and wait until it has joined: two at once would compete for a socket."""
    import ray

    with connect(ADDRESS):
        before = sum(node["Alive"] for node in ray.nodes())
        place = [f"--address={ADDRESS}", "--num-cpus=1", "--node-ip-address=127.0.0.1"]
        process = ray_start(*place, within=within, environment=environment)
        wait_until(lambda: sum(node["Alive"] for node in ray.nodes()) > before)
    return process


def odd_machine(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command prefix and the environment of a machine that differs from the others.

    It has its own host name and disk for temporary files, another disk in place of the shared folder `unseen`, and
    imports packages from `packages` first.
    """
    for name in ("unseen", "temporary", "packages"):
        (folder / name).mkdir(parents=True)
    (folder / "hosts").write_text(f"127.0.0.1 localhost {ODD}\n")
    joined = [
        f"hostname {ODD}",
        f"mount --bind {folder}/hosts /etc/hosts",
        f"mount -t tmpfs none {folder}/unseen",
        f"mount -t tmpfs -o size=8m none {folder}/temporary",
        'exec "$@"',
    ]
    within = ["unshare", "--mount", "--uts", "sh", "-ec", "; ".join(joined), "sh"]
    path = os.pathsep.join([str(folder / "packages"), os.environ["PYTHONPATH"]])
    return within, {"TMPDIR": str(folder / "temporary"), "PYTHONPATH": path}


def as_seen_by(node: subprocess.Popen[bytes], path: Path) -> Path:
    """Return the path under which this process sees a file of the node's own disk."""
    return Path(f"/proc/{node.pid}/root") / path.relative_to("/")


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a node at once, as a power failure would."""
    tree = psutil.Process(process.pid)
    for each in [*tree.children(recursive=True), tree]:
        each.kill()


class RecordingListener(Listener):
    """Keeps warnings and progress, and calls `do` after a number of shards."""

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


def survey_on_cluster(plan: Plan, out: Location, listener: Listener, **options: Any) -> Any:
    with connect(ADDRESS), RayEngine(out, RayPool(2, 0)) as engine:
        return run(plan, out=out, engine=engine, listener=listener, checkpoint_every=0.0, **options)
