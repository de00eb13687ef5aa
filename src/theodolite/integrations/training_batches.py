"""Sums over the states that the forward passes of the training compute anyway: no other pass is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from theodolite.batch import Batch, Places
from theodolite.errors import InputError, first_line
from theodolite.hashing import mix
from theodolite.integrations.measure import measure_folds
from theodolite.integrations.model_state import default_torch
from theodolite.integrations.processes import Processes
from theodolite.integrations.user_warnings import warn_user
from theodolite.models.loaded_model import is_compiled
from theodolite.sources.rows import locate_rows
from theodolite.sources.text.source import TextSource
from theodolite.statistics.cuda.context import GpuContext
from theodolite.statistics.cuda.fold import GpuFold
from theodolite.statistics.cuda.transfer import fetch, send
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.sinks import BatchLayers

GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, modulo 1, are evenly spread, and in no step with pairs of passes or accumulated gradients."""


class HeldStates(NamedTuple):
    """The states of a layer until the end of the pass, and the version that they had: a later one is another."""

    layer: int
    states: Tensor
    version: int


@dataclass
class Pass:
    """A forward pass that is being folded."""

    number: int
    inputs: Mapping[str, Any]
    hooks: ExitStack = field(default_factory=ExitStack)
    held: list[HeldStates] = field(default_factory=list)
    counted: dict[str, Callable[[], Any]] = field(default_factory=dict)  # by stack: waits for `_find_counted`


