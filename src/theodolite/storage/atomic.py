"""Atomic writes: a file is written under a temporary name and moved into place; it is complete or absent."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from theodolite.errors import TheodoliteError
from theodolite.storage.bucket import Bucket
from theodolite.storage.location import Location

DISK_HINT = " Free some space and run the command again; an interrupted survey continues with --resume."
_MASK = threading.Lock()


def write_atomically(path: Location, write: Callable[[Path], None]) -> None:
    """Call `write` with a temporary path in the same folder, then rename the file.

    For a bucket, the file is written on disk and uploaded.
    """
    if isinstance(path, Bucket):
        with TemporaryDirectory(prefix="theodolite-") as folder:
            write_atomically(Path(folder) / path.name, write)
            path.put(Path(folder) / path.name)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(temporary)
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.chmod(0o666 & ~_umask())  # safetensors writes with permissions for the owner only
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _explain_os_error(path, error) from error
    except Exception as error:
        temporary.unlink(missing_ok=True)
        if "No space left" in str(error):  # safetensors wraps the system's error in its own
            raise _disk_full(path) from error
        raise


def _explain_os_error(path: Path, error: OSError) -> TheodoliteError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full(path)
    return TheodoliteError(f"{path} could not be written: {error.strerror or error}.")


def _disk_full(path: Path) -> TheodoliteError:
    return TheodoliteError(f"The disk is full: {path} could not be written.{DISK_HINT}")


def _umask() -> int:
    """Return the umask of the process, which can only be read by setting it."""
    with _MASK:  # two threads at once would read each other's value
        mask = os.umask(0o022)
        os.umask(mask)
    return mask
