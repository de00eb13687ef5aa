"""Files: written beside their final name and moved into place, so that a killed run leaves none half done."""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from theodolite.errors import DamagedError, TheodoliteError


def write_beside(path: Path, write: Callable[[Path], None]) -> None:
    """Call `write` with a temporary name in the same folder, then move the file to its own name."""
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


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write readable JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_beside(path, lambda beside: _write_text(beside, text))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that write_json left."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise DamagedError(f"{path} holds no JSON object.")
    return value


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file; nothing is copied in memory."""
    from safetensors.torch import save_file

    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_beside(path, lambda beside: save_file(whole, beside, dict(metadata)))


def read_tensors(path: Path, prefix: str = "") -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file: tensors of our own whose names begin so, and the metadata."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error


def read_metadata(path: Path) -> dict[str, str]:
    """Read only what a safetensors file says of itself."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error


def checksum(path: Path) -> str:
    """Return a CRC-32 of a file: enough to notice damage, and quick."""
    value = 0
    with path.open("rb") as stream:
        while block := stream.read(1 << 24):
            value = zlib.crc32(block, value)
    return f"crc32:{value:08x}"


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
    return TheodoliteError(
        f"The disk is full: {path} could not be written. What was saved before is whole; free some space and run "
        "the same command again with --resume."
    )


def _umask() -> int:
    """Return the process's mask; there is no way to read it but to set it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
