"""Find the norm placement of blocks (pre, post, sandwich, ...) from a forward pass, not from module names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.models.hooks import first_tensor
from theodolite.models.norms import Norm, copy_if_small, identify_copy
from theodolite.models.stacks import number_calls
from theodolite.models.text_anatomy import Anatomy, make_probe


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a module, as rows of the width of the block. All (tokens, dim)."""

    module: nn.Module
    key: tuple[int, int]  # the id of the module, and the number of the call
    inputs: tuple[Tensor, ...]  # the arguments that are rows
    output: Tensor
    single_input: bool  # the call had one argument

    def without_first(self) -> Call:
        """Return the call without the first row."""
        return replace(self, inputs=tuple(each[1:] for each in self.inputs), output=self.output[1:])


@dataclass
class ForwardTrace:
    """One forward pass: input and output of each block, the calls within each, and the calls outside of them."""

    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    calls: list[list[Call]] = field(default_factory=list)
    outside: list[Call] = field(default_factory=list)


def trace_forward(anatomy: Anatomy, block_inputs: Sequence[Tensor] | None = None) -> ForwardTrace:
    """Run the probe and record the inputs and outputs of all modules.

    With `block_inputs`, every block is run on that input instead, its first row replaced by its last.
    """
    probe = make_probe(anatomy.model)
    rows = int(probe["input_ids"].shape[1])
    trace = ForwardTrace(calls=[[] for _ in anatomy.blocks])
    inside: set[int] = set()
    running: dict[int, int] = {}  # by block, its calls so far
    with ExitStack() as hooks, torch.no_grad():
        for block in dict.fromkeys(anatomy.blocks):
            hooks.callback(block.register_forward_pre_hook(_count_calls(running)).remove)
        for number, (block, call) in enumerate(zip(anatomy.blocks, number_calls(anatomy.blocks), strict=True)):
            replacement = None if block_inputs is None else _replace_first_row(block_inputs[number])
            only = partial(_only_in_call, running, id(block), call)
            pre = only(_record_input(trace.inputs, rows, replacement))
            hooks.callback(block.register_forward_pre_hook(pre, with_kwargs=True).remove)
            parts = [module for module in block.modules() if module is not block]
            inside |= {id(module) for module in (block, *parts)}
            for module in parts:
                record = only(_record_call(trace.calls[number], rows, anatomy.layers[number + 1].dim))
                hooks.callback(module.register_forward_hook(record, with_kwargs=True).remove)
            hooks.callback(block.register_forward_hook(only(_record_output(trace.outputs, rows))).remove)
        for module in anatomy.model.modules():
            if id(module) not in inside and not isinstance(module, nn.ModuleList):
                record = _record_call(trace.outside, rows, anatomy.layers[0].dim)
                hooks.callback(module.register_forward_hook(record, with_kwargs=True).remove)
        anatomy.model(**probe)
    return trace


def _count_calls(running: dict[int, int]) -> Callable[..., None]:
    def hook(module: nn.Module, args: Any) -> None:
        running[id(module)] = running.get(id(module), 0) + 1

    return hook


