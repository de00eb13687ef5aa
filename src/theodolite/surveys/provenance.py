"""Provenance: what identifies a run, and what survey.json records about model and corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from theodolite.models.checkpoint import Checkpoint
from theodolite.models.loaded_model import LoadedModel
from theodolite.state.pilot import MASSIVE

DEFAULTS: dict[str, Any] = {
    f"settings.{name}": False
    for name in ("wrap", "clean_words", "contextuality", "layer_scores", "end_to_end", "chat", "attention")
}
DEFAULTS |= {"settings.attn": None, "settings.min_count": 1, "settings.by": None, "settings.by_top": None}
"""Settings that older surveys do not record, and their value in those."""
NOT_RECORDED = ("model.settings",)
"""What older surveys do not record: without it, nothing can be compared."""
FREE_TO_DIFFER_IN_MERGE = (
    "corpus.",
    "model.device",
    "settings.batch_tokens",
    "settings.shard_chars",
    "settings.end_to_end",
    "settings.attn",
)


DIGESTS = {
    "model.sha256": "the weights",
    "model.settings": "the settings of the model, its active adapters or its tokenizer, such as config.json",
    "tokenizer.sha256": "the vocabulary",
    "corpus.sha256": "the documents",
    "corpus.labels": "the labels",
    "corpus.by": "the values of --by",
    "settings.chat": "the chat template",
    "corpus.labelled": "the labels, or the positions that are not padding",
}
"""What is recorded as a digest, in words for people."""


def differences(
    there: Mapping[str, Any],
    here: Mapping[str, Any],
    *,
    merging: bool = False,
    places: tuple[str, str] = ("there", "now"),
) -> list[str]:
    """List what differs between two identities: "--units: 'id' there, 'word' now". `places` name the two.

    For merging less has to agree: corpora may differ, and batches change numbers only by rounding.
    """
    old, new = DEFAULTS | dict(_flat(there)), DEFAULTS | dict(_flat(here))
    return [
        f"{_option(name)}: {_format_value(name, old.get(name))} {places[0]}, "
        f"{_format_value(name, new.get(name))} {places[1]}{_meaning(name)}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
        and not (name in NOT_RECORDED and not (name in old and name in new))
        and not (merging and name.startswith(FREE_TO_DIFFER_IN_MERGE))
    ]


def _option(name: str) -> str:
    """Return the flag of a setting, or its name among the facts: "settings.max_tokens" -> "--max-tokens"."""
    for prefix in ("settings.", "corpus.filters."):
        if name.startswith(prefix):
            return "--" + name.removeprefix(prefix).replace("_", "-")
    return name


def _format_value(name: str, value: Any) -> str:
    if value is None:
        return "not given"
    return f"{str(value)[:8]}…" if name in DIGESTS and value else repr(value)


def _meaning(name: str) -> str:
    return f" ({DIGESTS[name]})" if name in DIGESTS else ""


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _flat(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item


class Provenance(NamedTuple):
    """What identifies a run, and what survey.json records about it."""

    identity: dict[str, Any]
    facts: dict[str, Any]


def make_provenance(
    *,
    settings: dict[str, Any],
    corpus: dict[str, Any],
    corpus_identity: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    model_identity: dict[str, Any] | None = None,
    tokenizer: dict[str, Any] | None = None,
    vocabulary_sha256: str | None = None,
) -> Provenance:
    """Return the identity and the facts of a run; what describes the model and the corpus goes into the facts."""
    identity: dict[str, Any] = {"model": model_identity or {}}
    if vocabulary_sha256 is not None:
        identity["tokenizer"] = {"sha256": vocabulary_sha256}
    identity["corpus"] = {"sha256": corpus["sha256"], **(corpus_identity or {})}
    identity["settings"] = settings
    return Provenance(identity, {"model": model, "tokenizer": tokenizer, "corpus": corpus})


def describe_settings(
    units: str, layers: Sequence[int | str], populations: Sequence[str], sample_size: int, **more: Any
) -> dict[str, Any]:
    """Return the settings that every survey has, and those of its kind."""
    return {
        "units": units,
        "layers": list(layers),
        "populations": list(populations),
        "sample_size": sample_size,
        "massive": MASSIVE,
        **more,
    }


def describe_model(
    network: Any, *, name: str, sha256: str, revision: str | None, dtype: str | None, device: str, **more: Any
) -> dict[str, Any]:
    """Return the name, the weights and the size of a model, and where it ran."""
    return {
        "name": name,
        "sha256": sha256,
        "revision": revision,
        "architecture": type(network).__name__,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "dtype": dtype,
        "device": device,
        **more,
    }


def describe_checkpoint(
    checkpoint: Checkpoint | LoadedModel,
    network: Any,
    dtype: str,
    device: str,
    *,
    sha256: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return what `describe_model` does for a checkpoint."""
    return describe_model(
        network,
        name=checkpoint.name,
        sha256=checkpoint.sha256 if sha256 is None else sha256,
        revision=checkpoint.revision,
        dtype=dtype,
        device=device,
        **more,
    )


def describe_corpus(
    name: str, sha256: str, documents: int, *, characters: int = 0, read: int | None = None, **more: Any
) -> dict[str, Any]:
    """Return the name and the size of a corpus; `read` counts documents before the filters."""
    return {
        "name": name,
        "sha256": sha256,
        "documents": documents,
        "characters": characters,
        "read": documents if read is None else read,
        **more,
    }
