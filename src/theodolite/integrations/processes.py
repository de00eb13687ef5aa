"""The processes of a distributed training run: gather objects between them, and fail together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from theodolite.errors import TheodoliteError, first_line


@dataclass(frozen=True)
class Processes:
    """This process and the others that train the same model. One process needs no communication.

    Sums are on the CPU, so they are sent through gloo, also if the gradients are sent through NCCL.

    >>> Processes().all_gather("mine"), Processes().broadcast(3)
    (['mine'], 3)
    """

    rank: int = 0
    size: int = 1
    group: Any = None

    @classmethod
    def find(cls, distributed: bool | None = None) -> Processes:
        """Return the processes of torch.distributed; only this one if it is not used, or without `distributed`."""
        running = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        if not running or distributed is False:
            return cls()
        group = None if "gloo" in str(dist.get_backend_config()) else dist.new_group(backend="gloo")
        return cls(dist.get_rank(), dist.get_world_size(), group)

    @property
    def first(self) -> bool:
        """Whether this process writes and warns for all."""
        return self.rank == 0

    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all processes, in order, to each of them."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.group)
        return values

    def gather(self, value: Any, to: int) -> list[Any]:
        """Return the values of all processes to one of them, and an empty list to the others."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.rank == to else None
        dist.gather_object(value, values, dst=to, group=self.group)
        return values or []

    def broadcast(self, value: Any) -> Any:
        """Return the value of the first process."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self.group)
        return values[0]

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """Raise in every process if the body fails in one: otherwise the others would wait for it forever."""
        try:
            yield
        except Exception as error:
            self.all_gather(f"{type(error).__name__}: {first_line(error, '')}".removesuffix(": "))
            raise
        for rank, failure in enumerate(self.all_gather(None)):
            if failure is not None:
                raise TheodoliteError(f"process {rank}: {failure}")
