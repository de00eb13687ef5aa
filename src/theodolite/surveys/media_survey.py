"""Plan of a speech or vision survey: a model and a folder of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from theodolite.corpora.audio_corpus import AudioOptions, open_audio, read_clip, scan_audio
from theodolite.corpora.image_corpus import ImageOptions, open_images, read_picture, scan_images
from theodolite.corpora.media_corpus import MediaCorpus, MediaScan, shard_pieces
from theodolite.engines.engine import Documents, Plan
from theodolite.engines.progress import Listener
from theodolite.errors import InputError, TheodoliteError, first_line
from theodolite.models.checkpoint import Checkpoint, Modality, load_model, locate_again
from theodolite.models.media_anatomy import MAPS
from theodolite.sources.media.source import Feeder, MediaSource
from theodolite.sources.media.speech import WaveFeeder, WhisperFeeder
from theodolite.sources.media.vision import VisionFeeder
from theodolite.surveys.options import SurveyOptions, select_shards
from theodolite.surveys.provenance import describe_checkpoint, describe_corpus, describe_settings, make_provenance
from theodolite.surveys.resume import RecordedRun, known_settings


def plan(
    checkpoint: Checkpoint,
    corpus: str | Path | Iterable[str],
    kind: Modality,
    options: SurveyOptions,
    device: str,
    listener: Listener,
    *,
    local_device: str | None = None,
    resumed: RecordedRun | None = None,
) -> Plan:
    """Open the corpus, load the model, and return what a run needs to know.

    `local_device` is the device of this process, if other processes fold on `device`. A run that is to be
    `resumed` with other settings is rejected before the model is loaded.
    """
    files = open_media_corpus(corpus, kind, options, listener)
    flat = _flat(kind, options.maps)
    # Every file is decoded once, so that bad files are reported before the model runs.
    found: MediaScan[Any] = scan_audio(files) if kind == "speech" else scan_images(files)
    if found.skipped:
        listener.warn(_describe_skipped(found.skipped))
    filters = {"sample": options.sample, "seed": options.seed, "limit": options.limit}
    if resumed is not None:
        maps = "flat" if flat else "places"
        settings = known_settings(
            options, units=options.kinds_of_units("none")[0], maps=maps, max_seconds=options.max_seconds
        )
        model = checkpoint.identity() | {"dtype": options.dtype, "device": device}
        identity = {"model": model, "corpus": {"sha256": found.sha256, "part": options.part}}
        resumed.check(identity | {"settings": settings}, filters, incomplete=True)
    listener.say(f"loading {checkpoint.name}")
    key = int(found.sha256[:16], 16)
    network, source = _source(checkpoint, kind, options, local_device or device, corpus_key=key)
    if options.maps is not None and not _maps_matter(network, source):
        raise InputError(
            f"--maps {options.maps} has no effect on {checkpoint.name}: no layer of it returns feature maps. Omit "
            "--maps."
        )
    shards = {shard.index: shard for shard in found.shards}
    selected = select_shards(list(shards), options.part, listener.warn)

    def read(indices: Sequence[int]) -> Iterator[tuple[int, Documents]]:
        for shard, pieces in shard_pieces(found, [shards[index] for index in indices]):
            yield shard.index, pieces

    total = sum(shards[index].stop - shards[index].start for index in selected)
    provenance = make_provenance(
        model_identity=checkpoint.identity() | {"dtype": options.dtype, "device": device},
        corpus_identity={"part": options.part},
        settings=describe_settings(
            source.units.kind,
            [layer.index for layer in source.layers],
            options.populations,
            options.sample_size,
            contextuality=options.contextuality,
            maps="flat" if flat else "places",
            max_seconds=options.max_seconds,
            **({"attention": True} if options.attention else {}),
        ),
        model=describe_checkpoint(
            checkpoint,
            network,
            options.dtype,
            device,
            modality=kind,
            blocks=len(source.anatomy.layers) - 1,
            causal=False,
        ),
        corpus=describe_corpus(
            str(corpus),
            found.sha256,
            found.documents,
            read=found.read,
            size=found.size,
            skipped=[list(each) for each in found.skipped],
            sorts=found.sorts,
            part=options.part,
            filters=filters,
        ),
    )
    return Plan(
        source=source,
        corpus_sha256=found.sha256,
        shards=selected,
        read=read,
        weight=lambda index: (shards[index].stop - shards[index].start) / total,
        pilot_documents=list(found.pilot),
        weights_sha256=lambda: checkpoint.sha256,
        identity=provenance.identity,
        facts=provenance.facts,
        populations=tuple(options.populations),
        sample_size=options.sample_size,
        types_bound=_types_bound(source, found),
        vectors_bound=total if flat and source.anatomy.rows == 1 else None,
        budget=options.memory_bytes,
        pilot_from=options.pilot_location,
        remake=partial(remake_source, checkpoint, checkpoint.sha256, kind, options, device, corpus_key=key),
    )


def remake_source(
    checkpoint: Checkpoint, sha256: str, kind: Modality, options: SurveyOptions, device: str, *, corpus_key: int
) -> MediaSource:
    """Make the source of a plan on another machine."""
    return _source(locate_again(checkpoint, sha256), kind, options, device, corpus_key=corpus_key)[1]


def _source(
    checkpoint: Checkpoint, kind: Modality, options: SurveyOptions, device: str, *, corpus_key: int
) -> tuple[Any, MediaSource]:
    network, feeder = _load_model_and_feeder(checkpoint, kind, options, device)
    source = MediaSource(
        network,
        feeder,
        corpus_key=corpus_key,
        kind=options.kinds_of_units("none")[0],
        layers=options.layers,
        flat=_flat(kind, options.maps),
        streams=options.streams,
        attention=options.attention,
    )
    return network, source


def _flat(kind: Modality, maps: str | None) -> bool:
    if maps is not None and maps not in MAPS:
        raise InputError(f"--maps {maps!r} is not one of {', '.join(MAPS)}.")
    return (maps or ("flat" if kind == "convolution" else "places")) == "flat"


def _maps_matter(network: Any, source: MediaSource) -> bool:
    """Return whether a layer has other vectors if its feature maps are read in the other way."""
    other = MediaSource(network, source.feeder, corpus_key=source.corpus_key, flat=not source.flat)
    return [layer.dim for layer in other.anatomy.layers] != [layer.dim for layer in source.anatomy.layers]


def open_media_corpus(
    corpus: str | Path | Iterable[str], kind: Modality, options: SurveyOptions, listener: Listener
) -> MediaCorpus[Any]:
    """Find the files, and reject options that apply to text only; no file is read yet."""
    options.reject_other_options(kind)
    if not isinstance(corpus, str | Path):
        raise InputError(f"CORPUS: a {kind} model reads a folder, a file or a glob (got {type(corpus).__name__}).")
    _flat(kind, options.maps)
    listener.say(f"looking at {corpus}")
    kept: dict[str, Any] = {
        "sample": options.sample,
        "seed": options.seed,
        "limit": options.limit,
        "skip_bad": options.skip_bad,
    }
    if kind == "speech":
        return open_audio(corpus, AudioOptions(**kept, max_seconds=options.max_seconds), listener.say)
    return open_images(corpus, ImageOptions(**kept), listener.say)


def _load_model_and_feeder(
    checkpoint: Checkpoint, kind: Modality, options: SurveyOptions, device: str
) -> tuple[Any, Feeder]:
    """Load the model and what prepares its input."""
    import torch
    from transformers import AutoConfig, AutoFeatureExtractor, AutoImageProcessor

    given: dict[str, Any] = {
        "dtype": options.dtype,
        "device": device,
        "trust_remote_code": options.trust_remote_code,
    }
    dtype = getattr(torch, options.dtype)
    try:
        reader = AutoFeatureExtractor if kind == "speech" else AutoImageProcessor
        made = reader.from_pretrained(checkpoint.folder, **({} if kind == "speech" else {"backend": "pil"}))
    except (OSError, ValueError, KeyError, ImportError) as error:
        line = first_line(error)
        raise TheodoliteError(
            f"{checkpoint.name!r} has no preprocessor_config.json next to config.json, which describes how its "
            f"input is prepared. ({line})"
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
            f"{type(network).__name__} cannot be surveyed: it does not state the number of frames of a recording. "
            "Supported speech models: Whisper, and models of the wav2vec 2.0 and HuBERT families."
        )
    frames = network._get_feat_extract_output_lengths
    return network, WaveFeeder(made, read, lambda samples: int(frames(samples)), dtype=dtype)


def _types_bound(source: MediaSource, found: MediaScan[Any]) -> int:
    """Return the largest possible number of units."""
    most = {"none": 1, "position": 2**16, "document": found.documents, "label": len(found.labels)}
    return most[source.units.kind]


def _describe_skipped(skipped: Sequence[tuple[str, str]]) -> str:
    shown = "; ".join(f"'{name}' {reason}" for name, reason in skipped[:3])
    more = f" and {len(skipped) - 3:,} more" if len(skipped) > 3 else ""
    return f"{len(skipped):,} files cannot be used and are skipped: {shown}{more}"
