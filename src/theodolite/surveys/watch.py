"""Surveying any module: inputs of one's own, and the submodules whose outputs are the layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.naming import several
from theodolite.sources.media.calling import Call, listed, names_of
from theodolite.sources.media.layout import MAPS
from theodolite.sources.media.modules import Given, ModuleFeeder, items_of, watched_modules
from theodolite.sources.media.source import MediaSource, device_of
from theodolite.statistics.cells import POPULATIONS
from theodolite.surveys.listener import Listener
from theodolite.surveys.pilot import MASSIVE
from theodolite.surveys.plan import Documents, Plan
from theodolite.surveys.run import run
from theodolite.surveys.storage import placed
from theodolite.surveys.survey import Survey

SHARD = 8  # inputs
PILOT = 16  # inputs at the most

Input = Tensor | Mapping[str, Any] | Sequence[Any]


def watch(
    model: nn.Module,
    inputs: Iterable[Input] | Input,
    modules: Iterable[str] | str,
    *,
    out: str | Path | None = None,
    counts: Callable[[Mapping[str, Tensor]], Sequence[int]] | None = None,
    labels: Sequence[Sequence[str]] | None = None,
    units: str = "none",
    maps: str = "places",
    argument: str | None = None,
    name: str | None = None,
    populations: Sequence[str] = tuple(POPULATIONS),
    sample_size: int = 4096,
    memory: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Survey:
    """Survey the outputs of named submodules of any model, over inputs that you have made.

    An input is what one call of the model takes, items first: a dict of keyword arguments; a tensor, passed as the
    first argument or the one that `argument` names; or a tuple of arguments, in their order. `inputs` are several:
    a list, or a DataLoader or other iterable, which is read once and held in memory. A lone dict or tensor is one
    input, a lone string one module.

    What a module gives out is read as (items, positions, dim), (items, dim) or a map (items, channels, height,
    width), `maps` of which are one vector a place or "flat", one an item. `counts` says from an input how many
    positions of each item are no padding; without it the sums of `attention_mask` do, where an input has one that
    is padded on the right. `labels` are the items' labels, input by input, for `units="label"`.

    >>> layer = nn.Linear(4, 3)
    >>> found = watch(nn.Sequential(layer), [torch.randn(8, 10, 4)], ["0"])
    >>> int(found.layers["n"].iloc[0]), int(found.layers["dim"].iloc[0])
    (80, 3)
    """
    if maps not in MAPS:
        raise InputError(f"maps {maps!r} is not one of {', '.join(MAPS)}.")
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model: wanted a torch.nn.Module, got {type(model).__name__}; theodolite.survey takes names."
        )
    names = names_of(modules)
    given = _Inputs(listed(inputs), counts, labels, Call(model, argument))
    if not len(given):
        raise InputError("inputs: wanted at least one.")
    with evaluating(model):
        anatomy = watched_modules(model, names, given[0], flat=maps == "flat")
        digest = given.sha256()
        weights = _weights_sha256(model)
        source = MediaSource(
            model,
            ModuleFeeder(given[0], anatomy.rows),
            corpus_key=int(digest[:16], 16),
            kind=units,
            flat=maps == "flat",
            anatomy=anatomy,
        )
        shards = list(range(-(-len(given) // SHARD)))

        def read(wanted: Sequence[int]) -> Iterator[tuple[int, Documents]]:
            for index in wanted:
                numbers = range(index * SHARD, min((index + 1) * SHARD, len(given)))
                yield index, [(number, given[number]) for number in numbers]

        pilot = np.sort(np.argsort(mix(source.corpus_key, np.arange(len(given))))[:PILOT])
        items = sum(items_of(given[number].inputs) for number in range(len(given)))
        plan = Plan(
            source=source,
            corpus_sha256=digest,
            shards=shards,
            read=read,
            weight=lambda index: 1 / len(shards),
            pilot_documents=[(int(number), given[int(number)]) for number in pilot],
            model_sha256=weights,
            identity={
                "model": {"sha256": weights},
                "corpus": {"sha256": digest, "labelled": given.labelled_sha256()},
                "settings": {
                    "units": units,
                    "layers": [layer.name for layer in anatomy.layers],
                    "populations": list(populations),
                    "maps": maps,
                    "sample_size": sample_size,
                    "massive": MASSIVE,
                },
            },
            facts={
                "model": {
                    "name": name or type(model).__name__,
                    "sha256": weights,
                    "revision": None,
                    "architecture": type(model).__name__,
                    "parameters": sum(parameter.numel() for parameter in model.parameters()),
                    "modality": "module",
                    "blocks": len(anatomy.layers),
                    "causal": False,
                    "dtype": _dtype(model),
                    "device": str(device_of(model)),
                },
                "tokenizer": None,
                "corpus": {
                    "name": several(len(given), "input"),
                    "sha256": digest,
                    "documents": items,
                    "characters": 0,
                    "read": items,
                },
            },
            populations=tuple(populations),
            sample_size=sample_size,
            types_bound=1 if units == "none" else max(items, 2**16),
            budget=memory,
        )
        folder = placed(out) if out is not None else None
        return run(plan, out=folder, resume=resume, overwrite=overwrite, listener=listener)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """While open, the model is in evaluation mode; afterwards every part of it is in the mode that it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


