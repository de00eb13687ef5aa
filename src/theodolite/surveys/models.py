"""Surveying a model: what the user asks for, checked early, and sent to where its kind is surveyed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from theodolite.errors import InputError
from theodolite.sources.modality import modality
from theodolite.sources.text.checkpoint import Checkpoint, resolve
from theodolite.statistics.cells import POPULATIONS
from theodolite.surveys import media, text
from theodolite.surveys.early import check_device, check_engine, check_folders, check_numbers, check_words
from theodolite.surveys.engine import Engine
from theodolite.surveys.listener import Listener
from theodolite.surveys.nowhere import check_corpus
from theodolite.surveys.run import run
from theodolite.surveys.storage import Place, placed
from theodolite.surveys.survey import Survey
from theodolite.surveys.wanted import Wanted


def survey(
    model: str | Path,
    corpus: str | Path | Iterable[str],
    *,
    out: str | Path | None = None,
    units: str | None = None,
    layers: str | Sequence[int] | None = None,
    min_words: int | None = None,
    max_words: int | None = None,
    sample: float | None = None,
    seed: int = 0,
    limit: int | None = None,
    field: str = "text",
    column: str = "text",
    encoding_errors: str = "strict",
    target: str | None = None,
    max_tokens: int | None = None,
    batch_tokens: int | None = None,
    drop_special: bool = False,
    wrap: bool = False,
    clean_words: bool = False,
    contextuality: bool = False,
    maps: str | None = None,
    skip_bad: bool = False,
    max_seconds: float = 30.0,
    populations: Sequence[str] = tuple(POPULATIONS),
    sample_size: int = 4096,
    pilot: str | Path | None = None,
    part: str | None = None,
    memory: int | None = None,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    checkpoint_every: float = 60.0,
    engine: str = "local",
    address: str = "auto",
    workers: int | None = None,
    gpus_per_worker: int = 0,
) -> Survey:
    """Carry a corpus through a model once and measure every layer.

    `model` is a catalogue name, a folder, a .gguf file or a hub name; `corpus` what it reads: for text a catalogue
    name, a file, a glob or strings, for speech and vision a folder of recordings or pictures. With `out` the run
    is checkpointed and leaves its folder there, on disk or at an address such as s3://BUCKET/FOLDER; without, it
    stays in memory until `Survey.save`.

    `units` is what vectors are counted by: id, surface or word for text (id unless told), none, position, document
    or label for the rest. `batch_tokens` is the padded size of a batch; `part` "i/n" folds every n-th shard, for
    merging. `target` names the field or column that an encoder-decoder's decoder is fed, the text itself if none
    is named. `wrap` puts BOS and EOS around every window where the tokenizer adds none. Text is read whole;
    `clean_words`, with units "word", has the model read words alone, without punctuation. `contextuality` also
    tells self-similarity and its kin. `maps` says whether a convolutional map is one vector a picture ("flat") or
    one a place ("places"); `skip_bad` leaves out files that do not decode; recordings longer than `max_seconds`
    are cut.

    `engine` "ray" has `workers` on the cluster at `address` do it, each with a GPU or none: the same survey.
    """
    _check_model(model)
    listener = listener or Listener()
    folder = placed(out) if out is not None else None
    wanted = Wanted(
        units=units,
        layers=layers,
        min_words=min_words,
        max_words=max_words,
        sample=sample,
        seed=seed,
        limit=limit,
        field=field,
        column=column,
        encoding_errors=encoding_errors,
        target=target,
        max_tokens=max_tokens,
        batch_tokens=batch_tokens,
        drop_special=drop_special,
        wrap=wrap,
        clean_words=clean_words,
        contextuality=contextuality,
        maps=maps,
        skip_bad=skip_bad,
        max_seconds=max_seconds,
        populations=populations,
        sample_size=sample_size,
        pilot=placed(pilot) if pilot is not None else None,
        part=part,
        memory=memory,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )
    check_words(wanted)
    check_numbers(sample_size, batch_tokens)
    check_folders(folder, wanted.pilot, resume=resume, overwrite=overwrite)
    check_engine(engine, folder, device=device, address=address, workers=workers, gpus=gpus_per_worker)
    check_device(device)
    given: dict[str, Any] = {
        "out": folder,
        "device": device,
        "resume": resume,
        "overwrite": overwrite,
        "listener": listener,
        "checkpoint_every": checkpoint_every,
    }
    if engine == "local" or folder is None:
        checkpoint = resolve(str(model), revision=revision, progress=listener.say)
        return survey_checkpoint(checkpoint, corpus, wanted, **given)
    from theodolite.engines.ray.connecting import connected
    from theodolite.engines.ray.pool import Pool
    from theodolite.surveys.cluster.cluster import Cluster

    check_corpus(corpus, str(model), revision, wanted, listener)
    listener.say(f"joining the cluster at {address}" if address != "local" else "starting Ray on this machine")
    # Other machines start elsewhere, so the folder's whole path; and this one only looks at the model.
    given |= {"out": folder.absolute(), "device": "cuda" if gpus_per_worker else "cpu", "here": "cpu"}
    with connected(address):
        pool = Pool(workers, gpus_per_worker)  # what the cluster has not is told before a model is fetched
        checkpoint = resolve(str(model), revision=revision, progress=listener.say)
        with Cluster(given["out"], pool) as cluster:
            return survey_checkpoint(checkpoint, corpus, wanted, engine=cluster, **given)


def survey_checkpoint(
    checkpoint: Checkpoint,
    corpus: str | Path | Iterable[str],
    wanted: Wanted,
    *,
    out: Place | None = None,
    device: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    checkpoint_every: float = 60.0,
    engine: Engine | None = None,
    here: str | None = None,
) -> Survey:
    """Survey a model that has been found on disk; what `survey` does once it has checked what is wanted.

    `here` is the device of this process, where an engine folds elsewhere.
    """
    listener = listener or Listener()
    kind = modality(checkpoint.folder, checkpoint.name, trust_remote_code=wanted.trust_remote_code)
    where = device or best_device()
    if kind == "text":
        plan = text.plan(checkpoint, corpus, wanted, where, listener, here=here)
    else:
        plan = media.plan(checkpoint, corpus, kind, wanted, where, listener, here=here)
    return run(
        plan,
        out=out,
        resume=resume,
        overwrite=overwrite,
        listener=listener,
        checkpoint_every=checkpoint_every,
        engine=engine,
    )


def _check_model(model: object) -> None:
    """Refuse what is no name and no folder, such as a model that is loaded."""
    if not isinstance(model, str | Path):
        raise InputError(
            f"MODEL: wanted a name or a folder, got {type(model).__name__}; save a model and its tokenizer with "
            "save_pretrained and give that folder, or use theodolite.watch."
        )


def best_device() -> str:
    """Return a GPU if there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