def _only_in_call(
    running: dict[int, int], block: int, call: int | None, hook: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a hook that does something only during one call of a block; None: during all."""
    return lambda *given: hook(*given) if call is None or running[block] == call + 1 else None


def _replace_first_row(state: Tensor) -> Tensor:
    return torch.cat([state[-1:], state[1:]])


def _record_input(kept: list[Tensor], rows: int, replacement: Tensor | None) -> Callable[..., Any]:
    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = args[0] if args else kwargs["hidden_states"]
        if replacement is not None:
            state = replacement.to(state.device).reshape(state.shape)
        kept.append(state.detach().reshape(rows, -1).cpu().clone())
        return ((state, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": state})

    return hook


def _record_output(kept: list[Tensor], rows: int) -> Callable[..., None]:
    def hook(_: nn.Module, args: Any, output: Any) -> None:
        kept.append(first_tensor(output).detach().reshape(rows, -1).cpu().clone())

    return hook


def _record_call(kept: list[Call], rows: int, dim: int) -> Callable[..., None]:
    def as_rows(value: Any) -> Tensor | None:
        fits = isinstance(value, Tensor) and value.is_floating_point() and value.shape[-1:] == (dim,)
        # A copy: Falcon adds the attention to the output of the feed-forward layer in place.
        return value.detach().reshape(rows, dim).cpu().clone() if fits and value.numel() == rows * dim else None

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        result = as_rows(first_tensor(output))
        if result is None:
            return
        inputs = tuple(state for value in (*args, *kwargs.values()) if (state := as_rows(value)) is not None)
        times = sum(call.module is module for call in kept)
        single = len(inputs) == len(args) + len(kwargs) == 1
        kept.append(Call(module, (id(module), times), inputs, result, single))

    return hook


PLACEMENTS = {
    "post": "the norm is applied to the sum of the stream and a sublayer, and is the output of the block (BERT)",
    "pre": "sublayers read the stream through a norm and add to the stream itself (GPT-2, Llama)",
    "sandwich": "sublayers read the stream through a norm, and a norm is applied to their output (Gemma 2)",
    "parallel": "attention and feed-forward read the same stream through a norm and are added together (GPT-J)",
    "branch": "a norm is applied only to the output of a sublayer, before it is added to the stream (OLMo 2)",
    "none": "the block has no norm",
}


@dataclass(frozen=True, eq=False)
class Placement:
    """The norm placement of the blocks (None if unknown), and the norms whose output is the state of a layer."""

    word: str | None
    output_norms: dict[int, Norm]  # by layer, for the layers whose state is the output of a norm


def find_placement(anatomy: Anatomy) -> Placement:
    """Find the norm placement of a model with two forward passes over a few tokens.

    The second pass runs every block on the input of the first pass with the first row replaced: other rows change
    only through attention. Norms are modules that compute one; a norm without a module is not found. If blocks
    differ, as the first block of ModernBERT does, the most frequent placement is returned.
    """
    return trace_placement(anatomy)()


@torch.no_grad()
def trace_placement(anatomy: Anatomy) -> Callable[[], Placement]:
    """Run the forward passes; return a function that finds the placement and does not use the model any more."""
    if len(anatomy.stacks) > 1:  # an encoder and a decoder may differ
        return lambda: Placement(None, {})
    trace = trace_forward(anatomy)
    other = trace_forward(anatomy, block_inputs=trace.inputs)
    norms = _Norms([call for calls in (*trace.calls, trace.outside) for call in calls])
    final, last = anatomy.final_norm, anatomy.layers[-1]
    final_copy = None if final is None else copy_if_small(final, last.dim)

    def find() -> Placement:
        words = [
            _classify(trace.inputs[k][1:], trace.outputs[k][1:], _calls(trace, k), norms, _mixed(trace, other, k))
            for k in range(len(trace.outputs))
        ]
        found = _find_output_norms(trace, norms)
        if final_copy is not None:
            found[last.index] = identify_copy(final_copy, last.dim)
        return Placement(
            Counter(words).most_common(1)[0][0],
            {layer: norm for layer, norm in found.items() if norm is not None},
        )

    return find


def _find_output_norms(trace: ForwardTrace, norms: _Norms) -> dict[int, Norm | None]:
    """Return, for the embeddings and each block, the norm whose output equals the state of the layer."""
    found = {0: _find_norm(trace.outside, trace.inputs[0], norms)}
    for k, output in enumerate(trace.outputs):
        found[k + 1] = _find_norm(_calls(trace, k), output[1:], norms)
    return found


class _Norms:
    """The norm of each module, if it is one; copies of the modules are tested when they are asked for, once."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._tried: dict[int, Norm | None] = {}
        self._copies: dict[int, nn.Module | None] = {}
        for call in calls:
            if call.single_input and id(call.module) not in self._copies:
                self._copies[id(call.module)] = copy_if_small(call.module, call.output.shape[-1])

    def of(self, call: Call) -> Norm | None:
        key = id(call.module)
        if key not in self._tried:
            copy = self._copies.get(key) if call.single_input else None
            self._tried[key] = None if copy is None else identify_copy(copy, call.output.shape[-1])
        return self._tried[key]


def _find_norm(calls: Sequence[Call], state: Tensor, norms: _Norms) -> Norm | None:
    for call in calls:
        if torch.equal(call.output, state) and (norm := norms.of(call)) is not None:
            return norm
    return None


def _calls(trace: ForwardTrace, block: int) -> list[Call]:
    """Return the calls in a block without the first row, which may be a massive position."""
    return [call.without_first() for call in trace.calls[block]]


def _mixed(trace: ForwardTrace, other: ForwardTrace, block: int) -> list[bool]:
    """Return for each call whether other rows than the replaced one changed, or the call is missing."""
    again = {call.key: call.without_first().output for call in other.calls[block]}
    return [not _near(call.without_first().output, again.get(call.key)) for call in trace.calls[block]]


def _classify(entered: Tensor, left: Tensor, calls: list[Call], known: _Norms, mixed: list[bool]) -> str | None:
    """Return the placement of the norms of a block from its input, its output and the calls within it."""
    norms = [call for call in calls if known.of(call) is not None]
    if not norms:
        return "none"
    outputs = [call.output for call in calls]
    reads = [each for call in calls for each in call.inputs]
    closes = any(torch.equal(norm.output, left) for norm in norms)
    before = any(
        torch.equal(norm.inputs[0], entered) or _is_multiple(left - norm.inputs[0], outputs) for norm in norms
    )
    after = any(
        any(torch.equal(norm.inputs[0], output) for output in outputs)
        and any(_near(left - norm.output, stream) for stream in [entered, *reads])
        for norm in norms
    )
    if closes:
        return "sandwich" if before else "post"
    if _parallel(left - entered, outputs, mixed):
        return "parallel"
    if before:
        return "sandwich" if after else "pre"
    return "branch" if after else None


def _parallel(added: Tensor, outputs: list[Tensor], mixed: list[bool]) -> bool:
    """Return whether a block adds two outputs, one of which does not depend on attention."""
    through = [output for output, yes in zip(outputs, mixed, strict=True) if yes]
    past = [output for output, yes in zip(outputs, mixed, strict=True) if not yes]
    return any(_is_combination(added, [one, two]) for one in through for two in past)


def _is_multiple(added: Tensor, outputs: list[Tensor]) -> bool:
    return any(_is_combination(added, [output]) for output in outputs)


def _is_combination(added: Tensor, parts: list[Tensor]) -> bool:
    """Return whether a tensor is a linear combination of parts: some models scale the output of a sublayer."""
    columns = torch.stack([part.flatten() for part in parts], dim=1).double()
    target = added.flatten().double()
    if not (columns.isfinite().all() and target.isfinite().all() and columns.any(dim=0).all()):
        return False
    columns /= columns.norm(dim=0)
    weights = torch.linalg.lstsq(columns.T @ columns, (columns.T @ target)[:, None]).solution[:, 0]
    residual = (target - columns @ weights).norm()
    needed = bool((weights.abs() > 1e-3 * target.norm()).all())
    return needed and bool(residual <= _tolerance(added) * target.norm())


def _near(one: Tensor, other: Tensor | None) -> bool:
    if other is None or one.shape != other.shape:
        return False
    return bool((one - other).norm() <= _tolerance(one) * one.norm())


def _tolerance(states: Tensor) -> float:
    """Return the relative rounding error of sums: 3e-4 in float32."""
    return math.sqrt(torch.finfo(states.dtype).eps)
