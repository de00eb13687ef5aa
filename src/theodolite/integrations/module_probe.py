"""Probes of other models than text transformers: any module over given inputs, and pooled sentence vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.integrations.model_state import strip_wrappers
from theodolite.integrations.probe import GeometryProbe
from theodolite.integrations.probe_options import list_texts
from theodolite.integrations.probe_set import ProbeSet
from theodolite.integrations.sharding import is_sharded
from theodolite.integrations.share import make_share
from theodolite.models.media_anatomy import MAPS
from theodolite.sources.media.modules import CallSignature, ModuleFeeder, find_modules, list_inputs, list_names
from theodolite.sources.media.source import MediaSource
from theodolite.surveys.watch import WatchedInputs, find_inputs_dim
from theodolite.text import pluralize

TEXT_OPTIONS = ("layers", "positions", "limit", "max_tokens", "streams", "training_batches")
BATCH = 32  # sentences that are run together


class ModuleProbe(GeometryProbe):
    """Measures the outputs of named submodules of any model, such as a speech or vision model, over fixed inputs.

    `inputs` and `modules` are those of `theodolite.watch`, and so are `counts`, `maps`, `layout`, `item_dim` and
    `argument`. All other options are those of `GeometryProbe`, except those that choose texts and layers. In
    distributed training the inputs are dealt to the processes, so give at least as many as there are processes.

        probe = ModuleProbe([{"pixel_values": images}], ["vit.layers.5", "vit.layernorm"], every=100, out="series")
        for step, batch in enumerate(batches):
            probe(model, step, loss=train(model, batch))
    """

    def __init__(
        self,
        inputs: Any,
        modules: Iterable[str] | str,
        *,
        counts: Callable[[Mapping[str, Tensor]], Sequence[int]] | None = None,
        maps: str = "places",
        layout: str | Mapping[str, str] | None = None,
        item_dim: int | None = None,
        argument: str | None = None,
        **options: Any,
    ) -> None:
        for name in TEXT_OPTIONS:
            if name in options:
                raise InputError(f"{name} is for text models; choose inputs and modules.")
        if maps not in MAPS:
            raise InputError(f"maps {maps!r} is not one of {', '.join(MAPS)}.")
        super().__init__([], **options)
        self._inputs, self._modules = list_inputs(inputs), list_names(modules)
        if not len(self._inputs):
            raise InputError("inputs: expected at least one.")
        self._maps, self._item_dim = maps, item_dim
        self._counts, self._layout, self._argument = counts, layout, argument

    def _unwrap(self, model: Any) -> tuple[nn.Module, nn.Module, bool]:
        if not isinstance(model, nn.Module):
            raise InputError(f"model: expected a torch.nn.Module, got a value of type {type(model).__name__}.")
        root = strip_wrappers(model)
        return root, root, is_sharded(root)

    def _make_set(self, network: nn.Module, sharded: bool) -> ProbeSet:
        with self.processes.fail_together():
            given = self._open_inputs(network)
            flat = self._maps == "flat"
            anatomy = find_modules(
                network, self._modules, given, flat=flat, item_dim=given.item_dim, layout=self._layout
            )
            if sharded:  # all processes must run the whole model
                anatomy = replace(anatomy, complete=True)
            digest = given.sha256()
            feeder = ModuleFeeder(given[0], anatomy.rows, given.item_dim)
            key = int(digest[:16], 16)
            source = MediaSource(network, feeder, corpus_key=key, flat=flat, anatomy=anatomy)
        share = make_share(
            range(len(given)),
            lambda part: source.prepare([(number, given[number]) for number in part]),
            self.processes,
            sharded=sharded,
        )
        facts = {"name": pluralize(len(given), "input"), "sha256": digest, "documents": len(given)}
        about = {"modality": "module", "blocks": len(anatomy.layers), "causal": False}
        settings = {"maps": self._maps, "modules": [layer.name for layer in anatomy.layers]}
        return ProbeSet(source, share, facts, about, settings)

    def _open_inputs(self, network: nn.Module) -> WatchedInputs:
        call = CallSignature(network, self._argument)
        given = WatchedInputs(self._inputs, self._counts, None, call, self._item_dim or 0)
        if self._item_dim is None:
            given.item_dim = find_inputs_dim(network, call.keywords(given.inputs[0], 0))
        return given


class SentenceProbe(ModuleProbe):
    """Measures the sentence vectors of a model of sentence-transformers, after pooling and all later modules.

    They are what a vector store holds, and the layer is named "sentence". `GeometryProbe` measures the token
    states of the same model.

        probe = SentenceProbe(texts, every=100, out="series")
        probe(model, step)
    """

    def __init__(self, texts: Iterable[str], **options: Any) -> None:
        sentences = list_texts(texts)
        if isinstance(texts, str) or not sentences:
            raise InputError("texts requires a list of sentences, at least one.")
        super().__init__([{}], "sentence", **options)
        self._sentences = sentences

    def _unwrap(self, model: Any) -> tuple[nn.Module, nn.Module, bool]:
        _, root, sharded = super()._unwrap(model)
        if not hasattr(root, "tokenize"):
            raise InputError(f"model: expected a SentenceTransformer, got a value of type {type(root).__name__}.")
        return _PooledModel(root), root, sharded

    def _open_inputs(self, network: nn.Module) -> WatchedInputs:
        model: Any = network.model
        read = getattr(model, "preprocess", None) or model.tokenize
        parts = [self._sentences[at : at + BATCH] for at in range(0, len(self._sentences), BATCH)]
        self._inputs = [dict(read(part)) for part in parts]
        return super()._open_inputs(network)


class _PooledModel(nn.Module):
    """A model of sentence-transformers that returns its sentence vectors through a module of its own."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.sentence = model, nn.Identity()

    def forward(self, **features: Any) -> Any:
        """Return the sentence vectors. (sentences, dim)"""
        return self.sentence(self.model(dict(features))["sentence_embedding"])
