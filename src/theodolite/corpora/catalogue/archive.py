"""Read members of a wheel or source distribution by name, as streams; nothing is extracted to its own path."""

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from theodolite.errors import DamagedError


def iterate_members(archive: Path, pattern: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield (name, open stream) of each regular file whose name matches the pattern; `*` also matches slashes.

    A stream is valid until the next one is requested.
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


def copy_members(archive: Path, targets: dict[str, Path]) -> None:
    """Copy each named member to its target path; a missing member is an error."""
    missing = dict(targets)
    for name, stream in iterate_members(archive, "*"):
        if name in missing:
            with missing.pop(name).open("wb") as sink:
                shutil.copyfileobj(stream, sink, 1 << 20)
    if missing:
        raise DamagedError(
            f"{archive.name} has no member {' or '.join(missing)}; its other members were not used."
        )
