"""A program: start Ray on this machine as `--address local` does, and print where it listens. For a namespace."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext

import psutil

from theodolite.engines.ray import connecting


def main() -> None:
    """With the argument "open", as it would be if Ray were only told the address."""
    if sys.argv[1] == "open":
        connecting._on_loopback = nullcontext  # type: ignore[assignment]
    with connecting.connected("local", cpus=1):
        ray = connecting.library()
        assert ray.get(ray.remote(_doubled).remote(2)) == 4  # a worker has started too
        found = [one.laddr.ip for one in psutil.net_connections("inet") if one.status == psutil.CONN_LISTEN]
    print(json.dumps(sorted(set(found))))


def _doubled(number: int) -> int:
    return 2 * number


if __name__ == "__main__":
    main()
