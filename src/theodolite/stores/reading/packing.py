"""Vectors in 8 bits: what the bytes mean has to be known before they are measured.

The same bytes can be packed signs (8 coordinates in each), quantized numbers with a sign, or numbers from 0 to
255. Their geometry differs completely, so a store that does not say what it holds is asked about.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.sources.stored.table import Field
from theodolite.sources.vectors import to_float

PACKINGS = {
    "binary": "signs, 8 in a byte, first coordinate in the highest bit (numpy.packbits); read as -1 and 1",
    "int8": "one number in a byte, from -128 to 127; bytes without a sign are read with 128 subtracted",
    "uint8": "one number in a byte, from 0 to 255, where 0 means 0, as in image descriptors",
}
_MOST_PACKED = 512
"""Bytes of a packed vector with 4,096 coordinates. Longer vectors of int8 are numbers."""


def find_packing(field: Field, packed: str | None) -> str | None:
    """Return how 8-bit vectors are packed; None for vectors in other types. Raise if it is not known."""
    if packed is not None and packed not in PACKINGS:
        raise InputError(f"--packed must be one of {', '.join(PACKINGS)} (got {packed!r}).")
    eight = field.dtype in ("int8", "uint8")
    if not eight:
        if packed is not None:
            raise InputError(f"--packed {packed}: expected vectors in int8 or uint8, got {field}; omit --packed.")
        return None
    if packed == "uint8" and field.dtype == "int8":
        raise InputError(f"--packed uint8: expected vectors in uint8, got {field}; give --packed int8.")
    width = field.shape[1] or 0
    if packed is None and field.dtype == "int8" and width > _MOST_PACKED:
        return "int8"
    if packed is None:
        meanings = ", ".join(f"--packed {name} ({meaning})" for name, meaning in PACKINGS.items())
        raise InputError(
            f"the vectors are {field.dtype} with {width:,} bytes each: {width:,} numbers, or {8 * width:,} signs. "
            f"The store does not say which. Give one of {meanings}."
        )
    return packed


def unpack(vectors: NDArray[Any], packing: str | None) -> NDArray[Any]:
    """Return the coordinates of stored vectors (rows, dim) as floats.

    Signed bytes with packed signs are those of sentence-transformers: 128 was subtracted from each.

    >>> unpack(np.array([[0b10000001]], dtype=np.uint8), "binary").astype(int).tolist()
    [[1, -1, -1, -1, -1, -1, -1, 1]]
    >>> unpack(np.array([[255, 128]], dtype=np.uint8), "int8").tolist()
    [[127.0, 0.0]]
    """
    if packing is None:
        if vectors.dtype.kind == "b":
            return np.where(vectors, np.float32(1), np.float32(-1))
        return to_float(vectors)
    if packing == "binary":
        plain = vectors if vectors.dtype == np.uint8 else (vectors.view(np.uint8) ^ np.uint8(128))
        return np.unpackbits(plain, axis=1).astype(np.float32) * np.float32(2) - np.float32(1)
    offset = np.float32(128 if packing == "int8" and vectors.dtype == np.uint8 else 0)
    return vectors.astype(np.float32) - offset


def unpacked_dim(width: int, packing: str | None) -> int:
    """Return the number of coordinates of a vector with `width` stored numbers."""
    return 8 * width if packing == "binary" else width
