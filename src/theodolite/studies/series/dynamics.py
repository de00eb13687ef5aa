"""One survey a checkpoint, the same text every time, and the series of them all; taken up where it stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import InputError, TheodoliteError
from theodolite.sources.corpus import open_corpus, scan
from theodolite.sources.modality import modality
from theodolite.sources.text.checkpoint import Checkpoint, load_model, load_tokenizer, resolve
from theodolite.studies.dynamics.names import ATTENTION, ROWS
from theodolite.studies.series import files
from theodolite.studies.series.attending import attend, chosen
from theodolite.studies.series.checkpoints import Moment, gaps, moments
from theodolite.studies.series.series import Series, check_step
from theodolite.surveys.alone import alone
from theodolite.surveys.early import check_device, check_numbers, check_words
from theodolite.surveys.folder import FACTS, open_tables
from theodolite.surveys.identity import differences
from theodolite.surveys.listener import Listener
from theodolite.surveys.models import best_device, survey_checkpoint
from theodolite.surveys.storage import on_disk
from theodolite.surveys.wanted import Wanted

STEPS = "steps"
DOCUMENTS = 16
"""Documents that attention is read on, chosen by hash: as many rows as a few thousand positions have."""
TOKENS = 128
"""Of each, the first so many tokens: a head's weights grow with their square."""
CHARACTERS = 512
"""And no more than so many characters, so that 16 documents of any length are within what a scan keeps."""
ASKED, ALIKE = "asked", "identity"
GO_ON = "the same command with --resume goes on"
HERE = ("pilot", "part", "memory", "trust_remote_code")  # what shapes no number, or is not offered
TOKENIZERS = (
    "tokenizer.json tokenizer_config.json vocab.txt vocab.json spiece.model tokenizer.model "
    "sentencepiece.bpe.model"
).split()


@dataclass(frozen=True)
class _Job:
    """What every step shares."""

    folder: Path
    corpus: str | Path | Sequence[str]
    wanted: Wanted
    device: str
    documents: list[tuple[int, str]]  # that attention is read on; none for models of other than text
    corpus_sha256: str | None
    listener: Listener


def dynamics(
    model: str,
    corpus: str | Path | Sequence[str],
    out: str | Path,
    *,
    checkpoints: Sequence[str] = (),
    revisions: Sequence[str] = (),
    steps: Sequence[int] | None = None,
    attention: int = DOCUMENTS,
    device: str | None = None,
    options: Mapping[str, Any] | None = None,
    listener: Listener | None = None,
) -> Series:
    """Survey every checkpoint on the same documents and leave OUT/steps/STEP, OUT/series.parquet and .json.

    `checkpoints`, `revisions` and `steps` are as `moments` takes them; with checkpoints in folders, `model` is
    what they are called together, and where a tokenizer is found if they have none. `options` go to every survey
    (`limit`, `units`, `layers`, `dtype`, ...). `attention` is how many documents queries, keys and attention
    weights are read on besides; 0 leaves that out. The same command again goes on where it stopped, and with more
    checkpoints adds them.
    """
    listener, folder = listener or Listener(), on_disk(out, "dynamics")
    wanted = Wanted(**(options or {}))
    check_words(wanted)
    check_numbers(wanted.sample_size, wanted.batch_tokens)
    check_device(device)
    if attention < 0:
        raise InputError(f"--attention {attention}: wanted 0 or more documents.")
    found = moments(str(model), checkpoints, revisions, steps)
    _tell_gaps(found, listener)
    _check_folder(folder)
    with alone(folder):
        weights = _hashed(found, str(model), wanted.trust_remote_code, listener)
        job = _job(folder, corpus, wanted, device or best_device(), attention, weights[0][1], listener)
        series = _series(job, str(model), attention)
        _check_weights(series, weights)
        for number, (moment, checkpoint) in enumerate(weights, 1):
            if listener.stop():
                raise TheodoliteError("Interrupted between two steps: the same command goes on.")
            if moment.step in {step.step for step in series.steps}:
                listener.say(f"step {moment.step}: surveyed already")
                continue
            listener.say(f"step {moment.step} ({number} of {len(weights)}): {moment.told}")
            _take(series, moment, checkpoint, job)
            series.write(folder)
    return series


