"""Read the weights of an ONNX file as data, from the few protobuf fields that hold them; no graph is run."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from theodolite.errors import DamagedError

# Numbers of protobuf fields, from onnx.proto.
_GRAPH = 7  # of a model
_NODE, _INITIALIZER = 1, 5  # of a graph
_INPUT, _NODE_NAME = 1, 3  # of a node
_DIMS, _DATA_TYPE, _FLOAT_DATA, _TENSOR_NAME, _RAW_DATA = 1, 2, 4, 8, 9  # of a tensor
_FLOAT = 1  # the data type float32

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


@dataclass(frozen=True)
class OnnxWeights:
    """The float32 tensors of a graph by name, and for each name the nodes that read it, in order."""

    tensors: dict[str, Any] = field(default_factory=dict)  # NumPy arrays
    readers: dict[str, list[str]] = field(default_factory=dict)


def read_onnx(path: Path) -> OnnxWeights:
    """Return the weights of an ONNX file; weights in separate files and other data types are omitted."""
    found = OnnxWeights()
    try:
        for number, graph in _fields(memoryview(path.read_bytes())):
            if number == _GRAPH:
                for kind, part in _fields(graph):
                    if kind == _INITIALIZER:
                        _add_tensor(part, found)
                    elif kind == _NODE:
                        _add_node(part, found)
    except (IndexError, TypeError, UnicodeDecodeError, ValueError) as error:
        raise DamagedError(f"{path.name} is not an ONNX file, or is damaged: {error}.") from error
    if not found.tensors:
        raise DamagedError(f"{path.name} holds no float32 weights; expected an ONNX file with its weights inside.")
    return found


def _add_tensor(part: Any, found: OnnxWeights) -> None:
    import numpy as np

    dims: list[int] = []
    name, kind, data = "", 0, memoryview(b"")
    for number, value in _fields(part):
        if number == _DIMS:
            dims += [value] if isinstance(value, int) else _varints(value)
        elif number == _DATA_TYPE:
            kind = value
        elif number == _TENSOR_NAME:
            name = bytes(value).decode()
        elif number in (_RAW_DATA, _FLOAT_DATA):
            data = value
    if kind == _FLOAT and len(data):
        found.tensors[name] = np.frombuffer(data, "<f4").reshape(dims)


def _add_node(part: Any, found: OnnxWeights) -> None:
    parts = list(_fields(part))
    name = next((bytes(value).decode() for number, value in parts if number == _NODE_NAME), "")
    for number, value in parts:
        if number == _INPUT:
            found.readers.setdefault(bytes(value).decode(), []).append(name)


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of each field of a message: an int, or the bytes of a string, array or message."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        wire = key & 7
        if wire == _VARINT:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if wire not in (_BYTES, _FIXED32, _FIXED64):
            raise ValueError(f"a field has the wire type {wire}")
        length = {_FIXED32: 4, _FIXED64: 8}.get(wire, 0)
        if wire == _BYTES:
            length, place = _varint(message, place)
        if place + length > len(message):
            raise ValueError(f"a field of {length:,} bytes is truncated")
        yield key >> 3, message[place : place + length]
        place += length


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Return the integer that starts here, seven bits per byte, and the place after it."""
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7


def _varints(packed: memoryview) -> list[int]:
    found, place = [], 0
    while place < len(packed):
        value, place = _varint(packed, place)
        found.append(value)
    return found
