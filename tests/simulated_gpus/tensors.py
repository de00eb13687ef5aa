"""Tensors on simulated GPUs: each wraps a tensor on the CPU, with which its operations are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from tests.simulated_gpus.machine import MACHINE, Memory
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

aten = torch.ops.aten
NOISE = 0x55
"""What a copy to the CPU contains before the CPU has waited for it."""
ALLOWS_CPU_INDICES = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
SIZE_FROM_VALUES = {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_consecutive"}
"""Operations whose result has a size that the CPU waits for."""
PRODUCTS = {torch.matmul, Tensor.matmul, Tensor.__matmul__}
READS_NO_VALUES = ("_like", "aten::new_", "aten::empty")


class GpuTensor(Tensor):
    """A tensor on a simulated GPU."""

    data_on_cpu: Tensor
    memory: Memory

    @staticmethod
    def __new__(cls, data: Tensor, device: int) -> GpuTensor:
        memory = MACHINE.allocate(data, device)
        made: GpuTensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            data.size(),
            strides=data.stride(),
            storage_offset=data.storage_offset(),
            dtype=data.dtype,
            device=torch.device("cuda", device),
        )
        made.data_on_cpu, made.memory = data, memory
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in PRODUCTS and args[0].dim() == 1 < args[1].dim():  # otherwise a result is squeezed in place
            return func(args[0][None], args[1]).squeeze(-2)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def record_stream(self, stream: Any) -> None:
        self.memory.recorded.add(stream.number)

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def as_subclass(self, cls: Any) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        copy = self.detach().clone()
        return torch.nn.Parameter(copy, self.requires_grad) if getattr(self, "_is_param", False) else copy

    def __repr__(self, **options: Any) -> str:
        return f"{self.data_on_cpu!r} on {self.device}"


def resolve(device: Any) -> torch.device:
    """Return the device, with the number of the current GPU if it has none."""
    found = torch.device(device)
    without_number = found.type == "cuda" and found.index is None
    return torch.device("cuda", MACHINE.current_gpu()) if without_number else found


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute an operation on the CPU, and put it on the current stream of its device."""
    if func in (aten._to_copy.default, aten.copy_.default):
        return _copy(func, args, kwargs)
    leaves, spec = tree_flatten((args, kwargs))
    device = _find_device(func, leaves, kwargs)
    own = [each.data_on_cpu if isinstance(each, GpuTensor) else each for each in leaves]
    own_args, own_kwargs = tree_unflatten(own, spec)
    if "device" in own_kwargs:
        own_kwargs["device"] = torch.device("cpu")
    own_kwargs.pop("pin_memory", None)
    found = OTHERWISE.get(func, func)(*own_args, **own_kwargs)
    known = {id(each.data_on_cpu): each for each in leaves if isinstance(each, GpuTensor)}

    def wrap(each: Any) -> Any:
        if not isinstance(each, Tensor):
            return each
        return known[id(each)] if id(each) in known else GpuTensor(each, device)

    made = tree_map(wrap, found)
    if any(each.shape != each.data_on_cpu.shape for each in known.values()):
        raise NotImplementedError(f"{func} changes the shape of a tensor, which simulated GPUs do not support")
    _launch(func, device, args, kwargs, made)
    by_mask = func in ALLOWS_CPU_INDICES and any(
        isinstance(index, Tensor) and index.dtype == torch.bool for index in args[1]
    )
    without_tensor = not any(isinstance(each, Tensor) for each in tree_leaves(made))  # such as `item`
    if without_tensor or func._schema.name in SIZE_FROM_VALUES or by_mask:
        MACHINE.wait_for_result(func._schema.name, MACHINE.current_stream(device))
    return made


def _find_device(func: Any, leaves: Iterable[Any], kwargs: dict[str, Any]) -> int:
    """Return the GPU on which all tensors are; raise as PyTorch does if there is none."""
    tensors = [each for each in leaves if isinstance(each, Tensor)]
    given = None if kwargs.get("device") is None else resolve(kwargs["device"])
    places = {each.device for each in tensors if isinstance(each, GpuTensor)}
    if given is not None:
        places = {given} if _reads_no_values(func) else places | {given}
    elsewhere = [each for each in tensors if not isinstance(each, GpuTensor) and each.dim()]
    if elsewhere and func not in ALLOWS_CPU_INDICES:
        places.add(torch.device("cpu"))
    if len(places) != 1 or next(iter(places)).type != "cuda":
        raise RuntimeError(f"{func}: expected all tensors on one GPU, but found {sorted(map(str, places))}")
    return next(iter(places)).index


def _reads_no_values(func: Any) -> bool:
    return any(part in func._schema.name for part in READS_NO_VALUES)


