"""WAV by hand: PCM of 8, 16, 24 and 32 bits and floats of 32 and 64, plain or extensible.

Python's own reader knows neither floats nor the extensible header, and others read a file whole.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from theodolite.sources.audio.sound import Damaged, Samples

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_KNOWN = {(_PCM, 8), (_PCM, 16), (_PCM, 24), (_PCM, 32), (_FLOAT, 32), (_FLOAT, 64)}
_UNTOLD = (0, 0xFFFFFFFF)  # what a program that streams writes for a length that it does not know yet


@dataclass(frozen=True)
class WavFile:
    """A WAV file that is open, and what its header says."""

    stream: IO[bytes]
    rate: int
    frames: int
    channels: int
    code: int
    bits: int
    offset: int

    def read(self, start: int, stop: int) -> Samples:
        """Return frames start to stop, the mean over channels."""
        width = self.channels * self.bits // 8
        self.stream.seek(self.offset + start * width)
        raw = self.stream.read((stop - start) * width)
        if len(raw) != (stop - start) * width:
            raise Damaged(f"it ends before sample {stop:,}")
        channels = _decoded(raw, self.code, self.bits).reshape(-1, self.channels)
        return np.asarray(channels.mean(axis=1, dtype=np.float32))


@contextmanager
def open_wav(path: Path) -> Iterator[WavFile]:
    """Open the file, read its header, and close it in the end."""
    with path.open("rb") as stream:
        yield _header(stream, path.stat().st_size)


def _header(stream: IO[bytes], length: int) -> WavFile:
    start = stream.read(12)
    if start[:4] != b"RIFF" or start[8:] != b"WAVE":
        raise Damaged("it does not begin as a WAV file does, with RIFF ... WAVE")
    form: tuple[int, int, int, int] | None = None
    while len(head := stream.read(8)) == 8:
        name, size = head[:4], int.from_bytes(head[4:], "little")
        here = stream.tell()
        if name == b"fmt ":
            form = _form(stream.read(min(size, 40)))
        elif name == b"data":
            if form is None:
                break
            return _placed(stream, form, here, size, length)
        stream.seek(here + size + size % 2)  # chunks begin at even places
    raise Damaged("it has no samples: a fmt chunk and a data chunk after it were wanted")


def _form(chunk: bytes) -> tuple[int, int, int, int]:
    """Return (code, channels, rate, bits)."""
    if len(chunk) < 16:
        raise Damaged("its fmt chunk is cut short")
    code, channels, rate, _, align, bits = struct.unpack("<HHIIHH", chunk[:16])
    if code == _EXTENSIBLE and len(chunk) >= 26:
        code = int.from_bytes(chunk[24:26], "little")  # the sub-format's id begins with the old code
    if (code, bits) not in _KNOWN:
        raise Damaged(f"samples of code {code} with {bits} bits are not known; convert it to PCM of 16 bits")
    if channels < 1 or align != channels * bits // 8:
        raise Damaged(f"its header contradicts itself: {channels} channels of {bits} bits in {align} bytes")
    return code, channels, rate, bits


def _placed(stream: IO[bytes], form: tuple[int, int, int, int], offset: int, size: int, length: int) -> WavFile:
    code, channels, rate, bits = form
    there = length - offset
    if size in _UNTOLD:
        size = there
    if size > there:
        raise Damaged(f"it is cut short: {there:,} of {size:,} bytes of samples are there")
    return WavFile(stream, rate, size // (channels * bits // 8), channels, code, bits, offset)


def _decoded(raw: bytes, code: int, bits: int) -> NDArray[np.float32]:
    """Return the samples, PCM scaled by its largest magnitude so that they lie in [-1, 1)."""
    if code == _FLOAT:
        return np.frombuffer(raw, f"<f{bits // 8}").astype(np.float32)
    if bits == 8:  # alone without a sign
        return (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / np.float32(128)
    if bits == 24:
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return (wide.view("<i4")[:, 0] / 2**31).astype(np.float32)
    return np.asarray(np.frombuffer(raw, f"<i{bits // 8}") / 2.0 ** (bits - 1), dtype=np.float32)
