"""theodolite.watch: a survey of any module, over your own inputs; outputs of named submodules are the layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from theodolite.engines.engine import Documents, Plan
from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.models.layers import RESIDUAL
from theodolite.models.media_anatomy import ITEMS_FIRST, MAPS, MediaAnatomy
from theodolite.models.tensor_hash import tensors_sha256
from theodolite.sources.media.layouts import count_items, find_item_dim
from theodolite.sources.media.modules import (
    CallSignature,
    ModuleFeeder,
    ModuleInput,
    check_call,
    find_modules,
    list_inputs,
    list_names,
)
from theodolite.sources.media.source import MediaSource, find_device, move_inputs
from theodolite.statistics.cells import POPULATIONS
from theodolite.storage.location import parse_location
from theodolite.surveys.options import parse_size
from theodolite.surveys.provenance import (
    describe_corpus,
    describe_model,
    describe_settings,
    make_provenance,
)
from theodolite.surveys.run import run
from theodolite.surveys.survey import Survey
from theodolite.text import pluralize

SHARD = 8  # inputs
PILOT = 16  # inputs at most

Input = Tensor | Mapping[str, Any] | Sequence[Any]


def watch(
    model: nn.Module,
    inputs: Iterable[Input] | Input,
    modules: Iterable[str] | str = (),
    *,
    streams: str | Sequence[str] = (),
    layers: str | Sequence[int | str] | None = None,
    out: str | Path | None = None,
    counts: Callable[[Mapping[str, Tensor]], Sequence[int]] | None = None,
    labels: Sequence[Sequence[str]] | None = None,
    units: str = "none",
    maps: str = "places",
    layout: str | Mapping[str, str] | None = None,
    item_dim: int | None = None,
    argument: str | None = None,
    name: str | None = None,
    populations: Sequence[str] = tuple(POPULATIONS),
    sample_size: int = 4096,
    memory: int | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Survey:
    """Survey the outputs of named submodules of any model, over inputs that you have made.

    An input is what one call of the model takes, with items in the first dimension: a dict of keyword arguments; a
    tensor, passed as the first argument or as the one that `argument` names; or a tuple of arguments. `inputs` are
    several:
    a list, or a DataLoader or other iterable, which is read once and held in memory. A lone dict or tensor is one
    input, a lone string one module.

    The output of a module is read as (items, positions, dim), (items, dim) or a map (items, channels, height,
    width). Outputs with time first (positions, items, dim) are recognised by running the model on other items, and
    so are rows that belong to no item, such as those routed to an expert; `layout` ("items-first", "time-first" or
    "rows", for all modules or by name) overrides this. `item_dim` is the dimension of the items in the inputs: 0,
    or 1 if the model reads time first. A module called several times for an input is a layer for each call. With
    `maps="places"` a map is one vector per location, with "flat" one per item. `counts` returns, for
    an input, how many positions of each item are not padding; by default these are the sums of `attention_mask`,
    if there is one, which must be padded on the right. `labels` are the labels of the items of each input, for
    `units="label"`.

    Of a model of transformers with one stack of blocks, `streams` can be given instead of `modules`: what to read
    of every block, as for `theodolite survey --streams`, such as "residual,q,k,v,attn,mlp". `layers` selects
    blocks, or single layers such as "block 3/k"; without `streams`, it is what is read.

    >>> layer = nn.Linear(4, 3)
    >>> found = watch(nn.Sequential(layer), [torch.randn(8, 10, 4)], ["0"])
    >>> int(found.layers["n"].iloc[0]), int(found.layers["dim"].iloc[0])
    (80, 3)
    """
    if maps not in MAPS:
        raise InputError(f"maps {maps!r} is not one of {', '.join(MAPS)}.")
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model: expected a torch.nn.Module, got {type(model).__name__}. theodolite.survey takes names."
        )
    names = list_names(modules)
    read_streams = [name.strip() for name in streams.split(",")] if isinstance(streams, str) else list(streams)
    by_block = bool(read_streams) or layers is not None
    if names and by_block:
        raise InputError(f"modules and {'streams' if read_streams else 'layers'}: give one of them.")
    if item_dim not in (None, 0, 1):
        raise InputError(f"item_dim must be 0 or 1 (got {item_dim!r}).")
    given = WatchedInputs(list_inputs(inputs), counts, labels, CallSignature(model, argument), item_dim or 0)
    if not len(given):
        raise InputError("inputs: expected at least one.")
    with evaluation_mode(model):
        if item_dim is None:
            given.item_dim = find_inputs_dim(model, given.call.keywords(given.inputs[0], 0))
        if by_block:
            anatomy = _find_stack(model, given[0].inputs)
        else:
            flat = maps == "flat"
            anatomy = find_modules(model, names, given, flat=flat, item_dim=given.item_dim, layout=layout)
        digest = given.sha256()
        weights = tensors_sha256(model)
        source = MediaSource(
            model,
            ModuleFeeder(given[0], anatomy.rows, given.item_dim),
            corpus_key=int(digest[:16], 16),
            kind=units,
            flat=maps == "flat",
            anatomy=anatomy,
            layers=layers,
            streams=read_streams or (RESIDUAL,),
        )
        shards = list(range(-(-len(given) // SHARD)))

        def read(indices: Sequence[int]) -> Iterator[tuple[int, Documents]]:
            for index in indices:
                numbers = range(index * SHARD, min((index + 1) * SHARD, len(given)))
                yield index, [(number, given[number]) for number in numbers]

        pilot = np.sort(np.argsort(mix(source.corpus_key, np.arange(len(given))))[:PILOT])
        items = sum(count_items(given[number].inputs, given.item_dim) for number in range(len(given)))
        laid = {anatomy.layers[index].name: each for index, each in anatomy.layouts.items() if each != ITEMS_FIRST}
        provenance = make_provenance(
            model_identity={"sha256": weights},
            corpus_identity={"labelled": given.labelled_sha256()},
            settings=describe_settings(
                units,
                [layer.name for layer in source.layers],
                populations,
                sample_size,
                maps=maps,
                **({"layouts": laid} if laid else {}),
                **({"item_dim": given.item_dim} if given.item_dim else {}),
            ),
            model=describe_model(
                model,
                name=name or type(model).__name__,
                sha256=weights,
                revision=None,
                dtype=_dtype(model),
                device=str(find_device(model)),
                modality="module",
                blocks=len(anatomy.stacks[0].blocks) if by_block else len(anatomy.layers),
                causal=False,
            ),
            corpus=describe_corpus(pluralize(len(given), "input"), digest, items),
        )
        plan = Plan(
            source=source,
            corpus_sha256=digest,
            shards=shards,
            read=read,
            weight=lambda index: 1 / len(shards),
            pilot_documents=[(int(number), given[int(number)]) for number in pilot],
            weights_sha256=lambda: weights,
            identity=provenance.identity,
            facts=provenance.facts,
            populations=tuple(populations),
            sample_size=sample_size,
            types_bound=1 if units == "none" else max(items, 2**16),
            budget=None if memory is None else parse_size(memory),
        )
        folder = parse_location(out) if out is not None else None
        return run(plan, out=folder, resume=resume, overwrite=overwrite, listener=listener)


def _find_stack(model: nn.Module, inputs: Mapping[str, Any]) -> MediaAnatomy:
    """Return the anatomy of a model of transformers with one stack of blocks, of which streams can be read."""
    if getattr(getattr(model, "config", None), "model_type", None) is None:
        raise InputError(f"streams: {type(model).__name__} is not a model of transformers; name its modules.")
    found = MediaAnatomy.of(model, move_inputs(dict(inputs), find_device(model)), flat=False)
    if len(found.stacks) != 1:
        raise InputError(
            f"streams: {type(model).__name__} has {len(found.stacks)} stacks of blocks, whose padding may differ; "
            "give one of them, such as its encoder, or use theodolite.survey."
        )
    return found


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode, and restore the mode of every submodule at the end."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def find_inputs_dim(model: nn.Module, inputs: Mapping[str, Any]) -> int:
    """Return the dimension of the items in the inputs: 1 if the modules that read them have time first."""
    given = move_inputs(dict(inputs), find_device(model))
    try:
        return find_item_dim(model, given)
    except TypeError as error:
        check_call(model, given, error)
        raise


class WatchedInputs(Sequence[ModuleInput]):
    """The user's inputs, validated when they are read."""

    def __init__(
        self,
        inputs: Sequence[Input],
        counts: Callable[[Mapping[str, Tensor]], Sequence[int]] | None,
        labels: Sequence[Sequence[str]] | None,
        call: CallSignature,
        item_dim: int,
    ) -> None:
        if labels is not None and len(labels) != len(inputs):
            raise InputError(f"labels has {len(labels):,} lists for {pluralize(len(inputs), 'input')}.")
        self.inputs, self.counts, self.labels, self.call = inputs, counts, labels, call
        self.item_dim = item_dim

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> ModuleInput:  # type: ignore[override]
        inputs = self.call.keywords(self.inputs[number], number)
        labels = None if self.labels is None else tuple(self._label(number, each) for each in self.labels[number])
        items = count_items(inputs, self.item_dim)
        if labels is not None and len(labels) != items:
            raise InputError(f"labels of input {number}: {len(labels)} for {items} items.")
        return ModuleInput(inputs, self._counts(inputs), labels)

    def _label(self, number: int, label: object) -> str:
        if label is None or label != label:  # NaN differs from itself
            raise InputError(f"labels of input {number}: a label is missing ({label}); give every item one.")
        return str(label)

    def _counts(self, inputs: dict[str, Tensor]) -> tuple[int, ...] | None:
        if self.counts is not None:
            return tuple(int(count) for count in self.counts(inputs))
        mask = inputs.get("attention_mask")
        if mask is None or (self.item_dim and bool(mask.all())):
            return None
        if self.item_dim:
            raise InputError("inputs: padding of inputs with time first requires `counts`.")
        if not bool((mask[:, :-1] >= mask[:, 1:]).all()):
            raise InputError(
                "inputs: attention_mask is not padded on the right. Give `counts`, or pad on the right."
            )
        return tuple(int(count) for count in mask.sum(dim=1))

    def sha256(self) -> str:
        """Return a digest of the inputs."""
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
        """Return a digest of labels and counts, which the bytes of the inputs do not determine; None if absent."""
        if self.labels is None and self.counts is None:
            return None
        pairs = [(given.counts, given.labels) for given in map(self.__getitem__, range(len(self)))]
        return sha256(repr(pairs).encode()).hexdigest()


def _dtype(model: nn.Module) -> str | None:
    return next((str(parameter.dtype).removeprefix("torch.") for parameter in model.parameters()), None)


def _bytes(plain: Tensor) -> bytes:
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
