"""The same survey from a real cluster: a head and two nodes on this host, in their own network."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.engines.ray.comparison import assert_same_numbers
from tests.engines.ray.nodes import ODD

from theodolite.surveys.folder import open_survey

NAMESPACE = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
LIMIT = 3600.0  # seconds; about 130 on two idle cores, and many times that on a busy machine
REPOSITORY = Path(__file__).parents[3]
PYTHONPATH = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])  # whichever checkout is installed
PATIENCE = {  # seconds and milliseconds that Ray waits for processes of its own before it considers them dead
    "RAY_raylet_start_wait_time_s": "600",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_health_check_timeout_ms": "60000",
}

pytestmark = pytest.mark.slow


def why_not() -> str | None:
    """Return the reason for which no cluster can be started on this machine."""
    try:
        import ray  # noqa: F401
    except ImportError:
        return "Ray is not installed: pip install 'theodolite[ray]'"
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "unshare or ip is missing, and a cluster must not listen beyond loopback"
    tried = subprocess.run([*NAMESPACE, "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    return f"no network namespace allowed here: {tried.stderr.strip()}" if tried.returncode else None


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("cluster")
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:  # sockets require a short path
        token = Path(folder) / "token"  # instead of the one in the home folder
        token.write_text(secrets.token_hex(32))
        environment = os.environ | {
            "RAY_FOLDER": folder,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "PYTHONPATH": PYTHONPATH,
            "OMP_NUM_THREADS": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            **PATIENCE,
        }
        environment.pop("RAY_ADDRESS", None)
        inside = f"ip link set lo up && exec {sys.executable} -m tests.engines.ray.cluster_program {root}"
        log = (root / "log").open("wb")
        subprocess.run(
            [*NAMESPACE, "sh", "-c", inside],
            env=environment,
            cwd=REPOSITORY,
            timeout=LIMIT,
            stdout=log,
            stderr=log,
        )
    assert (root / "results.json").is_file(), (root / "log").read_text(errors="replace")[-2000:]
    return root, json.loads((root / "results.json").read_text())


@pytest.mark.parametrize("way", ["loopback", "open"])
def test_a_local_cluster_listens_on_loopback_only(way: str) -> None:
    """The namespace also has a public address, on which Ray listens if it is only given 127.0.0.1."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    outside = "192.0.2.2"  # reserved for examples
    setup = f"ip link set lo up && ip addr add {outside}/32 dev lo && ip route add default dev lo src {outside}"
    inside = f"{setup} && exec {sys.executable} -m tests.engines.ray.loopback_program {way}"
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        environment = os.environ | {
            "PYTHONPATH": PYTHONPATH,
            "RAY_TMPDIR": folder,
            "HOME": folder,
            **PATIENCE,
        }
        environment.pop("RAY_ADDRESS", None)
        done = subprocess.run(
            [*NAMESPACE, "sh", "-c", inside],
            env=environment,
            cwd=REPOSITORY,
            timeout=LIMIT,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    listens = set(json.loads(done.stdout.splitlines()[-1]))
    assert listens
    assert (listens <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}) == (way == "loopback"), listens


def test_equal_to_local_and_a_slow_shard_delays_no_other(scenes: tuple[Path, dict[str, Any]]) -> None:
    root, results = scenes
    found = results["straggler"]
    assert "error" not in found, found
    assert_same_numbers(open_survey(root / "straggler"), open_survey(root / "straggler-local"))
    # The slow shard, which is the first, ends last: the other worker has folded all others by then.
    assert len(found["shares"]) == found["shards"]
    assert found["shares"][-2] == pytest.approx(1 - found["first"])


def test_a_killed_node_and_a_failing_document(scenes: tuple[Path, dict[str, Any]]) -> None:
    root, results = scenes
    found = results["killed"]
    assert "error" not in found, found
    made = open_survey(root / "killed")
    assert_same_numbers(made, open_survey(root / "killed-local"))
    assert made.facts["engine"]["workers_lost"] >= 1
    assert any("a worker was lost" in line for line in found["warned"])
    (skipped,) = made.facts["corpus"]["left_out"]["documents"]
    assert skipped["document"] == 50
    assert skipped["reason"] == "ValueError: cannot read document 50"
    assert "document 50 ('" in found["warned"][-1]


def test_a_killed_driver_is_resumed(scenes: tuple[Path, dict[str, Any]]) -> None:
    root, results = scenes
    found = results["driver"]
    assert "error" not in found, found
    assert (found["finished"], found["unfinished"], found["code"]) == (False, True, 0), found["output"]
    assert_same_numbers(open_survey(root / "driver"), open_survey(root / "driver-local"))
    assert not (root / "driver" / "workers").exists()
    assert (root / "driver" / "report.html").is_file()


