"""The address of a cluster: what does not answer is reported in one line, without waiting for Ray."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from theodolite.bench import scaling
from theodolite.engines.ray import connection, reachability
from theodolite.errors import InputError
from theodolite.surveys.api import survey


def test_nothing_listens_at_the_port() -> None:
    with socket.socket() as taken:  # bound but not listening: no other program can answer at this port
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"--address {address} does not answer \(Connection refused\)"):
            reachability.check_reachable(address)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 505 \r\n", b"", b"\0\0"])
def test_a_port_of_another_program(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the dashboard's: Ray would try for a quarter of an hour."""
    monkeypatch.setattr(reachability, "TIMEOUT", 600.0)  # the machine may be busy
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            stream, _ = server.accept()
            with stream:
                stream.recv(1024)
                stream.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(InputError, match=r"answers, but not as the head of a Ray cluster. Give the port"):
            reachability.check_reachable(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_a_port_that_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "TIMEOUT", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(InputError, match=r"does not answer \(timed out\)"),
    ):
        reachability.check_reachable(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("address", ["somewhere", "host:", ":6379", "host:port", "127.0.0.1:99999"])
def test_malformed_addresses(address: str) -> None:
    with pytest.raises(InputError, match="--address"):
        reachability.check_reachable(address)


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("lcoal", "local"),
        ("loacl", "local"),
        ("locl", "local"),
        ("lokal", "local"),
        ("Local", "local"),
        ("AUTO", "auto"),
        ("atuo", "auto"),
        ("uato", "auto"),
        ("autp", "auto"),
        ("aut", "auto"),
    ],
)
def test_a_typing_error(address: str, meant: str) -> None:
    with pytest.raises(InputError) as error:
        reachability.check_address_format(address)
    assert str(error.value) == (
        f"--address {address}: expected auto, local or HOST:PORT, for example 10.0.0.1:6379. "
        f"Did you mean '{meant}'?"
    )


@pytest.mark.parametrize("address", ["localhost", "lab", "head", "autumn", "node-7.local", "10.0.0.1", ""])
def test_a_host_without_a_port_is_not_a_typing_error(address: str) -> None:
    with pytest.raises(InputError, match=r"expected auto, local or HOST:PORT, for example 10\.0\.0\.1:6379\.$"):
        reachability.check_address_format(address)


@pytest.mark.parametrize(
    "address",
    ["auto", "local", "10.0.0.1:6379", "[::1]:6379", "localhost:6379", "lcoal:6379", "node-7.local:6379"],
)
def test_a_well_formed_address_is_accepted(address: str) -> None:
    reachability.check_address_format(address)


def test_a_typing_error_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "lcoal")
    with pytest.raises(InputError, match=r"--address auto \(lcoal\): expected .* Did you mean 'local'\?"):
        reachability.check_reachable("auto")


def test_a_remote_client_is_rejected() -> None:
    with pytest.raises(InputError, match="must run on a machine of the cluster, not as a remote client"):
        reachability.check_reachable("ray://10.0.0.1:10001")


def test_the_address_behind_auto_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(InputError, match=r"--address auto \(127.0.0.1:1\) does not answer"):
        reachability.check_reachable("auto")


def test_without_ray_the_error_gives_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'theodolite\[ray\]'"):
        connection.import_ray()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"engine": "spark"}, "--engine 'spark' is not one of local, ray"),
        ({"workers": 2}, "--workers, --gpus-per-worker and --address require --engine ray"),
        ({"gpus_per_worker": 1}, "--workers, --gpus-per-worker and --address require --engine ray"),
        ({"address": "local"}, "--workers, --gpus-per-worker and --address require --engine ray"),
        ({"engine": "ray", "workers": 0}, r"--workers must be at least 1 \(got 0\)"),
        ({"engine": "ray", "workers": -1}, r"--workers must be at least 1 \(got -1\)"),
        ({"engine": "ray", "gpus_per_worker": -1}, r"--gpus-per-worker must be 0 or 1, .* \(got -1\)"),
        ({"engine": "ray"}, "--engine ray requires --out"),
        (
            {"engine": "ray", "out": "somewhere", "device": "cuda"},
            "--device cuda cannot be used with --engine ray",
        ),
        ({"engine": "ray", "out": "somewhere", "address": "127.0.0.1:1"}, "127.0.0.1:1 does not answer"),
        ({"engine": "ray", "out": "somewhere", "address": "lcoal"}, r"--address lcoal: .* Did you mean 'local'\?"),
        (
            {"engine": "ray", "out": "somewhere", "address": "ray://10.0.0.1:10001"},
            "not as a remote client. Start it there",
        ),
    ],
)
def test_options_that_are_rejected_early(
    small_model: Any, tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    if "out" in given:
        given = given | {"out": tmp_path / given["out"]}
    with pytest.raises(InputError, match=words):
        survey(small_model("bert"), ["One."], **given)
    assert not list(tmp_path.iterdir())


def test_gpus_that_this_machine_does_not_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Ray is started here, which takes ten seconds."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options: dict[str, Any] = {"engine": "ray", "address": "local", "gpus_per_worker": 1}
    with pytest.raises(
        InputError, match=r"--gpus-per-worker 1: --address local .* torch finds no GPU\. Use --gpus-per-worker 0"
    ):
        survey("no/such-model", ["One."], out=tmp_path / "out", **options)


def test_the_cluster_is_contacted_before_a_model_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"127.0.0.1:1 does not answer"):
        survey("no/such-model", ["One."], engine="ray", out=tmp_path / "out", address="127.0.0.1:1")


@pytest.mark.parametrize(
    ("mode", "reply", "words"),
    [
        (
            "",
            "RPC error: InvalidAuthToken: Authentication token is missing or incorrect",
            "this machine uses none",
        ),
        ("token", "RPC error: InvalidAuthToken: Authentication token", "this machine uses a different one"),
        ("token", "no authentication token was found", "no authentication token was found"),
    ],
)
def test_a_token_that_is_rejected(monkeypatch: pytest.MonkeyPatch, mode: str, reply: str, words: str) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    message = str(reachability.token_error("--address auto", reply))
    assert message.startswith(
        f"--address auto: the cluster requires its token ({words}). Set RAY_AUTH_MODE=token,"
    )


def test_ray_does_not_replace_the_handler_of_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    # ray.init sets one that exits, and the run could not save.
    exiting = Mock(init=lambda **options: signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1)))
    monkeypatch.setattr(connection, "import_ray", lambda: exiting)
    before = signal.getsignal(signal.SIGTERM)
    with connection.connect("local", cpus=1):
        assert signal.getsignal(signal.SIGTERM) is before
    exiting.shutdown.assert_called_once()


def test_the_loopback_setting_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connection.CLUSTER_SWITCH, "1")
    with connection._bind_to_loopback():
        assert os.environ[connection.CLUSTER_SWITCH] == "0"
    assert os.environ[connection.CLUSTER_SWITCH] == "1"
    monkeypatch.delenv(connection.CLUSTER_SWITCH)
    with connection._bind_to_loopback():
        assert os.environ[connection.CLUSTER_SWITCH] == "0"
    assert connection.CLUSTER_SWITCH not in os.environ


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"limit": 0}, r"--limit must be at least 1 \(got 0\)"),
        ({"shard_chars": 0}, r"--shard-chars must be at least 1 \(got 0\)"),
        ({"workers": [1, 5000]}, "--workers 5000.*needs its own core"),
    ],
)
def test_options_that_scaling_rejects(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        scaling.run("no-such-model", "no-such-corpus", **({"limit": 4} | given))
