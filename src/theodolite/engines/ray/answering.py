"""Answering: a cluster's head at an address, which lets this machine in, or one sentence within seconds.

Ray finds out after minutes and then does not tell what it was, so the head is asked here first. What is taken from
Ray for that is not documented by it: where another version has it not, nothing is learned and joining tells.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

from theodolite.errors import InputError, nearest

WORDS = ("auto", "local")
SLIP = 0.75  # how like one of them a slip of the finger is: "lcoal", "atuo", but not "localhost"
SECONDS = 5.0  # that a cluster has to answer
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # HTTP/2's, with no settings
SETTINGS = 4  # the kind of frame that HTTP/2, and so gRPC, answers it with


def leading(address: str) -> str | None:
    """Return HOST:PORT of the head, None for a cluster that is yet to be started or is not found."""
    if address == "local":
        return None
    if address != "auto":
        return address
    if named := os.environ.get("RAY_ADDRESS"):
        return named if named not in WORDS else None
    try:
        from ray._private.services import get_ray_address_from_environment

        found = get_ray_address_from_environment("auto", None)
    except Exception:  # there is none
        return None
    return str(found) if found else None


def check_form(address: str, shown: str | None = None) -> None:
    """Refuse what is neither a word for a cluster nor of the form of an address; nobody is asked there."""
    if address in WORDS:
        return
    shown = shown or f"--address {address}"
    if address.startswith("ray://"):
        raise InputError(
            f"{shown}: theodolite runs on a machine of the cluster, not beside it; start it there "
            "(`ray job submit -- theodolite survey ...` does) with --address auto."
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        meant = nearest(address.lower(), [*WORDS], likeness=SLIP)
        raise InputError(f"{shown}: wanted auto, local or HOST:PORT, such as 10.0.0.1:6379.{meant}")


def check(address: str) -> None:
    """Refuse an address that nobody answers at, that is no cluster's, or whose cluster wants another token."""
    where = leading(address)
    if where is None:
        return
    shown = f"--address {where}" if where == address else f"--address {address} ({where})"
    check_form(where, shown)
    host, _, port = where.rpartition(":")
    try:
        speaks = _speaks(host.strip("[]"), int(port))
    except (OSError, OverflowError) as error:
        raise InputError(
            f"{shown} does not answer ({getattr(error, 'strerror', None) or error}); is the cluster's "
            "head running there (`ray start --head`), and is this its port?"
        ) from None
    if not speaks:
        raise InputError(
            f"{shown} answers, but not as the head of a Ray cluster; give the port that `ray start --head` told, "
            "6379 unless it was given another."
        )
    if address == "auto":
        _take_token_at_home()
    refused = _refused_token(where)
    if refused is not None:
        raise no_entry(shown, refused)


def no_entry(shown: str, said: str) -> InputError:
    """Say that the cluster wants a token, and what is wrong with the one that is here."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        said = "none is used here"
    elif "InvalidAuthToken" in said:
        said = "the one here is another"
    return InputError(
        f"{shown}: the cluster wants its token ({said}); set RAY_AUTH_MODE=token here, and RAY_AUTH_TOKEN_PATH to "
        "a file with the token of its head (`ray get-auth-token` prints it there)."
    )


def _speaks(host: str, port: int) -> bool:
    """Say whether what answers there speaks as gRPC does; of one that wants TLS, that it answers is enough."""
    with socket.create_connection((host, port), timeout=SECONDS) as stream:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return True
        stream.sendall(GREETING)
        heard = stream.recv(4)
    return len(heard) == 4 and heard[3] == SETTINGS


def _take_token_at_home() -> None:
    """Use a token that lies in ~/.ray, as Ray does where it looks for the cluster itself."""
    with suppress(ImportError):
        from ray._private.authentication import authentication_token_setup

        authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def _refused_token(where: str) -> str | None:
    """Return what the head says of this machine's token, None if it lets it in."""
    try:
        raylet = import_module("ray._raylet")
        with _silence():
            raylet.InnerGcsClient.standalone(where, None, int(1000 * SECONDS))
    except Exception as error:
        if type(error).__name__ == "AuthenticationError":
            return " ".join(str(error).split())
    return None


@contextmanager
def _silence() -> Iterator[None]:
    """Keep from the terminal the log that Ray writes there past Python."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
