"""Agreement: machines that would not compute the same numbers, or not at all, are refused before they begin."""

from __future__ import annotations

from collections.abc import Sequence

from theodolite.errors import InputError
from theodolite.surveys.cluster.worker import Hello
from theodolite.surveys.memory import SHARE, size
from theodolite.surveys.run import versions


def check_versions(hello: Hello) -> None:
    """Refuse a machine with other versions of what the numbers depend on than this one."""
    mine = versions()
    other = [
        f"{name} {version} there, {mine[name]} here"
        for name, version in hello.versions.items()
        if mine[name] != version
    ]
    if other:
        raise InputError(
            f"{hello.host} has other versions than this machine ({'; '.join(other)}); install the same on all."
        )


def check_memory(hellos: Sequence[Hello], needed: int) -> None:
    """Refuse machines whose workers would not all fit, each with a whole state."""
    for host in sorted({hello.host for hello in hellos}):
        here = [hello for hello in hellos if hello.host == host]
        free, wanted = int(SHARE * min(hello.memory for hello in here)), len(here) * needed
        if wanted > free:
            raise InputError(
                f"{host}: {len(here)} workers there need about {size(wanted)} for their sums; {size(free)} may be "
                "used. Take fewer --workers, or survey fewer --layers at a time."
            )
