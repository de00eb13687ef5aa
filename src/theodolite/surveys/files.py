"""Files: written beside their final name and moved into place, so that a killed run leaves none half done."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from theodolite.errors import DamagedError, TheodoliteError
from theodolite.statistics.away import Away
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.crc import crc32_of
from theodolite.surveys.storage import Place
from theodolite.surveys.tensor_file import write_safetensors

AGAIN = " What was saved before is whole; free some space and run the same command again with --resume."
_MASK = threading.Lock()


def write_beside(path: Place, write: Callable[[Path], None]) -> None:
    """Call `write` with a temporary name in the same folder, then move the file to its own name.

    For a bucket it is written on disk and uploaded.
    """
    if isinstance(path, Bucket):
        with TemporaryDirectory(prefix="theodolite-") as folder:
            write_beside(Path(folder) / path.name, write)
            path.put(Path(folder) / path.name)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(beside)
        with beside.open("rb") as stream:
            os.fsync(stream.fileno())
        beside.chmod(0o666 & ~_umask())  # safetensors writes for its owner alone
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise _told(path, error) from error
    except Exception as error:
        beside.unlink(missing_ok=True)
        if "No space left" in str(error):  # safetensors wraps the system's error in its own
            raise _full(path) from error
        raise


def write_json(path: Place, value: Mapping[str, Any]) -> None:
    """Write readable JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_beside(path, lambda beside: _write_text(beside, text))


def read_json(path: Place) -> dict[str, Any]:
    """Read a JSON object that write_json left."""
    try:
        value = json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))  # odd names of files
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise DamagedError(f"{path} holds no JSON object.")
    return value


def write_tensors(path: Place, tensors: Mapping[str, Tensor | Away], metadata: Mapping[str, str]) -> str:
    """Write a safetensors file and return its checksum; nothing is copied in memory."""
    found = ""

    def write(beside: Path) -> None:
        nonlocal found
        found = write_safetensors(beside, tensors, metadata)

    write_beside(path, write)
    return found


def read_tensors(path: Place, prefix: str = "") -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file: tensors of our own whose names begin so, and the metadata."""
    from safetensors import SafetensorError, safe_open

    try:
        if isinstance(path, Bucket):
            with TemporaryDirectory(prefix="theodolite-") as folder:
                path.get(Path(folder) / path.name)
                return read_tensors(Path(folder) / path.name, prefix)
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error


def read_metadata(path: Place) -> dict[str, str]:
    """Read only what a safetensors file says of itself."""
    from safetensors import SafetensorError, safe_open

    try:
        if isinstance(path, Bucket):  # eight bytes tell how long the JSON is that the file begins with
            length = int.from_bytes(path.read_bytes(0, 8), "little")
            return dict(json.loads(path.read_bytes(8, 8 + length)).get("__metadata__", {}))
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except (OSError, ValueError, SafetensorError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error


def checksum(path: Path) -> str:
    """Return a CRC-32 of a file: enough to notice damage, and quick."""
    return f"crc32:{crc32_of(path):08x}"


def verify(path: Path, expected: str) -> None:
    """Raise if the file is missing or not what was written."""
    if not path.is_file():
        raise DamagedError(f"{path} is missing.")
    found = checksum(path)
    if found != expected:
        raise DamagedError(f"{path} is damaged: its checksum is {found}, {expected} was written.")


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="surrogatepass")


def _told(path: Path, error: OSError) -> TheodoliteError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path)
    return TheodoliteError(f"{path} could not be written: {error.strerror or error}.")


def _full(path: Path) -> TheodoliteError:
    return TheodoliteError(f"The disk is full: {path} could not be written.{AGAIN}")


def _umask() -> int:
    """Return the process's mask; there is no way to read it but to set it."""
    with _MASK:  # two threads at once would each take the other's for the process's
        mask = os.umask(0o022)
        os.umask(mask)
    return mask
