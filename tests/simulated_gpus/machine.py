"""Streams, events and memory of simulated GPUs, and the mistakes that are found in their use.

Every stream has a clock: for each stream, the number of its last operation that is complete before this one does
anything else. Events and waiting copy clocks. The CPU has a clock too, which all streams take over.
"""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import torch
from torch import Tensor

Clock = dict[int, int]
SHOWN_FRAMES = 6


@dataclass(frozen=True)
class Access:
    """One operation that reads or writes bytes of a piece of memory."""

    begin: int
    end: int
    stream: int
    number: int  # of the operation
    writes: bool
    what: str
    where: str


@dataclass(eq=False)
class Memory:
    """What one storage uses on a GPU. All tensors of the storage keep it, and its end frees the memory."""

    machine: Machine
    storage: torch.UntypedStorage  # kept, so that no other storage gets its address before
    stream: int  # on which it was allocated, and on which it is used again
    where: str
    recorded: set[int] = field(default_factory=set)  # streams that PyTorch waits for before it is used again
    accesses: list[Access] = field(default_factory=list)

    def __del__(self) -> None:
        self.machine.free(self)


Operand = tuple[Memory, Tensor]
"""Memory, and the tensor on the CPU that says which part of it."""


class Machine:
    """A machine with simulated GPUs. `mistakes` is what went wrong so far, in sentences."""

    def __init__(self, gpus: int) -> None:
        self.gpus, self.installed = gpus, False
        self.current_gpu: Callable[[], int] = lambda: 0  # set when the GPUs are installed
        self.mistakes: list[str] = []
        self.operations: Counter[str] = Counter()  # by name, such as "cuda:1 aten::add"
        self.allocations = 0
        self.full_at: set[int] = set()  # numbers of allocations that fail
        self.must_not_wait = False  # whether an operation for which the CPU waits is an error
        self._lock = threading.RLock()
        self._number = 0
        self._device_of: list[int] = []  # by stream
        self._clocks: list[Clock] = []  # by stream
        self._cpu: Clock = {}
        self._pending: list[tuple[int, int, Tensor, Tensor]] = []  # copies for which the CPU has not waited
        self._memories: WeakValueDictionary[int, Memory] = WeakValueDictionary()
        self._current = threading.local()  # stream by device
        self.default_streams = [self.add_stream(device) for device in range(gpus)]

    def add_stream(self, device: int) -> int:
        """Return the number of a new stream."""
        with self._lock:
            self._device_of.append(device)
            self._clocks.append({})
            return len(self._clocks) - 1

    def device_of(self, stream: int) -> int:
        """Return the device of a stream."""
        return self._device_of[stream]

    def current_stream(self, device: int) -> int:
        """Return the stream of this thread on a device."""
        return int(self._current.__dict__.get(device, self.default_streams[device]))

    def set_current_stream(self, device: int, stream: int) -> None:
        """Set the stream of this thread on a device."""
        self._current.__dict__[device] = stream

    def clock(self, stream: int) -> Clock:
        """Return what is complete after all operations that are on the stream now."""
        with self._lock:
            return dict(self._clocks[stream])

    def wait(self, stream: int, clock: Clock) -> None:
        """Let later operations of the stream wait."""
        with self._lock:
            _join(self._clocks[stream], clock)

    def wait_on_cpu(self, clock: Clock) -> None:
        """Let the CPU wait: copies become visible there, and all later operations come after."""
        with self._lock:
            _join(self._cpu, clock)
            complete = [number <= self._cpu.get(stream, 0) for stream, number, *_ in self._pending]
            for (_, _, target, values), done in zip(self._pending, complete, strict=True):
                if done:
                    target.copy_(values)
            self._pending = [copy for copy, done in zip(self._pending, complete, strict=True) if not done]

    def wait_for_result(self, what: str, stream: int) -> None:
        """Let the CPU wait for a stream because an operation requires it."""
        if self.must_not_wait:
            raise RuntimeError(f"called a synchronizing CUDA operation: {what}")
        self.wait_on_cpu(self.clock(stream))

    def wait_for_everything(self) -> None:
        """Let the CPU wait for all streams."""
        for stream in range(len(self._clocks)):
            self.wait_on_cpu(self.clock(stream))

    def copy_later(self, stream: int, number: int, target: Tensor, values: Tensor) -> None:
        """Copy to memory of the CPU when the CPU waits for this operation."""
        with self._lock:
            self._pending.append((stream, number, target, values))

    def allocate(self, data: Tensor, device: int) -> Memory:
        """Return the memory of a tensor's storage, which is new unless the tensor is a view."""
        with self._lock:
            storage = data.untyped_storage()
            known = self._memories.get(storage._cdata)
            if known is not None:
                return known
            self.allocations += 1
            if self.allocations in self.full_at:
                raise torch.OutOfMemoryError("CUDA out of memory (simulated).")
            memory = Memory(self, storage, self.current_stream(device), _find_callers())
            self._memories[storage._cdata] = memory
            return memory

    def free(self, memory: Memory) -> None:
        """Report operations that may still use the memory when others get it."""
        with self._lock:
            for access in memory.accesses:
                if access.stream not in memory.recorded and not self._is_before(access, memory.stream):
                    self.report(
                        f"{access.what} on stream {access.stream} may still use memory that is free again for "
                        f"stream {memory.stream}",
                        access.where,
                        memory.where,
                    )

    def launch(self, what: str, device: int, reads: Iterable[Operand], writes: Iterable[Operand]) -> int:
        """Put an operation on the current stream of a device; return its number."""
        stream = self.current_stream(device)
        with self._lock:
            self._number += 1
            self.operations[f"cuda:{device} {what}"] += 1
            where = _find_callers()
            for used, is_write in ((reads, False), (writes, True)):
                for memory, data in used:
                    begin, end = _bytes_of(data)
                    self._add(memory, Access(begin, end, stream, self._number, is_write, what, where))
            self._clocks[stream][stream] = self._number
            return self._number

    def report(self, mistake: str, *where: str) -> None:
        """Note a mistake."""
        self.mistakes.append("\n    ".join([mistake, *where]))

    def _add(self, memory: Memory, access: Access) -> None:
        if access.begin == access.end:
            return
        for earlier in memory.accesses:
            overlap = access.begin < earlier.end and earlier.begin < access.end
            if overlap and (access.writes or earlier.writes) and not self._is_before(earlier, access.stream):
                self.report(
                    f"{access.what} on stream {access.stream} does not wait for {earlier.what} on stream "
                    f"{earlier.stream}, and one of them writes",
                    access.where,
                    earlier.where,
                )
        memory.accesses = [each for each in memory.accesses if not _implies(access, each)]
        memory.accesses.append(access)

    def _is_before(self, access: Access, stream: int) -> bool:
        known = max(self._clocks[stream].get(access.stream, 0), self._cpu.get(access.stream, 0))
        return access.stream == stream or access.number <= known


def _join(clock: Clock, other: Clock) -> None:
    for stream, number in other.items():
        clock[stream] = max(clock.get(stream, 0), number)


def _implies(later: Access, earlier: Access) -> bool:
    """Return whether what waits for the later access, and does not conflict with it, waits for the earlier one."""
    within = later.begin <= earlier.begin and earlier.end <= later.end
    return later.stream == earlier.stream and within and (later.writes or not earlier.writes)


def _bytes_of(data: Tensor) -> tuple[int, int]:
    """Return the bytes of the storage between the first and the last element."""
    if not data.numel():
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(data.shape, data.stride(), strict=True))
    begin = data.storage_offset()
    return begin * data.itemsize, (begin + last + 1) * data.itemsize


def _find_callers() -> str:
    """Return the innermost places in the library and the tests."""
    places = [
        f"{frame.filename.rpartition('/src/')[2]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_stack()
        if ("/theodolite/" in frame.filename or "/tests/" in frame.filename)
        and "/site-packages/" not in frame.filename
        and "/simulated_gpus/" not in frame.filename
    ]
    return " < ".join(reversed(places[-SHOWN_FRAMES:]))


MACHINE = Machine(2)
