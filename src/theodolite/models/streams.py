"""Streams: what a block computes besides its output, and where a forward pass can read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from theodolite.errors import InputError, nearest
from theodolite.models.attention_calls import AttentionCall, intercept_attention
from theodolite.models.hooks import OnStates, first_tensor
from theodolite.models.layers import BY_HEAD, HEADS, RESIDUAL, STREAMS, Layer, choose_layers, split_layer_names
from theodolite.models.projections import LOOKED_FOR, Projection, find_projections
from theodolite.models.residual_writes import WriteSearch
from theodolite.models.stacks import Stack

SUPPORTED = "BERT, GPT-2, Llama and models with the same block, Phi-3, T5, ViT and Whisper"
ROTATED = {"q-rotated": "q", "k-rotated": "k"}


class Reading(NamedTuple):
    """A layer of a stream: its number, and the head, if it is that of a single one."""

    layer: int
    head: int | None


@dataclass(frozen=True, eq=False)
class BlockStreams:
    """The modules of one block at which its streams are read."""

    residual: int  # the number of the layer that is the output of the block
    name: str
    stack: str
    attention: nn.Module
    heads: int
    key_heads: int
    widths: Mapping[str, int]  # by stream, that of all heads; only streams that the block has
    projections: Mapping[str, Projection]  # of "q" and "k"
    writes: Mapping[str, nn.Module]  # of "attn", "cross" and "mlp"
    device: torch.device

    def count_heads(self, stream: str) -> int:
        """Return the number of heads of a stream."""
        return self.heads if stream.startswith("q") else self.key_heads


@dataclass(frozen=True, eq=False)
class Streams:
    """The streams of all blocks of a model, found by inspection and checked with a small forward pass."""

    blocks: tuple[BlockStreams, ...]
    layers: tuple[Layer, ...]  # all that exist; their numbers follow those of the residual stream
    of_layer: Mapping[int, tuple[BlockStreams, str, int | None]]  # block, stream and head

    @classmethod
    def of(
        cls,
        model: nn.Module,
        stacks: Sequence[Stack],
        residual: Sequence[Layer],
        run: Callable[[], Any],
    ) -> Streams:
        """Find the streams of a loaded model; `run` is a small forward pass of it."""
        try:
            blocks = _find_blocks(stacks, residual, run)
        except _UnknownBlockError as error:
            raise InputError(
                f"--streams and --attention cannot be used with {type(model).__name__}: {error}. Supported are "
                f"{SUPPORTED}."
            ) from None
        found: list[tuple[BlockStreams, str, int | None]] = [
            (block, stream, None) for stream in STREAMS for block in blocks if stream in block.widths
        ]
        found += [
            (block, stream, head)
            for stream in BY_HEAD
            for block in blocks
            if stream in block.widths
            for head in range(block.count_heads(stream))
        ]
        layers = []
        for index, (block, stream, head) in enumerate(found, start=len(residual)):
            name, width, heads = f"{block.name}/{stream}", block.widths[stream], 0
            if head is not None:
                name, width = f"{name}/head {head}", width // block.count_heads(stream)
            elif stream in BY_HEAD:
                heads = block.count_heads(stream)
            layer = Layer(index, name, width, None, block.stack, stream=stream, block=block.residual, heads=heads)
            layers.append(layer)
        return cls(tuple(blocks), tuple(layers), dict(enumerate(found, start=len(residual))))

    @contextmanager
    def capture(
        self,
        layers: Iterable[int],
        on_states: OnStates,
        attention: Mapping[int, Callable[[AttentionCall], None]] | None = None,
    ) -> Iterator[None]:
        """Pass the states of these layers to `on_states` in this context, (items, positions, dim) each.

        `attention` has functions by the number of a block's output, called with the attention of the block.
        """
        by_place: dict[tuple[int, str], list[Reading]] = {}
        for layer in layers:
            block, stream, head = self.of_layer[layer]
            by_place.setdefault((block.residual, stream), []).append(Reading(layer, head))

        def emit(readings: Sequence[Reading], by_head: Tensor) -> None:
            for layer, head in readings:
                on_states(layer, by_head.transpose(1, 2).flatten(2) if head is None else by_head[:, head])

        def project(projection: Projection, readings: Sequence[Reading], *call: Any) -> None:
            emit(readings, projection.split(first_tensor(call[-1])))

        def write(layer: int, *call: Any) -> None:
            on_states(layer, first_tensor(call[-1]))

        def attend(call: AttentionCall) -> None:
            block = by_module.get(id(call.module))
            if block is None:
                return
            for stream, vectors in (("v", call.value), ("q-rotated", call.query), ("k-rotated", call.key)):
                emit(by_place.get((block.residual, stream), ()), vectors)
            if block.residual in (attention or {}):
                (attention or {})[block.residual](call)

        by_module = {id(block.attention): block for block in self.blocks}
        with ExitStack() as hooks:
            for block in self.blocks:
                for stream, module in block.writes.items():
                    for layer, _ in by_place.get((block.residual, stream), ()):
                        hooks.callback(module.register_forward_hook(partial(write, layer)).remove)
                for stream, projection in block.projections.items():
                    if readings := by_place.get((block.residual, stream)):
                        hook = partial(project, projection, readings)
                        hooks.callback(projection.module.register_forward_hook(hook).remove)
            if attention or any(stream == "v" or stream in ROTATED for _, stream in by_place):
                hooks.enter_context(intercept_attention(attend))
            yield


class _UnknownBlockError(Exception):
    """A block whose streams cannot be read, and why."""


@torch.no_grad()
def _find_blocks(stacks: Sequence[Stack], residual: Sequence[Layer], run: Callable[[], Any]) -> list[BlockStreams]:
    """Run the model once; read each block when it returns, so that what one block computes is kept at a time."""
    numbers = {layer.name: layer.index for layer in residual}
    calls: list[AttentionCall] = []
    outputs: dict[int, Tensor] = {}
    found: list[BlockStreams] = []

    def finish(search: WriteSearch, stack: str, name: str, block: nn.Module, args: Any, output: Any) -> None:
        paths, parts = search.find(), {id(part) for part in block.modules()}
        if paths is None:
            raise _UnknownBlockError(f"{name} does not add what its attention and its MLP write to its input")
        call = next((call for call in calls if id(call.module) in parts), None)
        if call is None:
            raise _UnknownBlockError(f"the attention of {name} is not one of the functions of transformers")
        states = first_tensor(output)
        found.append(_read_block(block, states, call, paths, outputs, numbers[name], name, stack))
        calls.clear()
        outputs.clear()

    with ExitStack() as hooks:
        for stack in stacks:
            search = hooks.enter_context(WriteSearch(stack.blocks[0]))
            for number, block in enumerate(stack.blocks, start=1):
                for part in block.modules():
                    if part is not block:
                        hooks.callback(part.register_forward_hook(partial(_keep_output, outputs)).remove)
                name = f"{stack.name} {stack.word} {number}".strip()
                hooks.callback(block.register_forward_hook(partial(finish, search, stack.name, name)).remove)
        with intercept_attention(calls.append):
            run()
    return found


def _keep_output(outputs: dict[int, Tensor], module: nn.Module, args: Any, output: Any) -> None:
    if isinstance(made := first_tensor(output), Tensor):
        outputs[id(module)] = made


def _read_block(
    block: nn.Module,
    states: Tensor,
    call: AttentionCall,
    paths: Mapping[str, str],
    outputs: Mapping[int, Tensor],
    residual: int,
    name: str,
    stack: str,
) -> BlockStreams:
    heads, key_heads = call.query.shape[1], call.key.shape[1]
    if states.dim() != 3 or call.query.shape[2] != states.shape[1] or call.query.shape[0] != states.shape[0]:
        raise _UnknownBlockError(f"the queries of {name} have the shape {tuple(call.query.shape)}")
    known = find_projections(call.module, heads, key_heads)
    if known is None:
        raise _UnknownBlockError(f"{name} has no projections named {LOOKED_FOR}")
    projections, rotates = {}, False
    for kind, vectors in (("q", call.query), ("k", call.key)):
        projections[kind], rotated = _match(call.module, kind, known[kind], vectors, outputs, name)
        rotates |= rotated
    try:
        writes = {stream: block.get_submodule(path) for stream, path in paths.items()}
    except AttributeError:
        raise _UnknownBlockError(f"{name} differs from the first block") from None
    widths = {"q": call.query, "k": call.key, "v": call.value}
    widths |= {"q-rotated": call.query, "k-rotated": call.key} if rotates else {}
    sizes = {stream: int(vectors.shape[1] * vectors.shape[3]) for stream, vectors in widths.items()}
    sizes |= dict.fromkeys(writes, int(states.shape[-1]))
    return BlockStreams(
        residual, name, stack, call.module, heads, key_heads, sizes, projections, writes, states.device
    )


def _match(
    attention: nn.Module,
    kind: str,
    projection: Projection,
    vectors: Tensor,
    outputs: Mapping[int, Tensor],
    name: str,
) -> tuple[Projection, bool]:
    """Return the projection whose output enters the attention, and whether it is rotated before.

    A norm of queries or keys, if the attention has one, comes after the projection. A rotation and a factor
    leave the norms proportional, a factor alone also the vectors.
    """
    norm: Any = getattr(attention, f"{kind}_norm", None)
    candidates = [projection]
    if isinstance(norm, nn.Module):
        candidates = [replace(projection, module=norm, start=0, third=None, heads_first=f) for f in (False, True)]
    for candidate in candidates:
        output = outputs.get(id(candidate.module))
        if output is None or output.numel() < vectors.numel():
            continue
        own = candidate.split(output)
        if own.shape == vectors.shape and _proportional(own.float().norm(dim=-1), vectors.float().norm(dim=-1)):
            return candidate, not _proportional(own, vectors)
    raise _UnknownBlockError(f"the {kind} projection of {name} does not give what its attention reads")


def _proportional(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors differ by a factor and by rounding."""
    tolerance = 32 * max(torch.finfo(each.dtype).eps for each in (one, other))
    a, b = one.double().flatten(), other.double().flatten()
    size = a.norm() * b.norm()
    return bool(size == 0) or float((a @ b).abs() / size) > 1 - tolerance**2 / 2 - 1e-12


