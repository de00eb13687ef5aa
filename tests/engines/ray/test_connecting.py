"""An address that does not answer is one sentence, within seconds."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from theodolite.bench import scaling
from theodolite.engines.ray import answering, connecting
from theodolite.errors import InputError
from theodolite.surveys.models import survey


def test_nobody_there() -> None:
    with socket.socket() as taken:  # bound but not listening: nobody else can answer at this port
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(InputError, match=rf"--address {address} does not answer \(Connection refused\)"):
            answering.check(address)
        assert time.monotonic() - began < answering.SECONDS + 1


@pytest.mark.parametrize("answer", [b"HTTP/1.1 505 \r\n", b"", b"\0\0"])
def test_a_port_that_is_another_programs(answer: bytes) -> None:
    """Such as the dashboard's: Ray would try for a quarter of an hour."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            stream, _ = server.accept()
            with stream:
                stream.recv(1024)
                stream.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(InputError, match=r"answers, but not as the head of a Ray cluster; give the port"):
            answering.check(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_a_port_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "SECONDS", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(InputError, match=r"does not answer \(timed out\)"),
    ):
        answering.check(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("address", ["somewhere", "host:", ":6379", "host:port", "127.0.0.1:99999"])
def test_no_address(address: str) -> None:
    with pytest.raises(InputError, match="--address"):
        answering.check(address)


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
def test_a_slip_of_the_finger(address: str, meant: str) -> None:
    with pytest.raises(InputError) as error:
        answering.check_form(address)
    assert str(error.value) == (
        f"--address {address}: wanted auto, local or HOST:PORT, such as 10.0.0.1:6379. Did you mean '{meant}'?"
    )


@pytest.mark.parametrize("address", ["localhost", "lab", "head", "autumn", "node-7.local", "10.0.0.1", ""])
def test_a_host_without_a_port_is_no_slip(address: str) -> None:
    with pytest.raises(InputError, match=r"wanted auto, local or HOST:PORT, such as 10\.0\.0\.1:6379\.$"):
        answering.check_form(address)


@pytest.mark.parametrize(
    "address",
    ["auto", "local", "10.0.0.1:6379", "[::1]:6379", "localhost:6379", "lcoal:6379", "node-7.local:6379"],
)
def test_an_address_of_the_right_form_is_not_doubted(address: str) -> None:
    answering.check_form(address)


def test_a_slip_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "lcoal")
    with pytest.raises(InputError, match=r"--address auto \(lcoal\): wanted .* Did you mean 'local'\?"):
        answering.check("auto")


def test_a_client_beside_the_cluster_is_sent_into_it() -> None:
    with pytest.raises(InputError, match="runs on a machine of the cluster, not beside it"):
        answering.check("ray://10.0.0.1:10001")


def test_where_auto_leads_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(InputError, match=r"--address auto \(127.0.0.1:1\) does not answer"):
        answering.check("auto")


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'theodolite\[ray\]'"):
        connecting.library()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"engine": "spark"}, "--engine 'spark' is not one of local, ray"),
        ({"workers": 2}, "are for --engine ray; local is one process"),
        ({"gpus_per_worker": 1}, "are for --engine ray; local is one process"),
        ({"address": "local"}, "--address are for --engine ray; local is one process"),
        ({"engine": "ray", "workers": 0}, "--workers 0: wanted at least 1"),
        ({"engine": "ray", "workers": -1}, "--workers -1: wanted at least 1"),
        ({"engine": "ray", "gpus_per_worker": -1}, "--gpus-per-worker -1: wanted 0 or 1; a model is on one GPU"),
        ({"engine": "ray"}, "--engine ray needs --out"),
        ({"engine": "ray", "out": "somewhere", "device": "cuda"}, "--device cuda: with --engine ray"),
        ({"engine": "ray", "out": "somewhere", "address": "127.0.0.1:1"}, "127.0.0.1:1 does not answer"),
        ({"engine": "ray", "out": "somewhere", "address": "lcoal"}, r"--address lcoal: .* Did you mean 'local'\?"),
        (
            {"engine": "ray", "out": "somewhere", "address": "ray://10.0.0.1:10001"},
            "not beside it; start it there",
        ),
    ],
)
def test_what_is_refused_early(small_model: Any, tmp_path: Path, given: dict[str, Any], words: str) -> None:
    if "out" in given:
        given = given | {"out": tmp_path / given["out"]}
    with pytest.raises(InputError, match=words):
        survey(small_model("bert"), ["One."], **given)
    assert not list(tmp_path.iterdir())


def test_gpus_that_this_machine_has_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Ray is started here, which takes ten seconds."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    wanted: dict[str, Any] = {"engine": "ray", "address": "local", "gpus_per_worker": 1}
    with pytest.raises(InputError, match=r"--gpus-per-worker 1: --address local .* torch finds no GPU; survey"):
        survey("no/such-model", ["One."], out=tmp_path / "out", **wanted)


def test_the_cluster_is_asked_before_a_model_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"127.0.0.1:1 does not answer"):
        survey("no/such-model", ["One."], engine="ray", out=tmp_path / "out", address="127.0.0.1:1")


@pytest.mark.parametrize(
    ("mode", "said", "words"),
    [
        ("", "RPC error: InvalidAuthToken: Authentication token is missing or incorrect", "none is used here"),
        ("token", "RPC error: InvalidAuthToken: Authentication token", "the one here is another"),
        ("token", "no authentication token was found", "no authentication token was found"),
    ],
)
def test_a_token_that_does_not_let_in(monkeypatch: pytest.MonkeyPatch, mode: str, said: str, words: str) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    told = str(answering.no_entry("--address auto", said))
    assert told.startswith(f"--address auto: the cluster wants its token ({words}); set RAY_AUTH_MODE=token here")


def test_loopback_is_asked_for_in_this_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connecting.ONE_MACHINE, "1")
    with connecting._on_loopback():
        assert os.environ[connecting.ONE_MACHINE] == "0"
    assert os.environ[connecting.ONE_MACHINE] == "1"
    monkeypatch.delenv(connecting.ONE_MACHINE)
    with connecting._on_loopback():
        assert os.environ[connecting.ONE_MACHINE] == "0"
    assert connecting.ONE_MACHINE not in os.environ


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"limit": 0}, "--limit 0"),
        ({"shard_chars": 0}, "--shard-chars 0"),
        ({"workers": [1, 5000]}, "--workers 5000.*core of its own"),
    ],
)
def test_what_scaling_cannot_measure(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        scaling.run("no-such-model", "no-such-corpus", **({"limit": 4} | given))
