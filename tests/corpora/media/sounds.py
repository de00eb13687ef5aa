"""Sound files written by hand, so that no reader is tested against itself."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def tone(seconds: float, rate: int, hertz: float = 440.0) -> Values:
    """Return a tone of half amplitude that is never quite periodic, shape (samples,)."""
    time = np.arange(round(seconds * rate)) / rate
    return 0.4 * np.sin(2 * np.pi * hertz * time) + 0.1 * np.sin(2 * np.pi * hertz * 1.618 * time)


def wav(path: Path, values: Values, rate: int, form: str = "i16", *, extensible: bool = False) -> Path:
    """Write values in [-1, 1), (frames,) or (frames, channels), as u8, i16, i24, i32, f32 or f64."""
    frames = values if values.ndim == 2 else values[:, None]
    bits = int(form[1:])
    if form == "u8":
        raw = np.round(frames * 128 + 128).clip(0, 255).astype(np.uint8).tobytes()
    elif form[0] == "f":
        raw = frames.astype(f"<f{bits // 8}").tobytes()
    else:
        whole = np.round(frames * 2 ** (bits - 1)).clip(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).astype("<i8")
        raw = whole.reshape(-1, 1).view(np.uint8)[:, : bits // 8].tobytes()
    code = 3 if form[0] == "f" else 1
    align = frames.shape[1] * bits // 8
    head = struct.pack("<HHIIHH", 0xFFFE if extensible else code, frames.shape[1], rate, rate * align, align, bits)
    if extensible:
        guid = struct.pack("<H", code) + bytes.fromhex("000000001000800000aa00389b71")
        head += struct.pack("<HHI", 22, bits, 0) + guid
    # a chunk of odd length before the samples, as editors leave them, with its byte of padding
    chunks = chunk(b"LIST", b"abc") + chunk(b"fmt ", head) + chunk(b"data", raw)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks)
    return path


def chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)
