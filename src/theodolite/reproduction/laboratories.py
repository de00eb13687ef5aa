"""The laboratories of a reproduction: plan and run those that a paper's exhibits need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from theodolite import samples
from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit
from theodolite.reproduction.plan import Task, safe_name
from theodolite.studies.laboratory import Findings, is_laboratory, open_laboratory
from theodolite.studies.series import Series

MODEL_FREE = ("cautions",)
"""Laboratories that use no model and run once."""


@dataclass(frozen=True)
class Materials:
    """The inputs of laboratories; by default the samples of the package."""

    corpus: str | None = None
    against: str | None = None  # a second corpus, for clouds
    words: Path = field(default_factory=partial(samples.path, "words.csv"))
    pairs: Path = field(default_factory=partial(samples.path, "pairs.json"))
    groups: Path = field(default_factory=partial(samples.path, "groups.json"))
    sentences: Path = field(default_factory=partial(samples.path, "sentences.txt"))
    device: str | None = None


def _weights(model: str, _: Materials, listener: Listener) -> Findings:
    from theodolite.studies.weights.weights import weights

    return weights(model, listener=listener)


def _cautions(_: str, __: Materials, listener: Listener) -> Findings:
    from theodolite.studies.cautions import cautions

    return cautions(listener=listener)


def _probe(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.probe.probe import probe

    return probe(model, given.words, listener=listener)


def _trace(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.trace.trace import trace

    lines = given.sentences.read_text("utf-8").splitlines()
    return trace(model, [line for line in lines if line.strip()], listener=listener)


def _groups(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.groups.groups import groups

    return groups(model, given.groups, listener=listener)


def _contrast(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.contrast.contrast import contrast

    return contrast(model, given.pairs, pooling="first", listener=listener)  # as the thesis did


def _clouds(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.clouds.clouds import clouds

    if given.corpus is None:
        raise InputError("--corpus is missing; clouds compares two corpora, given as --corpus and --against.")
    return clouds(model, [given.corpus, given.against or _other_corpus(given.corpus)], listener=listener)


def _block(model: str, _: Materials, listener: Listener) -> Findings:
    from theodolite.studies.block.block import block

    return block(config=model, listener=listener)


Experiment = Callable[[str, Materials, Listener], Findings]
EXPERIMENTS: dict[str, Experiment] = {
    "weights": _weights,
    "cautions": _cautions,
    "probe": _probe,
    "trace": _trace,
    "groups": _groups,
    "contrast": _contrast,
    "clouds": _clouds,
    "block": _block,
}
OWN_MODELS: dict[str, tuple[str, ...]] = {"block": ("bert-base",)}
"""Laboratories that do not run on the surveyed models: `block` runs on an untrained block, as in the paper."""


def _other_corpus(corpus: str) -> str:
    return "enwik8-clean" if corpus != "enwik8-clean" else "chitchat"


def needed_laboratories(exhibits: Iterable[Exhibit]) -> list[str]:
    """Return the laboratories that these exhibits need, in the order in which they are run."""
    needed = {need.laboratory for exhibit in exhibits for need in exhibit.needs if need.laboratory}
    return [verb for verb in EXPERIMENTS if verb in needed]


def needs_surveys(exhibits: Iterable[Exhibit]) -> bool:
    """Return whether any of these exhibits is drawn from surveys."""
    return any(not any(need.laboratory for need in exhibit.needs) for exhibit in exhibits)


def plan_laboratories(exhibits: Iterable[Exhibit], reads: Mapping[str, tuple[str, str]], out: Path) -> list[Task]:
    """Return one task per laboratory and text model, and one for each laboratory that uses no model."""
    text_models = tuple(model for model, (_, kind) in reads.items() if kind == "text")
    tasks = []
    for verb in needed_laboratories(exhibits):
        models = ("",) if verb in MODEL_FREE else OWN_MODELS.get(verb, text_models)
        for model in models:
            name = f"{safe_name(model)}-{verb}" if model else verb
            tasks.append(Task(model or verb, verb, out / "laboratories" / name, laboratory=verb))
    return tasks


def plan_series(folders: Iterable[str | Path]) -> list[Task]:
    """Return one task per finished series of checkpoints; nothing is run for it."""
    tasks = []
    for folder in folders:
        series = Series.read(folder)
        tasks.append(Task(series.model["name"], "none", Path(folder), laboratory="dynamics"))
    return tasks


def ensure_laboratory(task: Task, materials: Materials, listener: Listener) -> None:
    """Run the laboratory into the task's folder, unless the folder holds its results already."""
    settings = _settings(task, materials)
    if is_laboratory(task.folder):
        present = open_laboratory(task.folder).facts
        if present.get("laboratory") == task.laboratory and present.get("reproduction") == settings:
            listener.say(f"reusing {task.folder}")
            return
    listener.say(f"{task.laboratory} of {task.model}: {task.folder}")
    findings = EXPERIMENTS[task.laboratory](task.model, materials, listener)
    facts = {**findings.facts, "reproduction": settings}
    Findings(facts, findings.tables, findings.vectors).save(task.folder, overwrite=True)


def _settings(task: Task, materials: Materials) -> dict[str, Any]:
    """Return the settings that must be equal for findings to be reused."""
    from importlib.metadata import version

    given = {name: str(value) for name, value in vars(materials).items()}
    return {"model": task.model, "version": version("theodolite")} | given
