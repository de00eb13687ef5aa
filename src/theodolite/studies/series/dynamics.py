"""Surveying every checkpoint on the same text: the implementation of `theodolite dynamics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.corpora.scan import scan
from theodolite.corpora.text_corpus import open_corpus
from theodolite.engines.progress import Listener
from theodolite.errors import InputError, TheodoliteError
from theodolite.models.checkpoint import Checkpoint, find_modality, load_model, load_tokenizer, resolve
from theodolite.models.layers import RESIDUAL
from theodolite.storage.file_names import FACTS
from theodolite.storage.location import list_output_folder, local_path
from theodolite.storage.lock import exclusive
from theodolite.studies.series import files
from theodolite.studies.series.attention import measure_attention, select_documents
from theodolite.studies.series.checkpoints import StepCheckpoint, find_checkpoints, missing_steps
from theodolite.studies.series.series import ATTENTION, ATTENTION_ROWS, Series, check_step
from theodolite.surveys.api import best_device, survey_checkpoint
from theodolite.surveys.folder import open_tables
from theodolite.surveys.options import SurveyOptions
from theodolite.surveys.provenance import differences
from theodolite.surveys.validation import check_device, check_survey_options

STEPS = "steps"
DOCUMENTS = 16
"""Number of documents for attention, selected by hash; they have a few thousand positions."""
TOKENS = 128
"""Tokens read per document for attention; the weights of a head grow with the square."""
CHARACTERS = 512
"""Characters kept per document for attention, so that 16 documents of any length fit into what a scan keeps."""
OPTIONS, IDENTITY = "asked", "identity"
RESUME_HINT = "the same command with --resume"  # in errors of surveys; `theodolite dynamics` always resumes
NOT_STORED = ("pilot", "part", "memory", "trust_remote_code")  # options that change no number or are not offered
TOKENIZERS = (
    "tokenizer.json tokenizer_config.json vocab.txt vocab.json spiece.model tokenizer.model "
    "sentencepiece.bpe.model"
).split()


@dataclass(frozen=True)
class _Job:
    """The settings shared by all steps."""

    folder: Path
    corpus: str | Path | Sequence[str]
    options: SurveyOptions
    device: str
    documents: list[tuple[int, str]]  # for attention; empty if the model is not a text model
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
    name: str | None = None,
    tokenizer: str | None = None,
    device: str | None = None,
    options: Mapping[str, Any] | None = None,
    listener: Listener | None = None,
) -> Series:
    """Survey every checkpoint on the same documents; write OUT/steps/STEP, OUT/series.parquet and OUT/series.json.

    A checkpoint is a folder whose name ends with its step, STEP=FOLDER, a pattern with {step} in it or a glob;
    `revisions` are those of the hub model `model`; `steps` selects steps of a pattern. `name` is the name of the
    series, by default `model`. `tokenizer` is a folder or a model whose tokenizer is used for every step; by
    default each checkpoint uses its own, or that of `model` if it has none. `options` are passed to every survey
    (`limit`, `units`, `layers`, `dtype`, ...). `attention` is the number of documents on which queries, keys and
    attention weights are measured; 0 disables it. Running the same command again resumes the run; additional
    checkpoints are added.
    """
    listener, folder = listener or Listener(), local_path(out, "dynamics")
    survey_options = SurveyOptions(**(options or {}))
    check_survey_options(survey_options)
    check_device(device)
    if attention < 0:
        raise InputError(f"--attention requires a number of documents of 0 or more (got {attention}).")
    found = find_checkpoints(str(model), checkpoints, revisions, steps)
    _warn_of_missing_steps(found, listener)
    _check_folder(folder)
    with exclusive(folder):
        weights = _resolve_checkpoints(found, str(model), tokenizer, survey_options.trust_remote_code, listener)
        job = _make_job(
            folder, corpus, survey_options, device or best_device(), attention, weights[0][1], listener
        )
        series = _open_series(job, name or str(model), attention)
        _check_weights(series, weights)
        for number, (moment, checkpoint) in enumerate(weights, 1):
            if listener.stop():
                raise TheodoliteError("Interrupted between two steps. Run the same command to continue.")
            if moment.step in {step.step for step in series.steps}:
                listener.say(f"step {moment.step}: already surveyed")
                continue
            listener.say(f"step {moment.step} ({number} of {len(weights)}): {moment.label}")
            _add_step(series, moment, checkpoint, job)
            series.write(folder)
    return series


def _warn_of_missing_steps(found: Sequence[StepCheckpoint], listener: Listener) -> None:
    missing = missing_steps([moment.step for moment in found])
    if missing:
        listed = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        steps = "step seems" if len(missing) == 1 else "steps seem"
        listener.warn(f"{len(missing)} intermediate {steps} to be missing: {listed}")
    if len(found) == 1:
        listener.warn("there is only one step, so no change of the geometry can be measured")


def _check_folder(folder: Path) -> None:
    held = list_output_folder(folder)
    if held and files.FACTS not in held:
        raise InputError(f"--out {folder} contains {', '.join(held[:3])} and no series; give another folder.")


def _resolve_checkpoints(
    found: Sequence[StepCheckpoint], model: str, tokenizer: str | None, trust: bool, listener: Listener
) -> list[tuple[StepCheckpoint, Checkpoint]]:
    """Find every checkpoint and hash its weights; reject two steps with equal weights before the first survey."""
    weights: list[tuple[StepCheckpoint, Checkpoint]] = []
    for moment in found:
        checkpoint = resolve(moment.name, revision=moment.revision, progress=listener.say)
        listener.say(f"hashing the weights of step {moment.step}")
        check_step(moment.step, [(other.step, resolved.sha256) for other, resolved in weights], checkpoint.sha256)
        weights.append((moment, _with_tokenizer(checkpoint, model, tokenizer, trust, listener)))
    return weights


def _with_tokenizer(
    checkpoint: Checkpoint, model: str, tokenizer: str | None, trust: bool, listener: Listener
) -> Checkpoint:
    """Return the checkpoint with the given tokenizer, or that of the model if trainers saved it without one."""
    if tokenizer is None and _has_tokenizer(checkpoint.folder):
        return checkpoint
    if find_modality(checkpoint.folder, checkpoint.name, trust_remote_code=trust) != "text":
        return checkpoint
    given = tokenizer or model
    try:
        folder = Path(given) if _has_tokenizer(Path(given)) else resolve(given, progress=listener.say).folder
    except TheodoliteError as error:
        if tokenizer is not None:
            raise InputError(f"--tokenizer {tokenizer!r} was not found ({error})") from error
        raise InputError(
            f"{checkpoint.name} has no tokenizer, and the tokenizer of MODEL {model!r} was not found ({error}) "
            "Give --tokenizer, a folder or a model that has it."
        ) from error
    return replace(checkpoint, tokenizer=folder)


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in TOKENIZERS)


def _make_job(
    folder: Path,
    corpus: str | Path | Sequence[str],
    options: SurveyOptions,
    device: str,
    attention: int,
    first: Checkpoint,
    listener: Listener,
) -> _Job:
    kind = find_modality(first.folder, first.name, trust_remote_code=options.trust_remote_code)
    if kind != "text":
        return _Job(folder, corpus, options, device, [], None, listener)
    documents = open_corpus(corpus, options.corpus_options(), listener.say)
    listener.say(f"reading {documents.name}")
    found = scan(documents, pilot_documents=max(attention, 1), per_document=CHARACTERS)
    return _Job(folder, corpus, options, device, select_documents(found.pilot, attention), found.sha256, listener)


def _open_series(job: _Job, model: str, attention: int) -> Series:
    """Open the series in the folder if it has the same options, or create one."""
    given = job.corpus if isinstance(job.corpus, str | Path) else f"{len(job.corpus)} documents"
    asked = {name: value for name, value in asdict(job.options).items() if name not in NOT_STORED}
    asked |= {"populations": list(job.options.populations), "device": job.device, "attention": attention}
    asked |= {"corpus": str(given), "corpus_sha256": job.corpus_sha256}
    if not isinstance(asked["layers"], str | None):
        asked["layers"] = list(job.options.layers or ())
    if (streams := list(asked.pop("streams"))) != [RESIDUAL]:  # older series do not have them
        asked["streams"] = streams
    if not files.is_series(job.folder):
        series = Series.of(model, {"name": str(given), "sha256": job.corpus_sha256}, asked=asked)
        series.write(job.folder)
        return series
    series = Series.read(job.folder)
    if OPTIONS not in series.settings:
        raise InputError(f"--out {job.folder} contains a series written during training; give another folder.")
    stored = {"model": series.model["name"], **series.settings[OPTIONS]}
    lines = differences(stored, {"model": model, **asked})
    if lines:
        listed = "\n  ".join(lines)
        raise InputError(
            f"--out {job.folder} contains a series with other options:\n  {listed}\n"
            "Give the same options, or another folder."
        )
    return series


def _check_weights(series: Series, weights: Sequence[tuple[StepCheckpoint, Checkpoint]]) -> None:
    """Reject weights that differ from those of the same step in the series, or equal those of another step."""
    steps = {step.step: step for step in series.steps}
    for moment, checkpoint in weights:
        known = steps.get(moment.step)
        if known is not None and known.sha256 != checkpoint.sha256:
            raise InputError(
                f"Step {moment.step} was surveyed with other weights ({known.name}) than those of {moment.label}; "
                "give another --out."
            )
        others = [(step.step, step.sha256) for step in series.steps if step.step != moment.step]
        check_step(moment.step, others, checkpoint.sha256)


def _add_step(series: Series, moment: StepCheckpoint, checkpoint: Checkpoint, job: _Job) -> None:
    """Survey one step, unless it is already surveyed, and add it to the series."""
    place = f"{STEPS}/{moment.step}"
    facts, layers = _survey_step(moment, checkpoint, job, job.folder / place)
    _check_comparable(series, moment, facts["identity"])
    if not series.steps:
        about = {name: value for name, value in facts["model"].items() if name not in ("sha256", "revision")}
        series.model = about | {"name": series.model["name"]}
        series.corpus = {
            k: facts["corpus"].get(k) for k in ("name", "sha256", "documents", "characters", "filters")
        }
        series.units = facts["units"]
        series.settings[IDENTITY] = _without_weights(facts["identity"])
    series.append(moment.step, moment.label, checkpoint.sha256, layers, survey=place)
    if job.documents:
        _add_attention(series, moment.step, checkpoint, job)


def _survey_step(
    moment: StepCheckpoint, checkpoint: Checkpoint, job: _Job, folder: Path
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return the facts and layers of a step: from its finished survey, or by starting or resuming one."""
    if job.corpus_sha256 is not None and (folder / FACTS).is_file():
        facts, tables = open_tables(folder, ["layers"])
        known = facts["identity"]
        if (known["model"]["sha256"], known["corpus"]["sha256"]) == (checkpoint.sha256, job.corpus_sha256):
            return facts, tables["layers"]
    try:
        made = survey_checkpoint(
            checkpoint,
            job.corpus,
            job.options,
            out=folder,
            device=job.device,
            resume=True,
            listener=job.listener,
        )
    except TheodoliteError as error:
        text = error.message.replace(RESUME_HINT, "the same command")
        error.args = (f"Step {moment.step}: {text}",)  # in place, since not every error class takes one message
        raise
    return made.facts, made.layers


