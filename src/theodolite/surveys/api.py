"""theodolite.survey: options are validated first, then the model is surveyed by its kind."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.devices import without_autocast
from theodolite.engines.engine import Engine
from theodolite.engines.progress import Listener
from theodolite.engines.threads import freeze_objects
from theodolite.errors import InputError
from theodolite.models.checkpoint import Checkpoint, DeviceMap, Modality, find_modality, resolve
from theodolite.models.loaded_model import LoadedModel, borrow, wrap_model
from theodolite.models.weight_files import choose_dtype
from theodolite.storage.location import Location, parse_location
from theodolite.surveys import media_survey, text_survey
from theodolite.surveys.options import RunOptions, SurveyOptions, document_options, split_keywords
from theodolite.surveys.resume import find_recorded_run
from theodolite.surveys.run import run
from theodolite.surveys.survey import Survey
from theodolite.surveys.validation import (
    check_corpus,
    check_device,
    check_device_map,
    check_engine,
    check_folders,
    check_loaded_options,
    check_survey_options,
)

if TYPE_CHECKING:
    from theodolite.engines.ray.engine import RayEngine


@document_options(SurveyOptions, RunOptions)
def survey(
    model: str | Path | Any,
    corpus: str | Path | Iterable[Any],
    *,
    tokenizer: Any = None,
    out: str | Path | None = None,
    listener: Listener | None = None,
    checkpoint_every: float = 60.0,
    **options: Any,
) -> Survey:
    """Run a corpus through a model once and measure every layer.

    `model` is a catalogue name, a folder, a .gguf file or a hub name, or a text model of transformers that is
    already loaded, with its `tokenizer` (by default that of the name from which it was loaded). A loaded model is
    used where and as it is, with its adapters and its quantization, and left so. `corpus` is a catalogue name, a
    file, a glob or a list of strings for text (with `chat`, of lists of messages), and a folder of files for
    speech and vision. With `out` the run writes
    checkpoints and its tables to that folder, which may be in a bucket (s3://BUCKET/FOLDER). Without `out` the
    result is in memory until `Survey.save`. `checkpoint_every` is the least time between checkpoints in seconds.
    """
    listener = listener or Listener()
    folder = parse_location(out) if out is not None else None
    for_numbers, for_run = split_keywords(
        options, SurveyOptions, RunOptions, others=("model", "corpus", "tokenizer", "out")
    )
    chosen, running = SurveyOptions(**for_numbers), RunOptions(**for_run)
    check_survey_options(chosen)
    check_folders(folder, chosen.pilot_location, resume=running.resume, overwrite=running.overwrite)
    check_engine(running, folder, chosen.kinds_of_units("id"))
    check_device(running.device)
    check_device_map(running)
    if not isinstance(model, str | Path):
        check_loaded_options(chosen, running)
        loaded = wrap_model(model, tokenizer)
        with borrow(loaded):
            return survey_checkpoint(
                loaded,
                corpus,
                chosen,
                out=folder,
                device=loaded.device,
                resume=running.resume,
                overwrite=running.overwrite,
                listener=listener,
                checkpoint_every=checkpoint_every,
                label=running.label,
            )
    if tokenizer is not None:
        raise InputError(
            "--tokenizer applies to a model that is already loaded, and MODEL is a name or a folder, which has "
            "its own. Omit --tokenizer."
        )
    with ExitStack() as stack:
        engine: RayEngine | None = None
        device, local_device = running.device, None
        if running.engine == "ray" and folder is not None:
            from theodolite.engines.ray.connection import connect
            from theodolite.engines.ray.engine import RayEngine
            from theodolite.engines.ray.pool import RayPool

            check_corpus(corpus, str(model), running.revision, chosen, listener)
            starting = "starting Ray on this machine"
            listener.say(starting if running.address == "local" else f"connecting to Ray at {running.address}")
            # Workers start in other folders, so the path is absolute. This process only inspects the model.
            folder = folder.absolute()
            device, local_device = ("cuda" if running.gpus_per_worker else "cpu"), "cpu"
            stack.enter_context(connect(running.address))
            pool = RayPool(running.workers, running.gpus_per_worker)  # raises before a model is downloaded
            engine = RayEngine(folder, pool)
        checkpoint = resolve(str(model), revision=running.revision, progress=listener.say)
        if engine is not None:
            stack.enter_context(engine)
        return survey_checkpoint(
            checkpoint,
            corpus,
            chosen,
            out=folder,
            device=device,
            local_device=local_device,
            resume=running.resume,
            overwrite=running.overwrite,
            listener=listener,
            checkpoint_every=checkpoint_every,
            engine=engine,
            label=running.label,
            device_map=running.device_map,
            keep_sums=running.keep_sums,
        )


@without_autocast()
def survey_checkpoint(
    checkpoint: Checkpoint | LoadedModel,
    corpus: str | Path | Iterable[Any],
    options: SurveyOptions,
    *,
    out: Location | None = None,
    device: str | None = None,
    local_device: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    checkpoint_every: float = 60.0,
    engine: Engine | None = None,
    label: str | None = None,
    device_map: DeviceMap | None = None,
    keep_sums: bool = False,
) -> Survey:
    """Survey a model that is on disk or loaded, with valid options.

    `local_device` is the device of this process, if an engine folds on `device` in other processes.
    """
    listener = listener or Listener()
    device = device or best_device()
    kind: Modality = "text"
    if isinstance(checkpoint, LoadedModel):
        dtype = checkpoint.dtype
    else:
        kind = find_modality(checkpoint.folder, checkpoint.name, trust_remote_code=options.trust_remote_code)
        dtype = choose_dtype(options.dtype, checkpoint.folder, device)
    options = replace(options, dtype=dtype)
    if device_map is not None and kind != "text":
        raise InputError(f"--device-map applies to text only (the model is of kind {kind}).")
    resumed = find_recorded_run(out) if resume and out is not None else None
    if resumed is not None and resumed.finished and overwrite:  # a finished survey of something else is replaced
        resumed = None
    planning = (
        partial(text_survey.plan, device_map=device_map)
        if kind == "text"
        else partial(media_survey.plan, kind=kind)
    )
    with freeze_objects():
        plan = planning(
            checkpoint,
            corpus,
            options=options,
            device=device,
            listener=listener,
            local_device=local_device,
            resumed=resumed,
        )
    if label is not None:
        plan.facts["label"] = label
    return run(
        plan,
        out=out,
        resume=resume,
        overwrite=overwrite,
        listener=listener,
        checkpoint_every=checkpoint_every,
        engine=engine,
        keep_sums=keep_sums,
    )


def best_device() -> str:
    """Return a GPU if there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