def _tell_gaps(found: Sequence[Moment], listener: Listener) -> None:
    lacking = gaps([moment.step for moment in found])
    if lacking:
        some = ", ".join(map(str, lacking[:5])) + (", ..." if len(lacking) > 5 else "")
        listener.warn(f"{len(lacking)} of the steps between seem to be missing: {some}")
    if len(found) == 1:
        listener.warn("there is one step only: nothing can be said of how the geometry changes")


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; give the name of a folder.")
    held = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    if held and files.FACTS not in held:
        raise InputError(f"--out {folder} holds {', '.join(held[:3])} and no series; give another folder.")


def _hashed(
    found: Sequence[Moment], model: str, trust: bool, listener: Listener
) -> list[tuple[Moment, Checkpoint]]:
    """Find every checkpoint and hash its weights; refuse two steps with the same, before anything is surveyed."""
    weights: list[tuple[Moment, Checkpoint]] = []
    for moment in found:
        checkpoint = resolve(moment.name, revision=moment.revision, progress=listener.say)
        listener.say(f"hashing the weights of step {moment.step}")
        check_step(moment.step, [(other.step, there.sha256) for other, there in weights], checkpoint.sha256)
        weights.append((moment, _with_tokenizer(checkpoint, model, trust, listener)))
    return weights


def _with_tokenizer(checkpoint: Checkpoint, model: str, trust: bool, listener: Listener) -> Checkpoint:
    """Return the checkpoint; where it has no tokenizer, as trainers leave it, with that of the model."""
    lacks = not any((checkpoint.folder / name).is_file() for name in TOKENIZERS)
    if not lacks or modality(checkpoint.folder, checkpoint.name, trust_remote_code=trust) != "text":
        return checkpoint
    try:
        there = resolve(model, progress=listener.say).folder
    except TheodoliteError as error:
        raise InputError(
            f"{checkpoint.name} has no tokenizer, and MODEL {model!r} is none that could lend its own ({error})"
        ) from error
    return replace(checkpoint, tokenizer=there)


def _job(
    folder: Path,
    corpus: str | Path | Sequence[str],
    wanted: Wanted,
    device: str,
    attention: int,
    first: Checkpoint,
    listener: Listener,
) -> _Job:
    kind = modality(first.folder, first.name, trust_remote_code=wanted.trust_remote_code)
    if kind != "text":
        return _Job(folder, corpus, wanted, device, [], None, listener)
    documents = open_corpus(corpus, wanted.text_options(), listener.say)
    listener.say(f"reading {documents.name}")
    found = scan(documents, pilot_documents=max(attention, 1), per_document=CHARACTERS)
    return _Job(folder, corpus, wanted, device, chosen(found.pilot, attention), found.sha256, listener)


def _series(job: _Job, model: str, attention: int) -> Series:
    """Open the series in the folder if it was asked for alike, or begin one."""
    given = job.corpus if isinstance(job.corpus, str | Path) else f"{len(job.corpus)} documents"
    asked = {name: value for name, value in asdict(job.wanted).items() if name not in HERE}
    asked |= {"populations": list(job.wanted.populations), "device": job.device, "attention": attention}
    asked |= {"corpus": str(given), "corpus_sha256": job.corpus_sha256}
    if not isinstance(asked["layers"], str | None):
        asked["layers"] = list(job.wanted.layers or ())
    if not files.is_series(job.folder):
        series = Series.of(model, {"name": str(given), "sha256": job.corpus_sha256}, asked=asked)
        series.write(job.folder)
        return series
    series = Series.read(job.folder)
    if ASKED not in series.settings:
        raise InputError(f"--out {job.folder} holds a series that was made while training; give another folder.")
    there = {"model": series.model["name"], **series.settings[ASKED]}
    lines = differences(there, {"model": model, **asked})
    if lines:
        listed = "\n  ".join(lines)
        raise InputError(
            f"--out {job.folder} holds a series that was asked for otherwise:\n  {listed}\n"
            "Ask as it was asked, or give another folder."
        )
    return series


