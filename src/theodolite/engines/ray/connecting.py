"""Connecting: a cluster that answers, or one sentence within seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from theodolite.engines.ray.answering import check, leading, no_entry
from theodolite.errors import InputError

ALONE = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Set to 0, Ray stays on loopback, as it does on systems for which it has no clusters. Else it takes 127.0.0.1 to
mean this machine's outer address, and listens there."""


@contextmanager
def connected(address: str, *, cpus: int | None = None) -> Iterator[None]:
    """Be part of a cluster: "auto" is the one this machine is in, "local" one started here, of `cpus` cores."""
    check(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with _on_loopback() if address == "local" else nullcontext():
        ray = library()
        options: dict[str, Any] = {**ALONE, "num_cpus": cpus} if address == "local" else {}
        try:
            ray.init(
                address=address, log_to_driver=False, logging_level="ERROR", configure_logging=True, **options
            )
        except Exception as error:  # of many kinds, and some of Ray's own
            raise _refused(address, error) from error
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Let nothing that Ray starts meanwhile listen beyond this machine."""
    before = os.environ.get(ONE_MACHINE)
    os.environ[ONE_MACHINE] = "0"
    constants: Any = import_module("ray._private.ray_constants") if "ray" in sys.modules else None
    allowed = getattr(constants, "ENABLE_RAY_CLUSTER", None)  # read from there when Ray was loaded
    if allowed is not None:
        constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        if allowed is not None:
            constants.ENABLE_RAY_CLUSTER = allowed
        if before is None:
            os.environ.pop(ONE_MACHINE, None)
        else:
            os.environ[ONE_MACHINE] = before


def library() -> Any:
    """Return Ray, or say how to install it."""
    try:
        import ray
    except ImportError:
        raise InputError(
            "--engine ray needs Ray, on every machine: pip install 'theodolite[ray]'. --engine local does not."
        ) from None
    return ray


def _refused(address: str, error: Exception) -> InputError:
    said, why = " ".join(str(error).split()), str(error.__cause__ or "")
    if "Version mismatch" in said:
        return InputError(f"--address {address}: {said[:300]}")
    if "authent" in f"{said} {why}".lower():
        return no_entry(f"--address {address}", said)
    if address == "auto" and leading(address) is None:
        return InputError(
            "--address auto: no Ray cluster runs on this machine. `ray start --head` starts one, --address "
            "HOST:PORT names another, --address local starts one for this run alone."
        )
    if address == "local":
        return InputError(f"--address local: Ray could not start workers on this machine. ({said[:200]})")
    return InputError(
        f"--address {address}: Ray could not join the cluster; is this machine part of it "
        f"(`ray start --address={leading(address)}`)? ({said[:200]})"
    )
