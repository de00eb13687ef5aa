"""Validation: options, folders and corpora are rejected before a model is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.corpora.catalogue.entries import MODELS
from theodolite.corpora.file_search import is_missing
from theodolite.corpora.hf_datasets import is_dataset
from theodolite.corpora.text_corpus import open_corpus
from theodolite.engines.progress import Listener
from theodolite.engines.ray.capacity import check_worker_options
from theodolite.engines.ray.reachability import check_address_format
from theodolite.errors import InputError, first_line, nearest
from theodolite.models.checkpoint import Modality, find_modality, resolve
from theodolite.models.device_map import require_accelerate
from theodolite.models.layers import split_layer_names
from theodolite.models.streams import check_streams
from theodolite.sources.text.source import check_cleaning
from theodolite.state.pilot import Pilot
from theodolite.statistics.cells import POPULATIONS
from theodolite.storage.bucket import Bucket
from theodolite.storage.file_names import PILOT
from theodolite.storage.location import Location, check_writable, nearest_existing
from theodolite.storage.lock import check_unlocked
from theodolite.surveys import media_survey
from theodolite.surveys.by_field import check_field, check_number_of_groups
from theodolite.surveys.folder import check_free
from theodolite.surveys.options import (
    TEXT_UNITS,
    RunOptions,
    SurveyOptions,
    check_options,
    flag,
    list_options,
    select_part,
)


def check_survey_options(options: SurveyOptions) -> None:
    """Raise if an option has a value that no model and no corpus could make valid."""
    check_field(options.by)
    check_options(options)
    _ = options.memory_bytes  # raises if it is not a size
    kinds = options.kinds_of_units("id")
    check_cleaning(kinds, clean_words=options.clean_words)
    _check_several_units(kinds)
    for name in ("wrap", "clean_words"):
        if options.chat and getattr(options, name):
            raise InputError(f"--chat and {flag(name)} cannot be combined: the template decides what is read.")
    if options.contextuality and (options.min_count or 1) > 1:
        raise InputError(
            f"--contextuality requires a vector of every unit, so --min-count must be 1 (got {options.min_count})."
        )
    check_number_of_groups(options.by, options.by_top)
    if kinds == ("none",):
        _check_without_units(options)
    unknown = [name for name in options.populations if name not in POPULATIONS]
    if unknown:
        raise InputError(f"--populations: {unknown[0]!r} is not one of {', '.join(POPULATIONS)}.")
    if "all" not in options.populations:
        raise InputError("--populations must include 'all'.")
    if options.layers is not None:
        split_layer_names(options.layers)
    check_streams(options.streams)
    if options.attention and kinds[0] == "word":
        raise InputError(
            "--attention requires positions that are tokens, so the first of --units must not be word (got "
            f"{','.join(kinds)})."
        )
    select_part([], options.part)


def _check_without_units(options: SurveyOptions) -> None:
    """Reject options that would have no effect because the vectors belong to no units."""
    asked = {
        f"--min-count {options.min_count}": (options.min_count or 1) > 1,
        "--contextuality": options.contextuality,
    }
    for name in (name for name, given in asked.items() if given):
        raise InputError(
            f"{name} requires units, and with --units none the vectors belong to no units. Omit one of them."
        )


def _check_several_units(kinds: Sequence[str]) -> None:
    """Reject a kind of unit that is given twice, and several kinds for anything but text."""
    given = ",".join(kinds)
    if len(set(kinds)) < len(kinds):
        raise InputError(f"--units {given}: a kind of unit is given twice. Give each kind once.")
    if len(kinds) > 1 and not set(kinds) <= set(TEXT_UNITS):
        raise InputError(f"--units {given}: only units of text ({', '.join(TEXT_UNITS)}) can be combined.")


def check_device(device: str | None) -> None:
    """Reject a device that torch does not know, or that this machine does not have."""
    if device is not None:
        _check_available(device, f"--device {device!r}", "Try --device cpu.")


def _check_available(device: Any, given: str, remedy: str) -> None:
    """Reject a device that torch does not know, or on which it cannot make a tensor."""
    import torch

    try:
        known = device if isinstance(device, int) else torch.device(device)  # a number is that of a GPU
    except (RuntimeError, TypeError):
        raise InputError(f"{given} is not a device. Use one such as cpu, cuda or cuda:1.") from None
    try:
        if known == torch.device("meta"):
            raise RuntimeError("it stores no numbers")
        torch.zeros(1, device=known).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"{given} is not available on this machine. {remedy} ({first_line(error)})") from None


def check_device_map(options: RunOptions) -> None:
    """Reject a device map that contradicts other options, or that nothing on this machine can read."""
    given = options.device_map
    if given is None:
        return
    if options.device is not None:
        raise InputError(f"--device {options.device} contradicts --device-map. Omit one of them.")
    if options.engine != "local":
        raise InputError("--device-map cannot be used with --engine ray: every worker loads the model on one GPU.")
    if isinstance(given, str) and given not in DEVICE_MAPS:
        listed = ", ".join(DEVICE_MAPS)
        one = given.partition(":")[0] in DEVICES
        hint = f" For one device, use --device {given}." if one else nearest(given, [*DEVICE_MAPS])
        raise InputError(f"--device-map {given!r} is not one of {listed}.{hint}")
    require_accelerate()
    if isinstance(given, Mapping):
        for module, device in given.items():
            if device != "disk":
                remedy = "Use a device that this machine has, such as cpu, or disk."
                _check_available(device, f"--device-map: the device {device!r} of {module!r}", remedy)


DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
DEVICES = ("cpu", "cuda", "mps", "xpu")
FOR_LOADING = ("dtype", "attn", "trust_remote_code", "device", "device_map", "revision", "engine")
"""Options that say how a model is loaded or where; without effect on a model that is already loaded."""


def check_loaded_options(options: SurveyOptions, running: RunOptions) -> None:
    """Reject options that say how to load a model, if it is already loaded."""
    for given in (options, running):
        for each in list_options(type(given), FOR_LOADING):
            value = getattr(given, each.name)
            if value != each.default:
                shown = flag(each.name) if value is True else f"{flag(each.name)} {value!r}"
                remedy = (
                    f"Call model.set_attn_implementation({value!r}) and omit the option"
                    if each.name == "attn"
                    else "Omit the option"
                )
                raise InputError(
                    f"{shown} applies to a model that the survey loads, and MODEL is already "
                    f"loaded: it is used as it is. {remedy}, or give the name or folder of the model."
                )


def check_engine(options: RunOptions, out: Location | None, units: Sequence[str] = ()) -> None:
    """Reject an unknown engine, and options that only the other engine uses."""
    check_options(options)
    if options.engine == "local":
        if options.workers is not None or options.gpus_per_worker or options.address != "auto":
            raise InputError("--workers, --gpus-per-worker and --address require --engine ray.")
        return
    if len(units) > 1:
        raise InputError(
            f"--units {','.join(units)}: --engine ray surveys by one kind of unit only. Give one kind, or use "
            "--engine local."
        )
    check_worker_options(options.workers, options.gpus_per_worker)
    check_address_format(options.address)
    if options.gpus_per_worker and options.address == "local":
        _check_local_gpus()
    if out is None:
        raise InputError(
            "--engine ray requires --out: workers write their sums to a folder that all machines see."
        )
    if options.device is not None:
        raise InputError(
            f"--device {options.device} cannot be used with --engine ray. Use --gpus-per-worker 1 to give every "
            "worker a GPU, 0 for none."
        )


def _check_local_gpus() -> None:
    """Reject workers with GPUs on a machine that has none; Ray would take seconds to report it."""
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            "--gpus-per-worker 1: --address local starts workers on this machine, where torch finds no GPU. "
            "Use --gpus-per-worker 0, or give --address of a cluster that has GPUs."
        )


def check_folders(
    out: Location | None, pilot: Location | None, *, resume: bool = False, overwrite: bool = False
) -> None:
    """Reject a folder that is in use or cannot be written, and a --pilot without a pilot."""
    if out is not None:
        check_unlocked(out)
    if out is not None and not resume:
        check_free(out, overwrite=overwrite)
    if out is not None:
        _check_out_writable(out)
    own = resume and out is not None and (out / PILOT).is_file()  # a resumed run reads its own
    if pilot is not None and not own:
        Pilot.load(pilot)


def _check_out_writable(out: Location) -> None:
    """Try to write into the folder, and next to it, where its lock will be."""
    if isinstance(out, Bucket):
        check_writable(out)
        return
    real = out.resolve()
    for place in dict.fromkeys((nearest_existing(real.parent), nearest_existing(real))):
        try:
            check_writable(place)
        except OSError as error:
            raise InputError(
                f"--out {out} cannot be written: {place}: {error.strerror or error}. Choose another folder."
            ) from None


def check_corpus(
    corpus: str | Path | Iterable[str],
    model: str,
    revision: str | None,
    options: SurveyOptions,
    listener: Listener,
) -> None:
    """Reject a corpus that does not exist, before a cluster is joined and a model downloaded.

    A corpus that exists is not read. Names of the catalogue and of datasets are not checked: they may have to be
    downloaded.
    """
    if not isinstance(corpus, str | Path) or is_dataset(corpus) or not is_missing(corpus):
        return
    kind = _modality_if_known(model, revision, trust_remote_code=options.trust_remote_code)
    options.reject_other_options(kind)
    if kind == "text":
        open_corpus(corpus, options.corpus_options(), listener.say)
    else:
        media_survey.open_media_corpus(corpus, kind, options, listener)


def _modality_if_known(model: str, revision: str | None, *, trust_remote_code: bool) -> Modality:
    """Return what the model reads, if it is on this machine; "text" for one that has to be downloaded."""
    if model in MODELS:
        return MODELS[model].kind
    folder = resolve(model).folder if Path(model).is_dir() else _cached_hub_folder(model, revision)
    return find_modality(folder, model, trust_remote_code=trust_remote_code) if folder else "text"


def _cached_hub_folder(model: str, revision: str | None) -> Path | None:
    """Return the folder of a hub model in the hub's cache, None if it is not there."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, "config.json", revision=revision)
    except HFValidationError:  # not the name of a hub model
        return None
    return Path(found).parent if isinstance(found, str) else None
