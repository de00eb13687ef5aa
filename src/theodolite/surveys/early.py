"""Early checks: what no model and no corpus could mend is refused before either is opened."""

from __future__ import annotations

from pathlib import Path

from theodolite.engines.ray.answering import check_form
from theodolite.engines.ray.room import check_wishes
from theodolite.errors import InputError, first_line, nearest
from theodolite.sources.layers import layer_numbers
from theodolite.sources.media.source import KINDS as MEDIA_KINDS
from theodolite.sources.text.checkpoint import DTYPES
from theodolite.sources.text.source import check_cleaning
from theodolite.sources.text.vocabulary import KINDS
from theodolite.statistics.cells import POPULATIONS
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.folder import check_free
from theodolite.surveys.pilot import FILE as PILOT
from theodolite.surveys.pilot import Pilot
from theodolite.surveys.run import part_of
from theodolite.surveys.storage import Place, try_to_write
from theodolite.surveys.wanted import Wanted

ENGINES = ("local", "ray")


def check_words(wanted: Wanted) -> None:
    """Refuse words that an option does not know."""
    units, populations, dtype = wanted.units, wanted.populations, wanted.dtype
    kinds = [*KINDS, *MEDIA_KINDS]
    if units is not None and units not in kinds:
        raise InputError(f"--units {units!r} is not one of {', '.join(kinds)}.{nearest(units, kinds)}")
    check_cleaning(units or "id", clean_words=wanted.clean_words)
    unknown = [name for name in populations if name not in POPULATIONS]
    if unknown:
        raise InputError(f"--populations: {unknown[0]!r} is not one of {', '.join(POPULATIONS)}.")
    if "all" not in populations:
        raise InputError("--populations must include 'all'; the others are told beside it.")
    if dtype not in DTYPES:
        raise InputError(f"--dtype {dtype!r} is not one of {', '.join(DTYPES)}.")
    if wanted.layers is not None:
        layer_numbers(wanted.layers)
    list(part_of([], wanted.part))


def check_numbers(sample_size: int, batch_tokens: int | None) -> None:
    """Refuse numbers that nothing could be made with."""
    if sample_size < 0:
        raise InputError(f"--sample-size {sample_size}: wanted 0 or more vectors a layer.")
    if batch_tokens is not None and batch_tokens < 1:
        raise InputError(f"--batch-tokens {batch_tokens}: wanted at least 1.")


def check_device(device: str | None) -> None:
    """Refuse a device that torch does not know, or that is not here."""
    import torch

    if device is None:
        return
    try:
        known = torch.device(device)
    except RuntimeError:
        raise InputError(f"--device {device!r} is no device; wanted one such as cpu, cuda or cuda:1.") from None
    try:
        if known.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.zeros(1, device=known).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"--device {device!r} cannot be used here; try --device cpu. ({first_line(error)})"
        ) from None


def check_engine(
    engine: str, out: Place | None, *, device: str | None, address: str, workers: int | None, gpus: int
) -> None:
    """Refuse an engine that is none, and what only another one has a use for."""
    if engine not in ENGINES:
        raise InputError(f"--engine {engine!r} is not one of {', '.join(ENGINES)}.{nearest(engine, [*ENGINES])}")
    if engine == "local":
        if workers is not None or gpus or address != "auto":
            raise InputError(
                "--workers, --gpus-per-worker and --address are for --engine ray; local is one process."
            )
        return
    check_wishes(workers, gpus)
    check_form(address)
    if gpus and address == "local":
        _check_gpus_here()
    if out is None:
        raise InputError("--engine ray needs --out: workers leave their sums in a folder that all machines see.")
    if device is not None:
        raise InputError(
            f"--device {device}: with --engine ray, --gpus-per-worker 1 has workers use a GPU each, 0 none."
        )


def _check_gpus_here() -> None:
    """Refuse workers on this machine that each want a GPU, where it has none: Ray takes seconds to find out."""
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            "--gpus-per-worker 1: --address local starts workers on this machine, and its torch finds no GPU; "
            "survey with --gpus-per-worker 0, or name a cluster that has some with --address."
        )


def check_folders(
    out: Place | None, pilot: Place | None, *, resume: bool = False, overwrite: bool = False
) -> None:
    """Refuse a folder in use or one that cannot be written, and a --pilot without a pilot."""
    if out is not None and not resume:
        check_free(out, overwrite=overwrite)
    if out is not None:
        _check_writable(out)
    own = resume and out is not None and (out / PILOT).is_file()  # a run that is taken up reads its own
    if pilot is not None and not own:
        Pilot.load(pilot)


def _check_writable(out: Place) -> None:
    """Try to write where the folder will be; its lock stands beside it, so that place counts too."""
    if isinstance(out, Bucket):
        try_to_write(out)
        return
    for place in dict.fromkeys((standing(out.absolute().parent), standing(out.absolute()))):
        try:
            try_to_write(place)
        except OSError as error:
            raise InputError(
                f"--out {out} cannot be written: {place}: {error.strerror or error}. Give another folder."
            ) from None


def standing(path: Path) -> Path:
    """Return the path, or the nearest above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
