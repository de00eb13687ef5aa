"""Write the vectors of a store after a transform, and the transform itself, which treats queries alike."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from theodolite.engines.progress import Listener, Progress
from theodolite.errors import DamagedError, InputError, TheodoliteError
from theodolite.storage.atomic import write_atomically
from theodolite.storage.files import read_tensors, write_tensors
from theodolite.stores.cost import TRAINING_ROWS, prepare_fit, scan_for_transforms
from theodolite.stores.reader import Block, Reader
from theodolite.stores.transforms import Step, StoreTransform, fit_transform, import_faiss

VECTORS, TRANSFORM = "vectors.npy", "transform.safetensors"
_KIND = "theodolite store transform"


def apply_transform(
    reader: Reader,
    transform: str | StoreTransform,
    out: str | Path,
    *,
    metric: str | None = None,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> StoreTransform:
    """Write vectors.npy (floats, or codes in uint8) and transform.safetensors to the folder `out`.

    A transform given as text is fitted to the store first, which reads it once more. Rows keep their order, so ids
    stay valid. `load_transform(out).queries(vectors)` treats queries alike.
    """
    folder = Path(out)
    made = [name for name in (VECTORS, TRANSFORM) if (folder / name).exists()]
    if made and not overwrite:
        raise InputError(f"--out {folder} has {made[0]} already. Use another folder or --overwrite.")
    metric = metric or reader.metric or "cosine"
    count = reader.count
    if isinstance(transform, str):
        scan = scan_for_transforms(reader, metric, TRAINING_ROWS, listener)
        first = prepare_fit(scan, metric, 0, TRAINING_ROWS)
        count = first.rows
        transform = fit_transform(transform, first.moments, first.training, metric, dtype=reader.dtype)
    if count is None:
        count = sum(len(block) for block in follow_blocks(reader, listener, "counting rows"))
    folder.mkdir(parents=True, exist_ok=True)
    rows, fitted = count, transform

    def write(path: Path) -> None:
        with path.open("wb") as file:
            head = fitted.encode(np.zeros((1, reader.dim), np.float32))
            shape = (rows, head.shape[1])
            descr = np.lib.format.dtype_to_descr(head.dtype)
            np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
            written = 0
            for block in follow_blocks(reader, listener, f"writing {fitted.name}"):
                file.write(np.ascontiguousarray(fitted.encode(block.vectors)).data)
                written += len(block)
        if written != rows:
            raise DamagedError(
                f"{reader.name} has changed while it was read: it had {rows:,} rows, and then {written:,}. "
                "Transform a copy, or run again when nothing writes to it."
            )

    write_atomically(folder / VECTORS, write)
    save_transform(fitted, folder / TRANSFORM)
    return fitted


def follow_blocks(reader: Reader, listener: Listener | None, name: str) -> Iterator[Block]:
    """Yield the blocks of a store and report progress."""
    started, count = time.monotonic(), 0
    if listener is not None:
        listener.say(name)
    for block in reader.blocks():
        yield block
        count += len(block)
        if listener is not None:
            share = count / reader.count if reader.count else 0.0
            listener.progress(Progress(share, count, time.monotonic() - started, unit="rows"))
            if listener.stop():
                raise TheodoliteError(f"Stopped after {count:,} rows while {name}.")


def save_transform(transform: StoreTransform, path: str | Path) -> None:
    """Write a transform as a safetensors file; a quantizer is stored as FAISS serializes it, without vectors."""
    tensors: dict[str, Tensor] = {}
    for number, step in enumerate(transform.steps):
        for name in ("shift", "matrix"):
            if (values := getattr(step, name)) is not None:
                tensors[f"steps.{number}.{name}"] = torch.from_numpy(np.ascontiguousarray(values))
    if transform.codec is not None:
        tensors["codec"] = torch.from_numpy(import_faiss().serialize_index(transform.codec).copy())
    facts = {name: getattr(transform, name) for name in ("name", "metric", "dim", "width", "dtype")}
    facts |= {"quantizer": transform.quantizer, "rescore": transform.rescore}
    facts["keep"] = [step.keep for step in transform.steps]
    write_tensors(Path(path), tensors, {"kind": _KIND, "transform": json.dumps(facts)})


def load_transform(path: str | Path) -> StoreTransform:
    """Return a transform from its file or from the folder that `apply_transform` wrote.

    Its `queries` treats queries as the documents were. FAISS is needed only to encode or decode.
    """
    file = Path(path) / TRANSFORM if Path(path).is_dir() else Path(path)
    tensors, metadata = read_tensors(file)
    if metadata.get("kind") != _KIND:
        raise InputError(f"{file} is not a transform of a store.")
    facts = json.loads(metadata["transform"])
    steps = tuple(
        Step(_array(tensors.get(f"steps.{number}.shift")), _array(tensors.get(f"steps.{number}.matrix")), keep)
        for number, keep in enumerate(facts.pop("keep"))
    )
    transform = StoreTransform(**facts, steps=steps)
    if "codec" not in tensors:
        return transform
    return replace(transform, codec=_Codec(tensors["codec"].numpy()))


def _array(tensor: Tensor | None) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None:
    return None if tensor is None else tensor.numpy()


class _Codec:
    """A serialized quantizer of FAISS, which is loaded when it is used first."""

    def __init__(self, content: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
        self._content = content

    def __getattr__(self, name: str) -> object:
        index = import_faiss().deserialize_index(self._content)
        self.__dict__.update(sa_encode=index.sa_encode, sa_decode=index.sa_decode, sa_code_size=index.sa_code_size)
        self.__dict__["_index"] = index
        return getattr(index, name)