class TrainingBatches:
    """Folds the layers of a source in one of `every` forward passes of the training, from `start` to `finish`.

    A pass counts if the model is in training mode and gradients are computed, and not if a backward pass runs it
    again (gradient checkpointing). Only the passes that are folded have hooks inside the model. The sums are about
    the centres of the probe set, and on the device of the states.

    The states are held, not copied, and folded when the pass has been queued: a GPU then computes the pass while
    the CPU reads the mask and sorts the positions, and neither waits for the other.
    """

    def __init__(
        self, model: nn.Module, base: nn.Module, source: TextSource, every: int, processes: Processes
    ) -> None:
        if is_compiled(model):
            raise InputError(
                "training_batches: the model is compiled, and compiled code does not call hooks; train it without "
                "torch.compile, or measure the probe set only."
            )
        self._base, self._every, self._processes = base, every, processes
        self._source = source.narrowed([layer for layer in source.layers if layer.units])
        self._stacks = {layer.index: layer.stack for layer in self._source.layers}
        self._signature = signature(base.forward)
        self._frames: Mapping[int, Frame] = {}
        self._passes = 0  # of the training so far
        self._pass: Pass | None = None
        self._overwritten: set[int] = set()  # layers whose states the model overwrites within a pass
        self._clear()
        self._handles: list[Any] = []
        self.attach()

    def __deepcopy__(self, memo: Any) -> TrainingBatches:
        return self  # a copy of the model, such as that of a moving average, is not folded

    def __reduce__(self) -> Any:
        return _NoBatches, ()  # nor is a pickled one

    def attach(self) -> None:
        """Add the hooks to the model."""
        self._handles = [
            self._base.register_forward_pre_hook(self._begin, with_kwargs=True),
            self._base.register_forward_hook(self._end, always_call=True),
        ]

    def detach(self) -> None:
        """Remove the hooks from the model."""
        for handle in self._handles:
            handle.remove()

    def start(self, frames: Mapping[int, Frame]) -> None:
        """Start a window: forget all sums, and use these frames by layer."""
        self._clear()
        self._frames = frames

    def _clear(self) -> None:
        self._folds: dict[int, LayerFold | GpuFold] = {}
        self._contexts: dict[torch.device, GpuContext] = {}
        self._unfinished = False  # whether a device has flagged rows that the CPU has not read
        self._folded = 0
        self._error: str | None = None

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or module is not self._base or _is_backward():
            return
        if not module.training or not torch.is_grad_enabled():
            return
        number, self._passes = self._passes, self._passes + 1
        if self._unfinished:  # what the CPU needs of the pass that was folded last is there by now
            with self._keep_error(self._source.device.type):
                self._finish_contexts()
        if not self._frames or self._error or number * GOLDEN % 1 >= 1 / self._every:
            return
        inputs = self._signature.bind_partial(*args, **kwargs).arguments
        inputs |= inputs.pop("kwargs", {})
        self._pass = Pass(number, inputs)
        self._pass.hooks.enter_context(self._source.read_states(self._hold))

    def _hold(self, index: int, states: Tensor) -> None:
        held, stack = self._pass, self._stacks[index]
        if held is None or self._error is not None:
            return
        with self._keep_error(states.device.type):
            if stack not in held.counted:
                held.counted[stack] = self._find_counted(stack, held.inputs, tuple(states.shape[:2]))
            kept = states.detach().clone() if index in self._overwritten else states.detach()
            held.held.append(HeldStates(index, kept, kept._version))

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or module is not self._base or _is_backward():
            return
        if self._pass is not None:
            held, self._pass = self._pass, None
            held.hooks.close()
            if output is not None and self._error is None:  # None if the pass has failed
                with self._keep_error(self._source.device.type):
                    self._fold(held)

    def _fold(self, held: Pass) -> None:
        """Add the states of all layers of a pass, or none if the model has overwritten some of them."""
        overwritten = {layer for layer, states, version in held.held if states._version != version}
        if overwritten:
            self._overwritten |= overwritten  # they are copied in later passes
            return
        layers = BatchLayers(cast(Any, self._folds))
        places = {stack: self._locate(held.number, wait()) for stack, wait in held.counted.items()}
        rows: dict[tuple[str, torch.device], Tensor | None] = {}
        for index, states, _ in held.held:
            if index not in self._folds:
                self._folds[index] = self._make_fold(index, states)
            at, counted = places[stack := self._stacks[index]]
            if (stack, states.device) not in rows:
                rows[stack, states.device] = None if counted is None else send(counted, states.device)
            layers.add(Batch(index, states.flatten(0, 1), at, rows[stack, states.device]))
        layers.finish()
        self._unfinished = bool(self._contexts)
        self._folded += 1

    def _finish_contexts(self) -> None:
        self._unfinished = False
        for context in self._contexts.values():
            context.finish()

    @contextmanager
    def _keep_error(self, device: str) -> Iterator[None]:
        """Run the body without gradients and autocast. An error, such as out of memory, ends the window only."""
        try:
            with default_torch(device):
                yield
        except Exception as error:
            self._error = f"{type(error).__name__}: {first_line(error, '')}".removesuffix(": ")

    def _make_fold(self, index: int, states: Tensor) -> LayerFold | GpuFold:
        fold = LayerFold(self._frames[index])
        if not states.is_cuda or fold.wide:
            return fold
        if states.device not in self._contexts:
            self._contexts[states.device] = GpuContext(states.device, overlap=True, max_deferred=len(self._stacks))
        return GpuFold(self._frames[index], self._contexts[states.device])

    def _locate(self, number: int, counts: Any) -> tuple[Places, Any]:
        """Return the places of the positions that count, and which of all they are; None: all."""
        item, _ = np.nonzero(counts)
        position = (counts.cumsum(axis=1) - 1)[counts]
        document = np.uint64(number * len(counts)) + item.astype(np.uint64)
        places = locate_rows(
            self._processes.rank,
            document=document,
            window=0,
            position=position,
            unit=np.zeros(len(position), dtype=np.int64),
            context=mix(self._processes.rank, document, position),
        )
        return places, None if counts.all() else np.flatnonzero(counts)

    def _find_counted(self, stack: str, inputs: Mapping[str, Any], shape: tuple[int, ...]) -> Callable[[], Any]:
        """Return a function that waits for which positions are not padding. (items, positions) bool"""

        def matches(name: str) -> bool:
            return isinstance(inputs.get(name), Tensor) and tuple(inputs[name].shape) == shape

        decodes = stack == "decoder"
        mask = "decoder_attention_mask" if decodes else "attention_mask"
        padding = getattr(self._base.config, "pad_token_id", None)
        if matches(mask):
            return fetch(inputs[mask].bool())
        if decodes and matches("labels"):  # the decoder reads them, one position later
            return fetch(inputs["labels"] != -100)
        if decodes and matches("decoder_input_ids") and padding is not None:
            counted = inputs["decoder_input_ids"] != padding
            counted[:, 0] = True  # the first one may be the padding token, too
            return fetch(counted)
        return lambda: np.ones(shape, dtype=bool)

    def finish(self, populations: Sequence[str]) -> pd.DataFrame | None:
        """Return the rows of layers.parquet of this window over all processes; None if there are none."""
        layers = [layer for layer in self._source.layers if layer.index in self._frames]
        with default_torch(self._source.device.type):
            self._finish_contexts()
            folds = {
                layer.index: self._hand_over(self._folds.get(layer.index), self._frames[layer.index])
                for layer in layers
            }
        for context in self._contexts.values():
            context.close()
        reports = self._processes.all_gather((self._folded, self._error))
        errors, folded = [error for _, error in reports if error], sum(passes for passes, _ in reports)
        if self._processes.first and (errors or not self._passes):
            warn_user(f"training_batches: they could not be folded: {errors[0]}" if errors else NOTHING)
        if errors or not folded:
            return None
        with default_torch(self._source.device.type):
            table = measure_folds(layers, folds, populations, processes=self._processes, device=self._device())
        table.insert(3, "passes", folded)
        return table

    @staticmethod
    def _hand_over(fold: LayerFold | GpuFold | None, frame: Frame) -> LayerFold:
        if isinstance(fold, GpuFold):
            return fold.hand_over()
        return LayerFold(frame) if fold is None else fold

    def _device(self) -> str | None:
        return str(next(iter(self._contexts))) if self._contexts else None


NOTHING = (
    "training_batches: no training pass was seen so far. The model must be run in training mode with gradients; "
    "compiled code (torch.compile) and copies of the model (DataParallel) are not seen."
)


class _NoBatches:
    """What hooks of a pickled model call."""

    def _begin(self, *call: Any) -> None:
        pass

    _end = _begin


def _is_backward() -> bool:
    return torch._C._current_graph_task_id() != -1
