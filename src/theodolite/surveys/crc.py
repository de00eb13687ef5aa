"""CRC-32 of much: taken of its pieces on several threads, and of one after the other from theirs."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

PIECE = 1 << 24
THREADS = 8
"""At the most: from there on memory is what they wait for."""
_POLYNOMIAL = 0xEDB88320  # of CRC-32, the coefficient of x^31 in the lowest bit
_ONE = 1 << 31


class Crc32:
    """The checksum of pieces that come in order; each is summed by another thread, and must stay as it is."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1), "checksum")
        self._pieces: list[tuple[Future[int], int]] = []

    def add(self, piece: memoryview | bytes) -> None:
        """Take in the next piece."""
        self._pieces.append((self._pool.submit(zlib.crc32, piece), len(piece)))

    def told(self) -> str:
        """Return the checksum of all pieces, as survey.json writes it."""
        value = 0
        for found, length in self._pieces:
            value = followed(value, found.result(), length)
        self._pool.shutdown()
        return f"crc32:{value:08x}"


def crc32_of(path: Path) -> int:
    """Return the CRC-32 of a file, its pieces read and summed side by side."""
    size = path.stat().st_size
    if size <= PIECE:
        return zlib.crc32(path.read_bytes())

    def one(start: int) -> tuple[int, int]:
        with path.open("rb") as stream:
            stream.seek(start)
            piece = stream.read(PIECE)
        return zlib.crc32(piece), len(piece)

    value = 0
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1), "checksum") as pool:
        for found, length in pool.map(one, range(0, size, PIECE)):
            value = followed(value, found, length)
    return value


def followed(first: int, second: int, length: int) -> int:
    """Return the CRC-32 of two pieces together from that of each, the second so many bytes long.

    A CRC is the remainder of a polynomial over the field of two elements: what comes before the last `length`
    bytes counts as multiplied by x^(8 length), and remainders add. (The inversions at both ends cancel.)

    >>> followed(zlib.crc32(b"theo"), zlib.crc32(b"dolite"), 6) == zlib.crc32(b"theodolite")
    True
    """
    return _times(_power(length), first) ^ second


@lru_cache(maxsize=64)
def _power(length: int) -> int:
    """Return x^(8 length), which takes longest; most pieces have one length."""
    power, square = _ONE, _ONE >> 8
    while length:
        if length & 1:
            power = _times(power, square)
        square = _times(square, square)
        length >>= 1
    return power


def _times(a: int, b: int) -> int:
    """Return the product of two polynomials modulo that of CRC-32, the coefficient of x^0 in the highest bit."""
    product = 0
    for bit in _bits_from_the_top(a):
        if bit:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


def _bits_from_the_top(a: int) -> Iterator[int]:
    return (a >> place & 1 for place in range(31, -1, -1))
