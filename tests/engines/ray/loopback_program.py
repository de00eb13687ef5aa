"""A program: start Ray as `--address local` does and print the addresses on which it listens. For a namespace."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import nullcontext

import psutil

from theodolite.engines.ray import connection


def main() -> None:
    """With the argument "open", without the setting that binds Ray to the loopback interface."""
    if sys.argv[1] == "open":
        connection._bind_to_loopback = nullcontext  # type: ignore[assignment]
    handler = signal.getsignal(signal.SIGTERM)
    with connection.connect("local", cpus=1):
        assert signal.getsignal(signal.SIGTERM) is handler
        ray = connection.import_ray()
        assert ray.get(ray.remote(_doubled).remote(2)) == 4  # a worker has started too
        found = [one.laddr.ip for one in psutil.net_connections("inet") if one.status == psutil.CONN_LISTEN]
    print(json.dumps(sorted(set(found))))


def _doubled(number: int) -> int:
    return 2 * number


if __name__ == "__main__":
    main()
