"""Files of JSON and of tensors, written atomically and verified by checksum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from theodolite.devices import DeviceTensor
from theodolite.errors import DamagedError
from theodolite.storage.atomic import write_atomically
from theodolite.storage.bucket import Bucket
from theodolite.storage.checksum import checksum
from theodolite.storage.location import Location
from theodolite.storage.tensor_file import write_safetensors


def write_json(path: Location, value: Mapping[str, Any]) -> None:
    """Write readable JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, lambda temporary: _write_text(temporary, text))


def read_json(path: Location) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))  # file names that are not UTF-8
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise DamagedError(f"{path} does not contain a JSON object.")
    return value


def write_tensors(
    path: Location,
    tensors: Mapping[str, Tensor | DeviceTensor],
    metadata: Mapping[str, str],
    *,
    narrow: bool = False,
) -> str:
    """Write a safetensors file without copies in memory, and return its checksum; see `write_safetensors`."""
    checksums: list[str] = []

    def write(temporary: Path) -> None:
        checksums.append(write_safetensors(temporary, tensors, metadata, narrow=narrow))

    write_atomically(path, write)
    return checksums[0]


def read_tensors(path: Location, prefix: str = "") -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors whose names start with the prefix, and the metadata, from a safetensors file."""
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


def read_metadata(path: Location) -> dict[str, str]:
    """Read only the metadata of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        if isinstance(path, Bucket):  # the first eight bytes are the length of the JSON header
            length = int.from_bytes(path.read_bytes(0, 8), "little")
            return dict(json.loads(path.read_bytes(8, 8 + length)).get("__metadata__", {}))
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except (OSError, ValueError, SafetensorError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error


def verify(path: Path, expected: str) -> None:
    """Raise if the file is missing or its checksum differs."""
    if not path.is_file():
        raise DamagedError(f"{path} is missing.")
    found = checksum(path)
    if found != expected:
        raise DamagedError(f"{path} is damaged: its checksum is {found}, expected {expected}.")


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
