"""Read members of a wheel or a source distribution by name, as streams; nothing is extracted by its own path."""

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from theodolite.errors import DamagedError


def each_member(archive: Path, pattern: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield (name, open stream) of each plain file whose name fits the pattern; `*` crosses slashes too.

    A stream is good until the next one is asked for.
    """
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if fnmatchcase(name, pattern) and not name.endswith("/"):
                    with wheel.open(name) as stream:
                        yield name, stream
        return
    with tarfile.open(archive, "r|gz") as sdist:  # one pass, forward only
        for member in sdist:
            if member.isfile() and fnmatchcase(member.name, pattern):
                tar_stream = sdist.extractfile(member)
                if tar_stream is not None:
                    yield member.name, tar_stream


def copy_members(archive: Path, wanted: dict[str, Path]) -> None:
    """Copy each named member to the path given for it; a member that is missing is an error."""
    missing = dict(wanted)
    for name, stream in each_member(archive, "*"):
        if name in missing:
            with missing.pop(name).open("wb") as sink:
                shutil.copyfileobj(stream, sink, 1 << 20)
    if missing:
        raise DamagedError(
            f"{archive.name} has no member {' nor '.join(missing)}; its other members were not used."
        )
