"""A second queue of a GPU's work: statistics wait for memory while the model's products do not need it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class Side:
    """A stream beside the model's. What runs on it for one owner is over before the owner's next step begins."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._done: dict[int, torch.cuda.Event] = {}

    def lend(self, tensors: Sequence[Tensor]) -> None:
        """Let the stream use tensors of the model's stream, as they are now, however long it takes."""
        self._stream.wait_stream(torch.cuda.current_stream())
        for tensor in tensors:
            tensor.record_stream(self._stream)

    @contextmanager
    def running(self, owner: object) -> Iterator[None]:
        """Put work of the owner on the stream."""
        with torch.cuda.stream(self._stream):
            yield
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        self._done[id(owner)] = event

    def await_(self, owner: object) -> None:
        """Let the model's stream go on only after the owner's work here; the processor waits for nothing."""
        if id(owner) in self._done:
            torch.cuda.current_stream().wait_event(self._done[id(owner)])

    def join(self) -> None:
        """Let the model's stream go on only after all work here."""
        torch.cuda.current_stream().wait_stream(self._stream)
