"""A second queue of a GPU's work: products wait for nobody while the model's next block runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class Side:
    """A stream beside the model's; what is put on it is done in its order."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @contextmanager
    def running(self, lent: Sequence[Tensor]) -> Iterator[None]:
        """Put work on the stream that reads what is lent, as it is now, however long it takes."""
        self._stream.wait_stream(torch.cuda.current_stream())
        for tensor in lent:
            tensor.record_stream(self._stream)
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """Let the model's stream go on only after all work here."""
        torch.cuda.current_stream().wait_stream(self._stream)
