"""An address that does not answer is one sentence, within seconds."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from theodolite.engines.ray import connecting
from theodolite.errors import InputError
from theodolite.surveys.models import survey


def test_nobody_there() -> None:
    with socket.socket() as taken:  # bound but not listening: nobody else can answer at this port
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(InputError, match=rf"--address {address} does not answer \(Connection refused\)"):
            connecting.check(address)
        assert time.monotonic() - began < connecting.SECONDS + 1


@pytest.mark.parametrize("address", ["somewhere", "host:", ":6379", "host:port", "127.0.0.1:99999"])
def test_no_address(address: str) -> None:
    with pytest.raises(InputError, match="--address"):
        connecting.check(address)


def test_a_client_beside_the_cluster_is_sent_into_it() -> None:
    with pytest.raises(InputError, match="runs on a machine of the cluster, not beside it"):
        connecting.check("ray://10.0.0.1:10001")


def test_where_auto_leads_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(InputError, match=r"127.0.0.1:1 does not answer"):
        connecting.check("auto")


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
        ({"engine": "ray"}, "--engine ray needs --out"),
        ({"engine": "ray", "out": "somewhere", "device": "cuda"}, "--device cuda: with --engine ray"),
        ({"engine": "ray", "out": "somewhere", "address": "127.0.0.1:1"}, "127.0.0.1:1 does not answer"),
    ],
)
def test_what_is_refused_early(small_model: Any, tmp_path: Path, given: dict[str, Any], words: str) -> None:
    if "out" in given:
        given = given | {"out": tmp_path / given["out"]}
    with pytest.raises(InputError, match=words):
        survey(small_model("bert"), ["One."], **given)
    assert not list(tmp_path.iterdir())
