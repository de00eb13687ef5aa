"""What a paper's exhibits need: the surveys, what each model reads, the folders, and the pictures to draw."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from theodolite.engines.progress import Listener
from theodolite.errors import InputError, nearest
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.needs import WORDS
from theodolite.models.checkpoint import Modality, find_modality, resolve
from theodolite.studies.choice import AUTO, Choice

POPULATIONS = ("all", "without-first", "without-massive", "without-sinks")
MAKEUP = ("norm-variance/fig4", "norm-variance/fig5", "norm-variance/fig6")
COSINES = tuple(f"anisotropy-inherent/fig{number}" for number in (1, 2, 3, 4))
DRIFT = ("anisotropy-inherent/fig5", "anisotropy-inherent/fig11", "anisotropy-inherent/drift")
CONTEXTS = ("norm-variance/consistency", "anisotropy-inherent/contextuality")
BY_POPULATION = (*MAKEUP, *COSINES, *DRIFT, *CONTEXTS, "dynamics/fig1", "dynamics/fig2", "dynamics/fig3")
UNBIASED = (*MAKEUP, "norm-variance/fig7", "norm-variance/fig17")
BY_DEPTH = COSINES
UNITS = {"norm-variance": "surface"}
"""The units of papers that do not use vocabulary ids."""
CONTEXTUAL = ("norm-variance",)
"""Papers whose surveys compute contextuality by default, because they read text only."""


@dataclass(frozen=True)
class Task:
    """One survey or laboratory to run or to reuse."""

    model: str
    units: str
    folder: Path
    corpus: str = ""
    kind: str = "text"  # modality of the model
    laboratory: str = ""  # the verb that writes the folder; empty for a survey


@dataclass(frozen=True)
class Edition:
    """One picture to draw: an exhibit as in the paper, or with other options."""

    exhibit: Exhibit
    choice: Choice
    suffix: str = ""  # how it differs from the paper; also the end of its file's name

    @property
    def stem(self) -> str:
        """The name of its files, without the ending."""
        return f"{self.exhibit.id}-{self.suffix}" if self.suffix else self.exhibit.id


def plan_surveys(
    models: Sequence[str],
    out: Path,
    units: str,
    exhibits: Iterable[Exhibit],
    reads: Callable[[str], tuple[str, str]] = lambda model: ("", "text"),
) -> list[Task]:
    """Return one survey per model, and one more by word if an exhibit needs it and `units` are not words.

    `reads` returns the corpus and the modality of a model. Only text models have units.
    """
    if not models:
        raise InputError("--model is missing; give the option once for each model.")
    repeated = [model for place, model in enumerate(models) if model in models[:place]]
    if repeated:
        raise InputError(f"--model {repeated[0]} is given more than once; give each model once.")
    all_units = [units]
    if units != "word" and any(WORDS in exhibit.needs for exhibit in exhibits):
        all_units.append("word")
    used: set[str] = set()
    tasks = []
    for unit in all_units:
        for model in models:
            corpus, modality = reads(model)
            if unit != units and modality != "text":
                continue
            folder = out / "surveys" / _unused_name(model, "" if unit == units else f"-{unit}", used)
            tasks.append(Task(model, unit if modality == "text" else "none", folder, corpus, modality))
    return tasks


def plan_editions(paper: str, exhibits: Iterable[Exhibit]) -> list[Edition]:
    """Return the exhibits of a paper, each once, then editions with options that the paper did not use."""
    unique = drop_repeated([exhibit for exhibit in exhibits if exhibit.paper == paper])
    of_paper = [Edition(exhibit, Choice(AUTO)) for exhibit in unique]
    by_population = [
        Edition(exhibit, Choice(population=population), population)
        for population in POPULATIONS
        for exhibit in unique
        if exhibit.name in BY_POPULATION
    ]
    unbiased = [
        Edition(exhibit, Choice(AUTO, variant="unbiased"), "unbiased")
        for exhibit in unique
        if exhibit.name in UNBIASED
    ]
    by_depth = [
        Edition(exhibit, Choice(AUTO, depth="normalised"), "by-depth")
        for exhibit in unique
        if exhibit.name in BY_DEPTH
    ]
    return of_paper + by_population + unbiased + by_depth


def drop_repeated(exhibits: Iterable[Exhibit]) -> list[Exhibit]:
    """Keep the first exhibit of each drawing function: papers repeat a figure per model, ours shows all models."""
    kept: dict[int, Exhibit] = {}
    for exhibit in exhibits:
        kept.setdefault(id(exhibit.make), exhibit)
    return list(kept.values())


def check_paper(paper: str, exhibits: Iterable[Exhibit]) -> None:
    """Reject a paper without exhibits."""
    known = list(dict.fromkeys(exhibit.paper for exhibit in exhibits))
    if paper not in known:
        raise InputError(f"There is no paper {paper!r}. Papers: {', '.join(known)}.{nearest(paper, known)}")


def safe_name(model: str) -> str:
    """Return a folder name for a model: the last part of its name, with letters, digits, dots and dashes only.

    >>> safe_name("minilm-l6"), safe_name("org/My Model/"), safe_name("files/tiny.Q8.gguf"), safe_name("..")
    ('minilm-l6', 'My-Model', 'tiny.Q8', 'model')
    """
    last = model.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".gguf")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.") or "model"


def _unused_name(model: str, ending: str, used: set[str]) -> str:
    """Return a folder name that is not used yet. If two models would share one, the later gets a hash."""
    name = safe_name(model)
    if f"{name}{ending}".lower() in used:
        name = f"{name}-{sha256(model.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    used.add(f"{name}{ending}".lower())
    return f"{name}{ending}"


OPTIONS = {"text": "--corpus", "speech": "--audio", "vision": "--images", "convolution": "--images"}


@dataclass(frozen=True)
class Corpora:
    """The corpora given for each modality; None if not given."""

    text: str | None = None
    audio: str | None = None
    images: str | None = None
    own: dict[str, str] = field(default_factory=dict)  # by model, for models with their own corpus

    def __str__(self) -> str:
        given = (self.text, self.audio, self.images, *self.own.values())
        return ", ".join(dict.fromkeys(each for each in given if each is not None))

    def assign(self, models: Sequence[str], listener: Listener) -> dict[str, tuple[str, Modality]]:
        """Return the corpus and the modality of each model; reject a model whose corpus is not given."""
        if not str(self):
            raise InputError(
                "There is no corpus for the models. Give --corpus for text, --audio for speech or --images for "
                "vision."
            )
        reads: dict[str, tuple[str, Modality]] = {}
        for model in models:
            kind = self._kind(model, listener)
            corpus = self.own.get(model, {"text": self.text, "speech": self.audio}.get(kind, self.images))
            if corpus is None:
                raise InputError(
                    f"{model} is a {kind} model, but no corpus for it is given; give {OPTIONS[kind]}, or "
                    f"--model {model}=CORPUS."
                )
            reads[model] = corpus, kind
        return reads

    def _kind(self, model: str, listener: Listener) -> Modality:
        if self.audio is None and self.images is None and not self.own:  # only text is given
            return "text"
        return find_modality(resolve(model, progress=listener.say).folder, model)


def split_models(models: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the names of the models, and the corpora of those given as MODEL=CORPUS.

    >>> split_models(["minilm-l6", "whisper-tiny-en=speech"])
    (['minilm-l6', 'whisper-tiny-en'], {'whisper-tiny-en': 'speech'})
    """
    names, own = [], {}
    for given in models:
        model, equals, corpus = given.partition("=")
        names.append(model)
        if equals:
            own[model] = corpus
    return names, own