class _Inputs:
    """The user's inputs, checked as they are asked for."""

    def __init__(
        self,
        inputs: Sequence[Input],
        counts: Callable[[Mapping[str, Tensor]], Sequence[int]] | None,
        labels: Sequence[Sequence[str]] | None,
        call: Call,
    ) -> None:
        if labels is not None and len(labels) != len(inputs):
            raise InputError(f"labels has {len(labels):,} lists for {several(len(inputs), 'input')}.")
        self.inputs, self.counts, self.labels, self.call = inputs, counts, labels, call

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> Given:
        inputs = self.call.keywords(self.inputs[number], number)
        labels = None if self.labels is None else tuple(map(str, self.labels[number]))
        if labels is not None and len(labels) != items_of(inputs):
            raise InputError(f"labels of input {number}: {len(labels)} for {items_of(inputs)} items.")
        return Given(inputs, self._counts(inputs), labels)

    def _counts(self, inputs: dict[str, Tensor]) -> tuple[int, ...] | None:
        if self.counts is not None:
            return tuple(int(count) for count in self.counts(inputs))
        mask = inputs.get("attention_mask")
        if mask is None:
            return None
        if not bool((mask[:, :-1] >= mask[:, 1:]).all()):
            raise InputError("inputs: attention_mask is not padded on the right; give `counts`, or pad so.")
        return tuple(int(count) for count in mask.sum(dim=1))

    def sha256(self) -> str:
        digest = sha256()
        for number in range(len(self)):
            for name, value in sorted(self[number].inputs.items()):
                if isinstance(value, Tensor):
                    plain = value.detach().cpu().contiguous()
                    digest.update(f"{name} {tuple(plain.shape)} {plain.dtype} ".encode())
                    digest.update(_bytes(plain))
                else:
                    digest.update(f"{name} {value!r} ".encode())
        return digest.hexdigest()

    def labelled_sha256(self) -> str | None:
        """Return the digest of labels and of positions that count, which no input's bytes tell; None without."""
        if self.labels is None and self.counts is None:
            return None
        told = [(given.counts, given.labels) for given in map(self.__getitem__, range(len(self)))]
        return sha256(repr(told).encode()).hexdigest()


def _dtype(model: nn.Module) -> str | None:
    return next((str(parameter.dtype).removeprefix("torch.") for parameter in model.parameters()), None)


def _bytes(plain: Tensor) -> bytes:
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def _weights_sha256(model: nn.Module) -> str:
    digest = sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype} ".encode())
        digest.update(_bytes(value.detach().cpu().contiguous()))
    return digest.hexdigest()
