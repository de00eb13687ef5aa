"""Connect to a Ray cluster, or start one on this machine; errors are short and arrive within seconds."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from theodolite.engines.ray.reachability import check_reachable, head_address, token_error
from theodolite.errors import InputError

LOCAL_OPTIONS = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
CLUSTER_SWITCH = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""With 0, Ray binds to the loopback interface only, as it does on systems on which it supports no clusters.
Otherwise it replaces 127.0.0.1 by this machine's public address and listens there."""


@contextmanager
def connect(address: str, *, cpus: int | None = None) -> Iterator[None]:
    """Join a cluster: "auto" is the one this machine belongs to, "local" starts one here with `cpus` cores."""
    check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with _bind_to_loopback() if address == "local" else nullcontext():
        ray = import_ray()
        options: dict[str, Any] = {**LOCAL_OPTIONS, "num_cpus": cpus} if address == "local" else {}
        try:
            with _keep_signal_handler():
                ray.init(
                    address=address, log_to_driver=False, logging_level="ERROR", configure_logging=True, **options
                )
        except Exception as error:  # of many types, some of them Ray's own
            raise _connection_error(address, error) from error
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def _keep_signal_handler() -> Iterator[None]:
    """Keep the program's handler of SIGTERM, which Ray replaces by one that exits without saving."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _bind_to_loopback() -> Iterator[None]:
    """Make everything that Ray starts in this context listen on the loopback interface only."""
    before = os.environ.get(CLUSTER_SWITCH)
    os.environ[CLUSTER_SWITCH] = "0"
    constants: Any = import_module("ray._private.ray_constants") if "ray" in sys.modules else None
    enabled = getattr(constants, "ENABLE_RAY_CLUSTER", None)  # Ray reads the variable once, when it is imported
    if enabled is not None:
        constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        if enabled is not None:
            constants.ENABLE_RAY_CLUSTER = enabled
        if before is None:
            os.environ.pop(CLUSTER_SWITCH, None)
        else:
            os.environ[CLUSTER_SWITCH] = before


def import_ray() -> Any:
    """Return the module ray, or raise with the command that installs it."""
    try:
        import ray
    except ImportError:
        raise InputError(
            "--engine ray requires Ray on every machine: pip install 'theodolite[ray]'. --engine local does not."
        ) from None
    return ray


def _connection_error(address: str, error: Exception) -> InputError:
    message, cause = " ".join(str(error).split()), str(error.__cause__ or "")
    if "Version mismatch" in message:
        return InputError(f"--address {address}: {message[:300]}")
    if "authent" in f"{message} {cause}".lower():
        return token_error(f"--address {address}", message)
    if address == "auto" and head_address(address) is None:
        return InputError(
            "--address auto: no Ray cluster runs on this machine. Start one with `ray start --head`, give the "
            "address of another (--address HOST:PORT), or start one for this run only (--address local)."
        )
    if address == "local":
        return InputError(f"--address local: Ray could not start workers on this machine. ({message[:200]})")
    return InputError(
        f"--address {address}: Ray could not join the cluster. Is this machine part of it "
        f"(`ray start --address={head_address(address)}`)? ({message[:200]})"
    )