def check_streams(names: Sequence[str]) -> None:
    """Raise if a name is not that of a stream, or of the heads of one, such as "k/heads"."""
    known = [RESIDUAL, *STREAMS, *(f"{stream}{HEADS}" for stream in BY_HEAD)]
    for name in names:
        if name not in known:
            listed = ", ".join([RESIDUAL, *STREAMS])
            raise InputError(
                f"--streams {name!r} is not one of {listed}, or the heads of one, such as k/heads."
                f"{nearest(name, known)}"
            )


def choose_stream_layers(
    residual: Sequence[Layer],
    selection: str | Sequence[int | str] | None,
    streams: Sequence[str],
    find: Callable[[], Streams],
    *,
    attention: bool = False,
) -> tuple[tuple[Layer, ...], Streams | None]:
    """Return the selected layers of the residual stream and of others, and where the others are read.

    `find` looks for streams; it is called only if something other than the residual stream is selected. With
    `attention`, the outputs of blocks are marked as layers with which the attention of the block is measured.
    """
    check_streams(streams)
    names = split_layer_names(selection)[0] if selection is not None else []
    if not names and not attention and set(streams) <= {RESIDUAL}:
        return choose_layers(residual, selection), None
    found = find()
    _check_rotation(streams, found, residual)
    if names and split_layer_names(selection or "")[1] == [] and tuple(streams) == (RESIDUAL,):
        streams = ()  # only the layers that are named
    chosen = choose_layers(residual, selection, streams, found.layers)
    if not attention:
        return chosen, found
    heads = {block.residual: block.heads for block in found.blocks}
    marked = tuple(
        replace(layer, attention_heads=heads.get(layer.index, 0)) if layer.stream == RESIDUAL else layer
        for layer in chosen
    )
    if not any(layer.attention_heads for layer in marked):
        raise InputError(
            "--attention requires the output of a block: include residual in --streams, and a block in --layers."
        )
    return marked, found


def _check_rotation(streams: Sequence[str], found: Streams, residual: Sequence[Layer]) -> None:
    """Reject a stream that the blocks of the model do not have."""
    known = {layer.stream for layer in found.layers}
    for name in streams:
        if (stream := name.removesuffix(HEADS)) not in (RESIDUAL, *known):
            why = "it does not rotate queries and keys" if stream in ROTATED else "it has no cross-attention"
            raise InputError(f"--streams {stream}: the model has no such stream, because {why}.")
