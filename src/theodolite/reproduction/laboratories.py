"""The laboratories of a reproduction: what each of a paper's exhibits rests on that is no survey."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from theodolite import samples
from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit
from theodolite.reproduction.plan import Task, safe_name
from theodolite.studies.laboratory import Findings, is_laboratory, open_laboratory
from theodolite.studies.series import Series
from theodolite.surveys.listener import Listener

MODEL_FREE = ("cautions",)
"""Laboratories that are of no model, and made once."""


@dataclass(frozen=True)
class Materials:
    """What laboratories read; what is not given is what the package brings."""

    corpus: str | None = None
    against: str | None = None  # a second corpus, for clouds
    words: Path = field(default_factory=partial(samples.path, "words.csv"))
    pairs: Path = field(default_factory=partial(samples.path, "pairs.json"))
    groups: Path = field(default_factory=partial(samples.path, "groups.json"))
    sentences: Path = field(default_factory=partial(samples.path, "sentences.txt"))
    device: str | None = None


def _weights(model: str, _: Materials, listener: Listener) -> Findings:
    from theodolite.studies.weights.weigh import weights

    return weights(model, listener=listener)


def _cautions(_: str, __: Materials, listener: Listener) -> Findings:
    from theodolite.studies.cautions.laboratory import cautions

    return cautions(listener=listener)


def _probe(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.probe.laboratory import probe

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
        raise InputError("--corpus: two corpora are compared; give one with --corpus and another with --against.")
    return clouds(model, [given.corpus, given.against or _another(given.corpus)], listener=listener)


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
"""Laboratories that a paper ran on something else than the models that are surveyed: an untrained block."""


def _another(corpus: str) -> str:
    return "enwik8-clean" if corpus != "enwik8-clean" else "chitchat"


def verbs(exhibits: Iterable[Exhibit]) -> list[str]:
    """Return the laboratories that these exhibits need, in the order in which they are run."""
    needed = {need.laboratory for exhibit in exhibits for need in exhibit.needs if need.laboratory}
    return [verb for verb in EXPERIMENTS if verb in needed]


def needs_surveys(exhibits: Iterable[Exhibit]) -> bool:
    """Say whether any of these exhibits is drawn from surveys."""
    return any(not any(need.laboratory for need in exhibit.needs) for exhibit in exhibits)


def tasks(exhibits: Iterable[Exhibit], reads: Mapping[str, tuple[str, str]], out: Path) -> list[Task]:
    """Return a task for every laboratory and model of text, and one where it is of no model."""
    texts = [model for model, (_, kind) in reads.items() if kind == "text"]
    found = []
    for verb in verbs(exhibits):
        subjects = ("",) if verb in MODEL_FREE else OWN_MODELS.get(verb, tuple(texts))
        for model in subjects:
            name = f"{safe_name(model)}-{verb}" if model else verb
            found.append(Task(model or verb, verb, out / "laboratories" / name, laboratory=verb))
    return found


def series_tasks(folders: Iterable[str | Path]) -> list[Task]:
    """Return a task for every series of checkpoints that is given: they are drawn from as they are."""
    found = []
    for folder in folders:
        series = Series.read(folder)
        found.append(Task(series.model["name"], "none", Path(folder), laboratory="dynamics"))
    return found


def made(task: Task, materials: Materials, listener: Listener) -> None:
    """Leave what the laboratory finds in the task's folder, unless it lies there already."""
    settings = _settings(task, materials)
    if is_laboratory(task.folder):
        held = open_laboratory(task.folder).facts
        if held.get("laboratory") == task.laboratory and held.get("reproduction") == settings:
            listener.say(f"{task.folder} holds this already")
            return
    listener.say(f"{task.laboratory} of {task.model}: {task.folder}")
    found = EXPERIMENTS[task.laboratory](task.model, materials, listener)
    facts = {**found.facts, "reproduction": settings}
    Findings(facts, found.tables, found.vectors).save(task.folder, overwrite=True)


def _settings(task: Task, materials: Materials) -> dict[str, Any]:
    """Return what decides whether findings can be used again."""
    from importlib.metadata import version

    given = {name: str(value) for name, value in vars(materials).items()}
    return {"model": task.model, "version": version("theodolite")} | given
