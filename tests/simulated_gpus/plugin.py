"""A plugin of pytest that installs two simulated GPUs: `python -m pytest -p tests.simulated_gpus.plugin`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.simulated_gpus.machine import MACHINE
from tests.simulated_gpus.tensors import GpuTensor, get_values, launch, resolve, run
from torch import Tensor
from torch.utils._device import _device_constructors

MEMORY = 4 * 2**30
SOURCE = Path(__file__).with_name("guard.cpp")


class Stream:
    """What `torch.cuda.Stream` is on a GPU."""

    def __init__(self, device: Any = None, priority: int = 0, *, number: int | None = None) -> None:
        self.number = MACHINE.add_stream(_index(device)) if number is None else number
        self.device = torch.device("cuda", MACHINE.device_of(self.number))

    def wait_stream(self, other: Stream) -> None:
        MACHINE.wait(self.number, MACHINE.clock(other.number))

    def wait_event(self, event: Event) -> None:
        MACHINE.wait(self.number, event.clock)

    def synchronize(self) -> None:
        MACHINE.wait_on_cpu(MACHINE.clock(self.number))


class Event:
    """What `torch.cuda.Event` is on a GPU."""

    def __init__(self, **options: Any) -> None:
        self.clock: dict[int, int] = {}

    def record(self, stream: Stream | None = None) -> None:
        self.clock = MACHINE.clock((stream or _current_stream()).number)

    def synchronize(self) -> None:
        MACHINE.wait_on_cpu(self.clock)


def _index(device: Any = None) -> int:
    return resolve("cuda" if device is None else device).index


def _current_stream(device: Any = None) -> Stream:
    return Stream(number=MACHINE.current_stream(_index(device)))


def _default_stream(device: Any = None) -> Stream:
    return Stream(number=MACHINE.default_streams[_index(device)])


@contextmanager
def _use_stream(stream: Stream) -> Iterator[None]:
    index = stream.device.index
    before = MACHINE.current_stream(index)
    with torch.cuda.device(index):
        MACHINE.set_current_stream(index, stream.number)
        try:
            yield
        finally:
            MACHINE.set_current_stream(index, before)


def _load_guard() -> tuple[Callable[[], int], Callable[[int], None]]:
    """Compile and load the functions that get and set the current GPU."""
    root = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "guard.so"
        command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{root / 'include'}", str(SOURCE), "-o", str(made)]
        subprocess.run([*command, f"-L{root / 'lib'}", "-lc10"], check=True)
        library = ctypes.CDLL(str(made))
    return library.get_current_gpu, library.set_current_gpu


def install() -> None:
    """Make this process see two GPUs."""
    if torch.version.cuda is not None or shutil.which("g++") is None:
        raise pytest.UsageError("simulated GPUs require g++, and a PyTorch for CPUs only")
    get_current_gpu, set_current_gpu = _load_guard()
    MACHINE.current_gpu, MACHINE.installed = get_current_gpu, True
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda func, *args, **kwargs: run(func, args, kwargs), "CUDA")
    install.library = library  # type: ignore[attr-defined]  # it ends with its last reference

    @contextmanager
    def use_device(device: Any) -> Iterator[None]:
        before = get_current_gpu()
        set_current_gpu(device if isinstance(device, int) else _index(device))
        try:
            yield
        finally:
            set_current_gpu(before)

    properties = SimpleNamespace(name="simulated", total_memory=MEMORY, major=9, minor=0, multi_processor_count=4)
    for name, function in {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *options: True,
        "device_count": lambda: MACHINE.gpus,
        "current_device": lambda: int(get_current_gpu()),
        "set_device": lambda device: set_current_gpu(_index(device)),
        "device": use_device,
        "Stream": Stream,
        "Event": Event,
        "stream": _use_stream,
        "current_stream": _current_stream,
        "default_stream": _default_stream,
        "synchronize": lambda device=None: MACHINE.wait_for_everything(),
        "empty_cache": lambda: None,
        "mem_get_info": lambda device=None: (MEMORY, MEMORY),
        "memory_reserved": lambda device=None: 0,
        "memory_allocated": lambda device=None: 0,
        "get_device_name": lambda device=None: properties.name,
        "get_device_capability": lambda device=None: (properties.major, properties.minor),
        "get_device_properties": lambda device=None: properties,
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda state, device=None: None,
        "get_rng_state_all": list,
        "set_rng_state_all": lambda states: None,
        "set_sync_debug_mode": lambda mode: setattr(MACHINE, "must_not_wait", mode in ("error", 2)),
        "manual_seed_all": lambda seed: None,
    }.items():
        setattr(torch.cuda, name, function)
    # What PyTorch asks its own allocator or driver for, and weights that are moved to a GPU.
    _device_constructors()  # remembers the functions to which `with torch.device(...)` applies
    Tensor.pin_memory = lambda self, device=None: self.clone()  # type: ignore[method-assign, assignment]
    torch.empty = _without(torch.empty, "pin_memory")  # type: ignore[assignment]
    for name, waits in (("tensor", True), ("arange", False), ("eye", False)):
        setattr(torch, name, _made_on_cpu(getattr(torch, name), waits))
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    _install_triton()


def _without(function: Callable[..., Any], option: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **{name: kwargs[name] for name in kwargs if name != option})


def _made_on_cpu(function: Callable[..., Tensor], waits: bool) -> Callable[..., Tensor]:
    def make(*args: Any, device: Any = None, **options: Any) -> Tensor:
        made = function(*args, **options)
        return made if device is None else made.to(device, non_blocking=not waits)

    return make


def _install_triton() -> None:
    """Let kernels take tensors on simulated GPUs, if the interpreter of Triton runs them."""
    from theodolite.optional_triton import INTERPRETED

    if not INTERPRETED:
        return
    from triton.runtime.interpreter import GridExecutor

    interpret = GridExecutor.__call__

    def run_kernel(self: Any, *args: Any, **options: Any) -> Any:
        given = [each for each in (*args, *options.values()) if isinstance(each, Tensor)]
        on_gpus = [each for each in given if isinstance(each, GpuTensor)]
        if not on_gpus:
            return interpret(self, *args, **options)
        name, places = self.fn.__name__, {each.device for each in given}
        if places != {resolve("cuda")}:
            MACHINE.report(f"{name} is launched on {resolve('cuda')} with tensors on {places}")
        before = [_bits(each).clone() for each in on_gpus]
        plain = [get_values(each) if isinstance(each, Tensor) else each for each in args]
        found = interpret(self, *plain, **options)
        # Which of its tensors a kernel writes is seen from what it has changed.
        changed = [not torch.equal(_bits(each), old) for each, old in zip(on_gpus, before, strict=True)]
        reads = [each for each, is_new in zip(on_gpus, changed, strict=True) if not is_new]
        launch(name, on_gpus[0].device.index, reads, compress(on_gpus, changed))
        return found

    GridExecutor.__call__ = run_kernel


def _bits(tensor: GpuTensor) -> Tensor:
    return tensor.data_on_cpu.contiguous().flatten().view(torch.uint8)


def pytest_configure() -> None:
    """Install GPUs before tests are imported, which ask for one."""
    install()


@pytest.fixture(autouse=True)
def _no_mistakes() -> Iterator[None]:
    """Fail a test after which an operation has not waited for another, or memory was free too early."""
    MACHINE.mistakes.clear()
    yield
    mistakes, MACHINE.mistakes = MACHINE.mistakes, []
    assert not mistakes, f"{len(mistakes)} mistakes in the use of streams and memory:\n" + "\n".join(mistakes[:5])
