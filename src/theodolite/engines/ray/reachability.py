"""Check the address of a cluster: its head must answer there and accept the token of this machine.

Ray itself reports a wrong address only after minutes, and without the reason, so the head is contacted here first.
Some of the functions of Ray used for this are not documented. Where a version of Ray does not have them, the check
is skipped, and connecting reports the error.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

from theodolite.errors import InputError, nearest

KEYWORDS = ("auto", "local")
TYPO_SIMILARITY = 0.75  # how similar to a keyword a typing error is: "lcoal", "atuo", but not "localhost"
TIMEOUT = 5.0  # seconds in which a cluster must answer
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # with empty settings
SETTINGS_FRAME = 4  # the type of the frame with which HTTP/2, and therefore gRPC, answers the preface


def head_address(address: str) -> str | None:
    """Return HOST:PORT of the cluster's head; None for a cluster that is not started yet or not found."""
    if address == "local":
        return None
    if address != "auto":
        return address
    if named := os.environ.get("RAY_ADDRESS"):
        return named if named not in KEYWORDS else None
    try:
        from ray._private.services import get_ray_address_from_environment

        found = get_ray_address_from_environment("auto", None)
    except Exception:  # there is none
        return None
    return str(found) if found else None


def check_address_format(address: str, label: str | None = None) -> None:
    """Raise for an address that is neither a keyword nor HOST:PORT. Nothing is contacted."""
    if address in KEYWORDS:
        return
    label = label or f"--address {address}"
    if address.startswith("ray://"):
        raise InputError(
            f"{label}: theodolite must run on a machine of the cluster, not as a remote client. Start it there "
            "with --address auto, for example with `ray job submit -- theodolite survey ...`."
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        hint = nearest(address.lower(), [*KEYWORDS], similarity=TYPO_SIMILARITY)
        raise InputError(f"{label}: expected auto, local or HOST:PORT, for example 10.0.0.1:6379.{hint}")


def check_reachable(address: str) -> None:
    """Raise unless the head of a Ray cluster answers at the address and accepts this machine's token."""
    head = head_address(address)
    if head is None:
        return
    label = f"--address {head}" if head == address else f"--address {address} ({head})"
    check_address_format(head, label)
    host, _, port = head.rpartition(":")
    try:
        is_grpc = _answers_as_grpc(host.strip("[]"), int(port))
    except (OSError, OverflowError) as error:
        raise InputError(
            f"{label} does not answer ({getattr(error, 'strerror', None) or error}). Is the head of the cluster "
            "running there (`ray start --head`), and is this its port?"
        ) from None
    if not is_grpc:
        raise InputError(
            f"{label} answers, but not as the head of a Ray cluster. Give the port that `ray start --head` "
            "printed (6379 by default)."
        )
    if address == "auto":
        _use_stored_token()
    rejection = _token_rejection(head)
    if rejection is not None:
        raise token_error(label, rejection)


def token_error(label: str, message: str) -> InputError:
    """Return the error for a cluster that rejects this machine's token; `message` is what Ray reported."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        message = "this machine uses none"
    elif "InvalidAuthToken" in message:
        message = "this machine uses a different one"
    return InputError(
        f"{label}: the cluster requires its token ({message}). Set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH "
        "to a file with the token of the cluster's head (`ray get-auth-token` prints it there)."
    )


def _answers_as_grpc(host: str, port: int) -> bool:
    """Return whether the server at this port answers as gRPC does; with TLS any connection is accepted."""
    with socket.create_connection((host, port), timeout=TIMEOUT) as stream:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return True
        stream.sendall(HTTP2_PREFACE)
        header = stream.recv(4)
    return len(header) == 4 and header[3] == SETTINGS_FRAME


def _use_stored_token() -> None:
    """Use the token in ~/.ray, as Ray does when it searches for the cluster itself."""
    with suppress(ImportError):
        from ray._private.authentication import authentication_token_setup

        authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def _token_rejection(head: str) -> str | None:
    """Return the reason for which the head rejects this machine's token; None if it accepts it."""
    try:
        raylet = import_module("ray._raylet")
        with _silence_stderr():
            raylet.InnerGcsClient.standalone(head, None, int(1000 * TIMEOUT))
    except Exception as error:
        if type(error).__name__ == "AuthenticationError":
            return " ".join(str(error).split())
    return None


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Suppress the log that Ray writes to the terminal from C++."""
    sys.stderr.flush()
    saved, devnull = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(devnull)
