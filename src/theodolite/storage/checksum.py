"""Checksums: CRC-32 of files and of pieces of memory, which notice damage and are fast."""

from __future__ import annotations

import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

PIECE = 1 << 24


class Checksum:
    """The CRC-32 of pieces in order, computed in a thread of its own; pieces must not change meanwhile."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "checksum")  # one thread keeps the order; zlib releases the interpreter
        self._value = 0
        self._pieces: list[Future[None]] = []

    def add(self, piece: memoryview | bytes) -> None:
        """Add the next piece."""
        self._pieces.append(self._pool.submit(self._add, piece))

    def _add(self, piece: memoryview | bytes) -> None:
        self._value = zlib.crc32(piece, self._value)

    def result(self) -> str:
        """Return the checksum of all pieces, as it is written in survey.json."""
        self._pool.shutdown()
        for piece in self._pieces:
            piece.result()
        return f"crc32:{self._value:08x}"


def checksum(path: Path) -> str:
    """Return the checksum of a file."""
    value = 0
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            value = zlib.crc32(piece, value)
    return f"crc32:{value:08x}"