def _check_comparable(series: Series, moment: StepCheckpoint, identity: dict[str, Any]) -> None:
    """Reject a step that was surveyed differently from the first step, for instance with another tokenizer."""
    first = series.settings.get(IDENTITY)
    lines = differences(first, _without_weights(identity)) if first else []
    if lines:
        listed = "\n  ".join(lines)
        raise InputError(
            f"Step {moment.step} is not comparable with step {series.steps[0].step}; its survey differs:\n"
            f"  {listed}\nRemove this step."
        )


def _without_weights(identity: dict[str, Any]) -> dict[str, Any]:
    return identity | {"model": {k: v for k, v in identity["model"].items() if k not in ("sha256", "settings")}}


def _add_attention(series: Series, step: int, checkpoint: Checkpoint, job: _Job) -> None:
    """Measure attention on the selected documents and add it to the series."""
    job.listener.say(f"attention on {len(job.documents)} documents")
    trust = job.options.trust_remote_code
    tokenizer = load_tokenizer(checkpoint, trust_remote_code=trust)
    network = load_model(checkpoint, dtype=job.options.dtype, device=job.device, trust_remote_code=trust)
    made = measure_attention(network, tokenizer, job.documents, most=TOKENS, wrap=job.options.wrap)
    for name, table in zip((ATTENTION, ATTENTION_ROWS), made, strict=True):
        table.insert(0, "step", step)
        before = series.tables.get(name)
        joined = table if before is None else pd.concat([before, table])
        series.tables[name] = joined.sort_values("step", kind="stable", ignore_index=True)
    series.notes[ATTENTION] = {"documents": len(job.documents), "tokens": TOKENS}
