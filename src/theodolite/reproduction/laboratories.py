"""The laboratories of a reproduction: plan and run those that a paper's exhibits need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from theodolite import samples
from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit
from theodolite.reproduction.plan import Task, safe_name
from theodolite.studies.laboratory import Findings, is_laboratory, open_laboratory
from theodolite.studies.series import Series
from theodolite.surveys.options import RunOptions, SurveyOptions, flag, list_options

MODEL_FREE = ("cautions",)
"""Laboratories that use no model and run once."""


@dataclass(frozen=True)
class Materials:
    """The inputs of laboratories, by default the samples of the package, and the options that they use."""

    corpus: str | None = None
    against: str | None = None  # a second corpus, for clouds
    words: Path | None = None
    pairs: Path | None = None
    groups: Path | None = None
    sentences: Path | None = None
    layers: str | None = None
    limit: int | None = None
    max_tokens: int | None = None
    seed: int = 0
    device: str | None = None
    dtype: str = "float32"

    def file(self, name: str, sample: str) -> Path:
        """Return the file given for an input, or the sample of the package."""
        given: Path | None = getattr(self, name)
        return samples.path(sample) if given is None else Path(given)

    def run_options(self) -> dict[str, Any]:
        """Return where and how the model runs."""
        return {"device": self.device or "cpu", "dtype": self.dtype}


OPTIONS = ("layers", "limit", "max_tokens", "seed", "device", "dtype")
"""Options of surveys that laboratories use too."""


@cache
def thesis_pooling(model: str) -> str:
    """Return the pooling of the thesis, the classification token, or mean if the tokenizer adds none."""
    from theodolite.models.checkpoint import load_tokenizer, resolve
    from theodolite.studies.pooling import DEFAULT_POOLING, find_cls

    try:
        find_cls(load_tokenizer(resolve(model)))
    except InputError:
        return DEFAULT_POOLING
    return "cls"


def _weights(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.weights.weights import weights

    return weights(model, seed=given.seed, listener=listener)


def _cautions(_: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.cautions import cautions

    return cautions(seed=given.seed, listener=listener)


def _probe(model: str, given: Materials, listener: Listener) -> Findings:
    """Probe the input table for parts of speech, as the thesis did, or the classes of the user's file."""
    from theodolite.studies.probe.probe import probe

    words = given.file("words", "parts-of-speech.csv")
    return probe(model, words, seed=given.seed, listener=listener, **given.run_options())


def _trace(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.trace.trace import trace

    lines = given.file("sentences", "sentences.txt").read_text("utf-8-sig").splitlines()
    sentences = [line for line in lines if line.strip()]
    return trace(model, sentences, layers=given.layers, listener=listener, **given.run_options())


def _groups(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.groups.groups import groups

    file, options = given.file("groups", "groups.json"), _thesis_options(model, given)
    return groups(model, file, listener=listener, **options)


def _contrast(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.contrast.contrast import contrast

    file, options = given.file("pairs", "pairs.json"), _thesis_options(model, given)
    return contrast(model, file, listener=listener, **options)


def _clouds(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.clouds.clouds import clouds

    if given.corpus is None:
        raise InputError("--corpus is missing; clouds compares two corpora, given as --corpus and --against.")
    chosen = {"limit": given.limit, "max_tokens": given.max_tokens} | _thesis_options(model, given)
    options = {name: value for name, value in chosen.items() if value is not None}
    return clouds(
        model, [given.corpus, given.against or _other_corpus(given.corpus)], listener=listener, **options
    )


def _thesis_options(model: str, given: Materials) -> dict[str, Any]:
    pooling = {"layers": given.layers, "pooling": thesis_pooling(model), "seed": given.seed}
    return pooling | given.run_options()


def _block(model: str, given: Materials, listener: Listener) -> Findings:
    from theodolite.studies.block.block import block

    return block(config=model, seed=given.seed, listener=listener)


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


USES = {"words": "probe", "pairs": "contrast", "groups": "groups", "sentences": "trace"}
"""Inputs that a user may give as files, and the laboratory that reads each."""


def check_files(paper: str, exhibits: Iterable[Exhibit], files: Mapping[str, str | Path]) -> dict[str, Any]:
    """Return the given files by input; reject one that does not exist or that no laboratory of the paper reads."""
    needed = needed_laboratories(exhibits)
    found = {name: Path(file) for name, file in files.items()}
    for name, file in found.items():
        if USES[name] not in needed:
            raise InputError(
                f"--{name} {file} is not used by {paper}, which does not run `theodolite {USES[name]}`."
            )
        if not file.is_file():
            raise InputError(f"--{name} {file} does not exist.")
    return found


def warn_of_unused(paper: str, options: Mapping[str, Any], listener: Listener) -> None:
    """Warn of options that differ from their defaults and that no laboratory uses, for a paper without surveys."""
    defaults = {each.name: each.default for kind in (SurveyOptions, RunOptions) for each in list_options(kind)}
    unused = [
        flag(name)
        for name, value in options.items()
        if name not in OPTIONS and value is not None and value != defaults.get(name)
    ]
    if unused:
        listener.warn(f"{', '.join(unused)}: no effect on {paper}, which has no surveys.")


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
    files = [value for value in vars(materials).values() if isinstance(value, Path)]
    given |= {str(file): sha256(file.read_bytes()).hexdigest() for file in files}
    return {"model": task.model, "version": version("theodolite")} | given
