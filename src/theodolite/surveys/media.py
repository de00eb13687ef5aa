"""Surveying pictures and sound: a model of either and a folder of files, made into a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, TheodoliteError, first_line
from theodolite.sources.audio import AudioOptions, open_audio, read_clip, scan_audio
from theodolite.sources.files import MediaCorpus, MediaScan, shard_pieces
from theodolite.sources.images import ImageOptions, open_images, read_picture, scan_images
from theodolite.sources.media.layout import MAPS
from theodolite.sources.media.source import Feeder, MediaSource
from theodolite.sources.media.speech import WaveFeeder, WhisperFeeder
from theodolite.sources.media.vision import VisionFeeder
from theodolite.sources.modality import Modality
from theodolite.sources.text.checkpoint import Checkpoint, found_again, load_model
from theodolite.surveys.listener import Listener
from theodolite.surveys.model_facts import model_facts
from theodolite.surveys.plan import Documents, Plan
from theodolite.surveys.wanted import Wanted

TEXT_ONLY = {
    "target": "--target",
    "min_words": "--min-words",
    "max_words": "--max-words",
    "max_tokens": "--max-tokens",
    "batch_tokens": "--batch-tokens",
    "drop_special": "--drop-special",
    "wrap": "--wrap",
    "clean_words": "--clean-words",
    "contextuality": "--contextuality",
}


def plan(
    checkpoint: Checkpoint,
    corpus: str | Path | Iterable[str],
    kind: Modality,
    wanted: Wanted,
    device: str,
    listener: Listener,
    *,
    here: str | None = None,
) -> Plan:
    """Open the corpus, load the model, and return what a run needs to know.

    `here` is the device of this process, where it is not this one that folds on `device`.
    """
    files = opened(corpus, kind, wanted, listener)
    flat = _flat(kind, wanted.maps)
    # Every file is decoded once, so that what cannot be used is told before the model runs.
    found: MediaScan[Any] = scan_audio(files) if kind == "speech" else scan_images(files)
    if found.skipped:
        listener.warn(_told(found.skipped))
    listener.say(f"loading {checkpoint.name}")
    key = int(found.sha256[:16], 16)
    network, source = _source(checkpoint, kind, wanted, here or device, corpus_key=key)
    shards = {shard.index: shard for shard in found.shards}
    chosen = wanted.chosen(list(shards), listener)

    def read(indices: Sequence[int]) -> Iterator[tuple[int, Documents]]:
        for shard, pieces in shard_pieces(found, [shards[index] for index in indices]):
            yield shard.index, pieces

    total = sum(shards[index].stop - shards[index].start for index in chosen)
    return Plan(
        source=source,
        corpus_sha256=found.sha256,
        shards=chosen,
        read=read,
        weight=lambda index: (shards[index].stop - shards[index].start) / total,
        pilot_documents=list(found.pilot),
        model_sha256=checkpoint.sha256,
        identity={
            "model": checkpoint.identity() | {"dtype": wanted.dtype, "device": device},
            "corpus": {"sha256": found.sha256, "part": wanted.part},
            "settings": wanted.shared_settings(source)
            | {"maps": "flat" if flat else "places", "max_seconds": wanted.max_seconds},
        },
        facts={
            "model": model_facts(checkpoint, network, wanted.dtype, device)
            | {"modality": kind, "blocks": len(source.anatomy.layers) - 1, "causal": False},
            "tokenizer": None,
            "corpus": {
                "name": str(corpus),
                "sha256": found.sha256,
                "documents": found.documents,
                "characters": 0,
                "size": found.size,
                "read": found.read,
                "skipped": [list(each) for each in found.skipped],
                "sorts": found.sorts,
                "part": wanted.part,
                "filters": {"sample": wanted.sample, "seed": wanted.seed, "limit": wanted.limit},
            },
        },
        populations=tuple(wanted.populations),
        sample_size=wanted.sample_size,
        types_bound=_types_bound(source, found),
        budget=wanted.memory,
        pilot_from=wanted.pilot,
        remake=partial(remade, checkpoint, checkpoint.sha256, kind, wanted, device, corpus_key=key),
    )


def remade(
    checkpoint: Checkpoint, sha256: str, kind: Modality, wanted: Wanted, device: str, *, corpus_key: int
) -> MediaSource:
    """Make the source of a plan on another machine."""
    return _source(found_again(checkpoint, sha256), kind, wanted, device, corpus_key=corpus_key)[1]


def _source(
    checkpoint: Checkpoint, kind: Modality, wanted: Wanted, device: str, *, corpus_key: int
) -> tuple[Any, MediaSource]:
    network, feeder = _loaded(checkpoint, kind, wanted, device)
    source = MediaSource(
        network,
        feeder,
        corpus_key=corpus_key,
        kind=wanted.units or "none",
        layers=wanted.layers,
        flat=_flat(kind, wanted.maps),
    )
    return network, source


def _flat(kind: Modality, maps: str | None) -> bool:
    if maps is not None and maps not in MAPS:
        raise InputError(f"--maps {maps!r} is not one of {', '.join(MAPS)}.")
    return (maps or ("flat" if kind == "convolution" else "places")) == "flat"


def opened(
    corpus: str | Path | Iterable[str], kind: Modality, wanted: Wanted, listener: Listener
) -> MediaCorpus[Any]:
    """Find the files, and refuse what a model of this kind has no use for; none is read yet."""
    wanted.refuse_for(kind, **TEXT_ONLY)
    if not isinstance(corpus, str | Path):
        raise InputError(
            f"CORPUS: a model of {kind} reads a folder, a file or a glob; got {type(corpus).__name__}."
        )
    _flat(kind, wanted.maps)
    listener.say(f"looking at {corpus}")
    kept: dict[str, Any] = {
        "sample": wanted.sample,
        "seed": wanted.seed,
        "limit": wanted.limit,
        "skip_bad": wanted.skip_bad,
    }
    if kind == "speech":
        options = AudioOptions(**kept, max_seconds=wanted.max_seconds)
        return open_audio(corpus, options, listener.say)
    return open_images(corpus, ImageOptions(**kept), listener.say)


def _loaded(checkpoint: Checkpoint, kind: Modality, wanted: Wanted, device: str) -> tuple[Any, Feeder]:
    """Load the model and what it is fed with."""
    import torch
    from transformers import AutoConfig, AutoFeatureExtractor, AutoImageProcessor

    given: dict[str, Any] = {
        "dtype": wanted.dtype,
        "device": device,
        "trust_remote_code": wanted.trust_remote_code,
    }
    dtype = getattr(torch, wanted.dtype)
    try:
        reader = AutoFeatureExtractor if kind == "speech" else AutoImageProcessor
        made = reader.from_pretrained(checkpoint.folder, **({} if kind == "speech" else {"backend": "pil"}))
    except (OSError, ValueError, KeyError, ImportError) as error:
        line = first_line(error)
        raise TheodoliteError(
            f"{checkpoint.name!r} does not say how what it is fed is prepared: wanted preprocessor_config.json "
            f"beside config.json. ({line})"
        ) from error
    if kind != "speech":
        return load_model(checkpoint, **given), VisionFeeder(made, read_picture, dtype=dtype)

    def read(clip: Any) -> Any:
        return read_clip(clip, made.sampling_rate)

    if AutoConfig.from_pretrained(checkpoint.folder).model_type == "whisper":
        whole = load_model(checkpoint, **given, head="WhisperForConditionalGeneration")
        return whole.model, WhisperFeeder(whole, made, read, dtype=dtype)
    network = load_model(checkpoint, **given)
    if not hasattr(network, "_get_feat_extract_output_lengths"):
        raise InputError(
            f"{type(network).__name__} cannot be surveyed: it does not say how many frames a sound becomes. "
            "Speech models that do are wav2vec 2.0, HuBERT and their kin, and Whisper."
        )
    frames = network._get_feat_extract_output_lengths
    return network, WaveFeeder(made, read, lambda samples: int(frames(samples)), dtype=dtype)


def _types_bound(source: MediaSource, found: MediaScan[Any]) -> int:
    """Return how many units there can be at the most."""
    most = {"none": 1, "position": 2**16, "document": found.documents, "label": len(found.labels)}
    return most[source.units.kind]


def _told(skipped: Sequence[tuple[str, str]]) -> str:
    shown = "; ".join(f"'{name}' {reason}" for name, reason in skipped[:3])
    more = f" and {len(skipped) - 3:,} more" if len(skipped) > 3 else ""
    return f"{len(skipped):,} files cannot be used and are left out: {shown}{more}"