def _check_weights(series: Series, weights: Sequence[tuple[Moment, Checkpoint]]) -> None:
    """Refuse weights that differ from what the series has of the same step, or that it has of another."""
    there = {step.step: step for step in series.steps}
    for moment, checkpoint in weights:
        known = there.get(moment.step)
        if known is not None and known.sha256 != checkpoint.sha256:
            raise InputError(
                f"Step {moment.step} was surveyed with other weights ({known.name}) than {moment.told} has now; "
                "give another --out."
            )
        others = [(step.step, step.sha256) for step in series.steps if step.step != moment.step]
        check_step(moment.step, others, checkpoint.sha256)


def _take(series: Series, moment: Moment, checkpoint: Checkpoint, job: _Job) -> None:
    """Survey one step, or find it surveyed, and add it to the series."""
    place = f"{STEPS}/{moment.step}"
    facts, layers = _surveyed(moment, checkpoint, job, job.folder / place)
    _check_alike(series, moment, facts["identity"])
    if not series.steps:
        about = {name: value for name, value in facts["model"].items() if name not in ("sha256", "revision")}
        series.model = about | {"name": series.model["name"]}
        series.corpus = {
            k: facts["corpus"].get(k) for k in ("name", "sha256", "documents", "characters", "filters")
        }
        series.units = facts["units"]
        series.settings[ALIKE] = _but_for_weights(facts["identity"])
    series.append(moment.step, moment.told, checkpoint.sha256, layers, survey=place)
    if job.documents:
        _attend(series, moment.step, checkpoint, job)


def _surveyed(
    moment: Moment, checkpoint: Checkpoint, job: _Job, folder: Path
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return a step's facts and layers: of its finished survey, else of one that is made or gone on with."""
    if job.corpus_sha256 is not None and (folder / FACTS).is_file():
        facts, tables = open_tables(folder, ["layers"])
        known = facts["identity"]
        if (known["model"]["sha256"], known["corpus"]["sha256"]) == (checkpoint.sha256, job.corpus_sha256):
            return facts, tables["layers"]
    try:
        made = survey_checkpoint(
            checkpoint,
            job.corpus,
            job.wanted,
            out=folder,
            device=job.device,
            resume=True,
            listener=job.listener,
        )
    except TheodoliteError as error:
        told = str(error).replace(GO_ON, "the same command goes on")
        error.args = (f"Step {moment.step}: {told}",)  # no new one: not every kind is made of one sentence
        raise
    return made.facts, made.layers


def _check_alike(series: Series, moment: Moment, identity: dict[str, Any]) -> None:
    """Refuse a step that was surveyed otherwise than the first: with another tokenizer, say."""
    first = series.settings.get(ALIKE)
    lines = differences(first, _but_for_weights(identity)) if first else []
    if lines:
        listed = "\n  ".join(lines)
        raise InputError(
            f"Step {moment.step} is not to be compared with step {series.steps[0].step}; its survey differs:\n"
            f"  {listed}\nLeave it out."
        )


def _but_for_weights(identity: dict[str, Any]) -> dict[str, Any]:
    return identity | {"model": {k: v for k, v in identity["model"].items() if k not in ("sha256", "settings")}}


def _attend(series: Series, step: int, checkpoint: Checkpoint, job: _Job) -> None:
    """Read attention on the chosen documents and put it beside the layers."""
    job.listener.say(f"attention on {len(job.documents)} documents")
    trust = job.wanted.trust_remote_code
    tokenizer = load_tokenizer(checkpoint, trust_remote_code=trust)
    network = load_model(checkpoint, dtype=job.wanted.dtype, device=job.device, trust_remote_code=trust)
    made = attend(network, tokenizer, job.documents, most=TOKENS, wrap=job.wanted.wrap)
    for name, table in zip((ATTENTION, ROWS), made, strict=True):
        table.insert(0, "step", step)
        before = series.tables.get(name)
        joined = table if before is None else pd.concat([before, table])
        series.tables[name] = joined.sort_values("step", kind="stable", ignore_index=True)
    series.notes[ATTENTION] = {"documents": len(job.documents), "tokens": TOKENS}
