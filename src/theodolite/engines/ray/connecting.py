"""Connecting: a cluster that answers, or one sentence within seconds."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from theodolite.errors import InputError

SECONDS = 5.0  # that a cluster has to answer
ALONE = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}  # nothing listens beyond this machine


@contextmanager
def connected(address: str, *, cpus: int | None = None) -> Iterator[None]:
    """Be part of a cluster: "auto" is the one this machine is in, "local" one started here, of `cpus` cores."""
    check(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = library()
    options: dict[str, Any] = {**ALONE, "num_cpus": cpus} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=True, **options)
    except Exception as error:  # of many kinds, and some of Ray's own
        raise _refused(address, error) from error
    try:
        yield
    finally:
        ray.shutdown()


def library() -> Any:
    """Return Ray, or say how to install it."""
    try:
        import ray
    except ImportError:
        raise InputError(
            "--engine ray needs Ray, on every machine: pip install 'theodolite[ray]'. --engine local does not."
        ) from None
    return ray


def check(address: str) -> None:
    """Refuse an address that nobody answers at, which Ray itself would find out after minutes."""
    where = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    if where in ("auto", "local"):
        return
    if where.startswith("ray://"):
        raise InputError(
            f"--address {where}: theodolite runs on a machine of the cluster, not beside it; start it there "
            "(`ray job submit -- theodolite survey ...` does) with --address auto."
        )
    host, _, port = where.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"--address {where!r}: wanted auto, local or HOST:PORT, such as 10.0.0.1:6379.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--address {where} does not answer ({getattr(error, 'strerror', None) or error}); is the cluster's "
            "head running there (`ray start --head`), and is this its port?"
        ) from None


def _refused(address: str, error: Exception) -> InputError:
    said = " ".join(str(error).split())
    if "Version mismatch" in said:
        return InputError(f"--address {address}: {said[:300]}")
    if "authent" in said.lower():
        return InputError(
            f"--address {address}: the cluster wants its token; set RAY_AUTH_MODE=token here, and the token as on "
            "the head (`ray get-auth-token` prints it there)."
        )
    if address == "auto":
        return InputError(
            "--address auto: no Ray cluster runs on this machine. `ray start --head` starts one, --address "
            "HOST:PORT names another, --address local starts one for this run alone."
        )
    return InputError(
        f"--address {address}: Ray could not join the cluster; is this machine part of it "
        f"(`ray start --address={address}`)? ({said[:200]})"
    )