def _launch(func: Any, device: int, args: Any, kwargs: dict[str, Any], made: Any) -> None:
    """Put the operation on the current stream: what it reads and writes follows from its schema."""
    schema = func._schema
    is_view = any(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns)
    if is_view or schema.name.startswith(("aten::empty", "aten::new_empty")):
        return  # nothing runs
    given = dict(zip((each.name for each in schema.arguments), args, strict=False)) | kwargs
    written = [each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    writes = [*_gpu_tensors([given.get(name) for name in written]), *_gpu_tensors(made)]
    reads = [] if _reads_no_values(func) else _gpu_tensors([given[name] for name in given if name not in written])
    launch(schema.name, device, reads, writes)


def launch(what: str, device: int, reads: Iterable[GpuTensor], writes: Iterable[GpuTensor]) -> int:
    """Put an operation on these tensors on the current stream of a device; return its number."""
    used = {id(each): each for each in writes}.values()
    return MACHINE.launch(
        what,
        device,
        [(each.memory, each.data_on_cpu) for each in reads],
        [(each.memory, each.data_on_cpu) for each in used],
    )


def _gpu_tensors(tree: Any) -> Iterator[GpuTensor]:
    return (each for each in tree_leaves(tree) if isinstance(each, GpuTensor))


def _copy(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Copy between devices or to another type. The CPU waits for a copy from or to it, but if `non_blocking`."""
    if func is aten.copy_.default:
        target, source = args[:2]
        waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        get_values(target).copy_(get_values(source))
    else:
        source = args[0]
        waits = not kwargs.get("non_blocking", False)
        others = {name: kwargs[name] for name in kwargs if name not in ("device", "non_blocking", "pin_memory")}
        values = func(get_values(source), **others)
        device = source.device if kwargs.get("device") is None else resolve(kwargs["device"])
        target = values if device.type == "cpu" else GpuTensor(values, device.index)
    if not isinstance(source, GpuTensor):
        stream = MACHINE.current_stream(target.device.index)
        launch("copy from the CPU", target.device.index, [], [target])
    elif isinstance(target, GpuTensor):
        _copy_between_gpus(source, target)
        return target
    else:
        stream = MACHINE.current_stream(source.device.index)
        number = launch("copy to the CPU", source.device.index, [source], [])
        if not waits:
            MACHINE.copy_later(stream, number, target, target.clone())
            target.untyped_storage().fill_(NOISE) if target.is_contiguous() else target.fill_(NOISE)
    if waits:
        MACHINE.wait_for_result("copy", stream)
    return target


def get_values(tensor: Tensor) -> Tensor:
    """Return the tensor on the CPU."""
    return tensor.data_on_cpu if isinstance(tensor, GpuTensor) else tensor


def _copy_between_gpus(source: GpuTensor, target: GpuTensor) -> None:
    """Copy on the stream of the source; as in PyTorch, the streams of both devices wait for each other."""
    of_source, of_target = (MACHINE.current_stream(each.device.index) for each in (source, target))
    MACHINE.wait(of_source, MACHINE.clock(of_target))
    launch("copy", source.device.index, [source], [target])
    MACHINE.wait(of_target, MACHINE.clock(of_source))


def _attend(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, causal: bool, scale: float | None) -> Tensor:
    """Attend within windows. (1, tokens, heads, dim) each"""
    from theodolite.sources.text.packed_attention import WindowSpans, _attend_one_by_one

    return _attend_one_by_one(q, k, v, WindowSpans(starts, 0), causal, scale)


def _flash(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, *more: Any, scale: float | None = None) -> Any:
    made = _attend(q[None], k[None], v[None], starts, bool(more[4]), scale)[0]
    return made, *(q.new_zeros(0) for _ in range(4))


def _efficient(
    q: Tensor, k: Tensor, v: Tensor, _: None, starts: Tensor, *more: Any, scale: float | None = None
) -> Any:
    made = _attend(q, k, v, starts, bool(more[4]), scale)
    return made, *(q.new_zeros(0) for _ in range(3)), more[1], more[2]


def _in_type(product: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *factors, **options: product(*(each.to(factors[-1]) for each in factors[:-1]), **options)


OTHERWISE: dict[Any, Callable[..., Any]] = {
    aten._flash_attention_forward.default: _flash,
    aten._efficient_attention_forward.default: _efficient,
    aten._fused_sdp_choice.default: lambda *args, **kwargs: 0,  # plain operations
    aten.is_pinned.default: lambda *args, **kwargs: False,
    aten.mm.dtype: _in_type(torch.mm),
    aten.bmm.dtype: _in_type(torch.bmm),
}
"""What the CPU computes instead of operations that it does not have."""
