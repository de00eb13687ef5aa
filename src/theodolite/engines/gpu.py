"""Sums on a GPU: accumulated and measured there, and copied back while the state is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import local
from typing import NamedTuple, cast

import torch
from torch import Tensor

from theodolite.batch import Places
from theodolite.devices import AHEAD, DeviceTensor
from theodolite.errors import TheodoliteError
from theodolite.state.state import State
from theodolite.statistics.cuda.context import GpuContext
from theodolite.statistics.cuda.fold import GpuFold
from theodolite.statistics.cuda.tables import free_cached_memory, free_memory
from theodolite.statistics.fold import LayerFold
from theodolite.storage.location import Location

PARALLEL_LAYERS = 8  # layers copied at a time: one thread does not use the full bandwidth


@contextmanager
def accumulate_on_device(
    state: State, device: str | None, devices: Mapping[int, torch.device] | None = None
) -> Iterator[Callable[[Places], None] | None]:
    """Move the sums to the device, and back at the end; with None they stay on the CPU.

    `devices` are those of single layers, if a model is spread over several. Yields a function to call with the
    positions of every batch before the batch runs. A checkpoint copies the sums; its file does not depend on where
    they are. At the end the sums by unit, which are gigabytes, stay on the device until something reads them,
    because tables are measured there.
    """
    if device is None:
        yield None
        return
    contexts = move_to_device(state, device, devices)

    def prepare(places: Places) -> None:
        for context in contexts:
            context.prepare(places)

    try:
        yield prepare
    except torch.OutOfMemoryError:
        raise TheodoliteError(
            f"{device} is out of memory. Use a smaller --batch-tokens (with --overwrite or another folder, since "
            "a resumed survey keeps its own), or fewer --layers."
        ) from None
    else:
        move_from_device(state, contexts)
    finally:
        for context in contexts:
            context.close()


def move_from_device(state: State, contexts: Iterable[GpuContext]) -> None:
    """Replace folds on devices by folds on the CPU; sums by unit stay there until something reads them."""
    for context in contexts:
        context.finish()
        free_cached_memory(context.device)  # for libraries that solve eigenproblems, which allocate their own
    on_device = {index: fold for index, fold in state.folds.items() if isinstance(fold, GpuFold)}
    with ThreadPoolExecutor(PARALLEL_LAYERS, "copying sums") as pool:
        for index, fold in zip(on_device, pool.map(GpuFold.hand_over, on_device.values()), strict=True):
            state.folds[index] = fold


def move_to_device(
    state: State, device: str, devices: Mapping[int, torch.device] | None = None
) -> list[GpuContext]:
    """Move the sums to a device, or each layer's to its own of `devices`; they are updated and saved there.

    Returns the contexts, one for each device. Layers that are too wide for a covariance matrix stay on the CPU.
    """
    contexts: dict[torch.device, GpuContext] = {}
    for index, fold in state.folds.items():
        if fold.wide:
            continue
        place = (devices or {}).get(index, torch.device(device))
        if place not in contexts:
            contexts[place] = GpuContext(place, overlap=True)
        on_device = GpuFold(fold.frame, contexts[place])
        if not fold.is_empty:  # loading an empty one takes 10 ms for 4,096 coordinates
            on_device.load(fold.state())
        state.folds[index] = cast(LayerFold, on_device)
    return list(contexts.values())


LAYER_SHARE = 0.05
"""Share of the free device memory for one layer's sums: several layers and copies are there at once."""


CellSums = dict[int, Tensor]
"""Sums or vectors by cell. (any, dim) each"""


class OnDevice(NamedTuple):
    """What is still on a device of one layer, by cell."""

    sums: CellSums  # by unit
    vectors: CellSums  # of the sample


def sums_on_device(folds: Mapping[int, LayerFold]) -> dict[int, OnDevice]:
    """Return what is on a device, by layer; it can be measured there while it is copied."""
    found: dict[int, OnDevice] = {}
    for index, fold in folds.items():
        sums: CellSums = {}
        for cell, table in enumerate(fold.moments.tables):
            if isinstance(held := table.stored_sum, DeviceTensor) and (tensor := held.on_device) is not None:
                sums[cell] = tensor
        found[index] = OnDevice(sums, fold.sample.on_device)
    return found


def copy_sums_to_device(fold: LayerFold, device: str | None, present: CellSums | None = None) -> CellSums | None:
    """Return the sums of every cell on the device; None without a device or if they do not fit.

    Sums already `present` there are used, the others copied.
    """
    if device is None:
        return None
    size = sum(table.stored_sum.nbytes for table in fold.moments.tables)
    if device.startswith("cuda") and size > LAYER_SHARE * free_memory(device)[0]:
        return None
    return fold.moments.copy_to_device(torch.device(device), present or {})


_own_streams = local()


@contextmanager
def on_own_stream(device: str | None, priority: int = AHEAD) -> Iterator[None]:
    """Run the GPU work of this thread on its own stream, so that it does not wait for other threads.

    A thread keeps its stream: PyTorch does not use the memory that was freed on one stream for another.
    """
    if device is None or not device.startswith("cuda"):
        yield
        return
    with torch.cuda.device(device):
        known: dict[tuple[str, int], torch.cuda.Stream] = _own_streams.__dict__.setdefault("streams", {})
        if (device, priority) not in known:
            known[device, priority] = torch.cuda.Stream(priority=priority)  # type: ignore[no-untyped-call]
        stream = known[device, priority]
        stream.wait_stream(torch.cuda.default_stream())
        try:
            with torch.cuda.stream(stream):
                yield
        finally:
            stream.synchronize()  # its input may now be freed


Checksums = dict[str, str]

PARALLEL_COPIES = 8
"""Sums copied at a time: one thread does not use the full bandwidth."""


@contextmanager
def write_in_background(
    state: State, folder: Location | None, *, sums_kept: bool = True
) -> Iterator[Callable[[], Checksums] | None]:
    """Write the state in a background thread; yield a function that waits for it and returns the checksums.

    Nothing is written without a folder on disk. Incomplete files have a temporary name, and survey.json, without
    which a folder is not a survey, is written by `save` afterwards. Sums on a device are copied at the same time,
    in the order in which they are written; at the end all are on the CPU. Sums that are not kept are not copied.
    """
    with ThreadPoolExecutor(PARALLEL_COPIES, "copying") as copying, ThreadPoolExecutor(1, "writing") as pool:
        copied = state.device_tensors() if sums_kept else []
        copies = [copying.submit(tensor.cpu) for tensor in copied]
        save = partial(state.save, sums_kept=sums_kept)
        writing = pool.submit(save, folder) if isinstance(folder, Path) else None
        yield None if writing is None else writing.result
        for copy in copies:
            copy.result()
