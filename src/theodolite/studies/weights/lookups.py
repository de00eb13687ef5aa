"""Lookups: which tables a model reads for a few tokens, and which of their rows, whatever they are called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from theodolite.errors import InputError, first_line
from theodolite.sources.text.anatomy import probe


@dataclass(frozen=True)
class Lookup:
    """One table that was read: its parameter, and the indices by which it was read."""

    name: str
    weight: Tensor  # (rows, width)
    indices: Tensor

    @property
    def by_pair(self) -> bool:
        """Say whether it was read once for every pair of tokens, as a table of relative positions is."""
        return self.indices.ndim >= 2 and self.indices.shape[-1] == self.indices.shape[-2] > 1

    def is_of(self, ids: Tensor) -> bool:
        """Say whether its rows are the tokens'."""
        return self.indices.shape[-1:] == ids.shape[-1:] and bool((self._flat() == ids).all())

    def offset(self, count: int) -> int | None:
        """Return the row of the first token where the rows go up by one from token to token, else nothing."""
        flat = self._flat()
        if flat.shape[-1] != count or count < 2:
            return None
        rising = bool((flat.diff() == 1).all()) and bool((flat == flat[:1]).all())
        return int(flat[0, 0]) if rising else None

    def is_constant(self, count: int) -> bool:
        """Say whether all tokens read the same row."""
        flat = self._flat()
        return flat.shape[-1] == count and bool((flat == flat[0, 0]).all())

    def _flat(self) -> Tensor:
        return (
            self.indices.reshape(-1, self.indices.shape[-1]) if self.indices.ndim else self.indices.reshape(1, 1)
        )


class _Watch(TorchFunctionMode):
    """Sees every embedding lookup. Modules may add offsets of their own, so hooks on them would not do."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if func is nn.functional.embedding:
            indices = args[0] if args else given["input"]
            weight = args[1] if len(args) > 1 else given["weight"]
            self.seen.append((weight, indices.detach().clone().cpu()))
        return func(*args, **given)


def lookups(model: nn.Module) -> tuple[Tensor, list[Lookup]]:
    """Run a few tokens through the model; return their ids, (tokens,), and the tables read, in order, each once.

    The ids go down, so that no table of words is taken for one of positions.
    """
    inputs = {name: value.flip(-1) if "ids" in name else value for name, value in probe(model).items()}
    ids = inputs["input_ids"][0].cpu()
    with torch.no_grad(), _Watch() as watch:
        try:
            model(**inputs)
        except (IndexError, KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            line = first_line(error)
            raise InputError(
                f"{type(model).__name__} does not run on a few tokens of its vocabulary, so which tables it reads "
                f"cannot be seen. ({line})"
            ) from error
    names = {id(parameter): name for name, parameter in (*model.named_buffers(), *model.named_parameters())}
    found: dict[int, Lookup] = {}
    for weight, indices in watch.seen:
        found.setdefault(id(weight), Lookup(names.get(id(weight), "(unnamed)"), weight, indices))
    return ids, list(found.values())