def test_in_a_bucket(scenes: tuple[Path, dict[str, Any]]) -> None:
    root, results = scenes
    assert "error" not in results["bucket"], results["bucket"]
    made = open_survey(root / "bucket")
    assert made.facts["engine"]["workers"] == 2
    assert_same_numbers(made, open_survey(root / "bucket-local"))
    names = {path.name for path in (root / "bucket").iterdir()}
    assert names == {path.name for path in (root / "bucket-local").iterdir()}  # nothing of the workers


def test_requests_that_exceed_the_cluster(scenes: tuple[Path, dict[str, Any]]) -> None:
    root, results = scenes
    assert "none of the machines of the cluster (3) offers a GPU" in results["rejected"]["gpus"]
    assert "workers 9: the cluster can run 2, with a core each" in results["rejected"]["workers"]
    assert not (root / "gpus").exists()


def one_line(ended: dict[str, Any]) -> str:
    """Return the error message of a command, which must be its only output."""
    assert (ended["code"], ended["out"], len(ended["error"])) == (2, "", 1), ended
    return str(ended["error"][0])


@pytest.mark.parametrize(
    ("name", "why"), [("other", "this machine uses a different one"), ("none", "this machine uses none")]
)
def test_a_token_that_is_not_the_clusters(scenes: tuple[Path, dict[str, Any]], name: str, why: str) -> None:
    """Ray itself takes 20 seconds and as many lines, and reports that it failed to connect."""
    found = scenes[1]["commands"]
    assert "error" not in found, found
    assert f"the cluster requires its token ({why}). Set RAY_AUTH_MODE=token" in one_line(found[name])


def test_a_folder_that_one_machine_does_not_see(scenes: tuple[Path, dict[str, Any]]) -> None:
    root, results = scenes
    found = results["commands"]
    assert "error" not in found, found
    message = one_line(found["unseen"])
    assert (
        f"--out: {ODD} does not see what this machine writes to {root}/odd/unseen, so the folder is a different"
        in message
    )
    assert found["on this machine"] == ["few.txt"]
    assert found["on the odd one"] == []  # on its own disk


def test_other_versions_on_one_machine(scenes: tuple[Path, dict[str, Any]]) -> None:
    found = scenes[1]["versions"]
    words = (
        f"{ODD} has other versions than this machine (numpy 1.2.3 instead of {found['mine']}). Install the same"
    )
    assert words in found["message"]
    assert not found["exists"]


def test_pictures(scenes: tuple[Path, dict[str, Any]]) -> None:
    root, results = scenes
    assert "error" not in results["pictures"], results["pictures"]
    assert len(results["pictures"]["shares"]) == 5  # shards
    assert_same_numbers(open_survey(root / "pictures-survey"), open_survey(root / "pictures-local"))


def test_a_full_disk_on_one_machine(scenes: tuple[Path, dict[str, Any]]) -> None:
    root, results = scenes
    found = results["full machine"]
    assert "error" not in found, found
    first, *_, last = found["warned"]
    assert first.startswith(f"{ODD}: The disk is full: {root}/odd/temporary/")
    assert first.endswith("could not be written. The sums stay in memory; saving will be tried again.")
    assert f"a worker was lost ({ODD}: The disk is full" in last
    assert "that it had not saved will be repeated" in last
    assert_same_numbers(open_survey(root / "full-machine"), open_survey(root / "bucket-local"))


def test_a_full_shared_disk_and_then_free_space(scenes: tuple[Path, dict[str, Any]]) -> None:
    root, results = scenes
    found = results["full folder"]
    assert "error" not in found, found
    assert not found["finished"]
    assert found["message"].startswith("No worker is left: each died")
    assert "The disk is full" in found["message"]
    assert found["message"].count("resume=True") == 1
    assert 0 < found["folded"] < found["shards"]  # what was saved is not folded again
    assert_same_numbers(open_survey(root / "full-folder"), open_survey(root / "bucket-local"))


def test_a_machine_with_little_memory(scenes: tuple[Path, dict[str, Any]]) -> None:
    """Fewer units have a vector, on all machines, without any option of the user."""
    root, results = scenes
    found = results["small memory"]
    assert "error" not in found, found
    made, local = open_survey(root / "small-memory"), open_survey(root / "small-memory-local")
    assert made.facts["settings"]["min_count"] == local.facts["settings"]["min_count"] == found["min_count"] > 1
    assert made.tokens["m"].isna().any()
    assert found["warned"][0].startswith(
        f"--min-count {found['min_count']}, chosen to fit in the memory of each worker on {ODD}: "
    )
    assert made.facts["memory"]["bytes"] <= found["share"] < found["need"]
    assert_same_numbers(made, local)


def test_a_resumed_run_keeps_its_units(scenes: tuple[Path, dict[str, Any]]) -> None:
    """The run was started while a machine had little memory; when it is resumed, all have enough."""
    root, results = scenes
    found = results["small memory"]
    assert "error" not in found, found
    assert not found["finished"]
    assert 0 < found["folded"] < found["shards"]
    made = open_survey(root / "small-memory-resumed")
    assert made.facts["settings"]["min_count"] == found["min_count"]
    assert_same_numbers(made, open_survey(root / "small-memory-local"))
