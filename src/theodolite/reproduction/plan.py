"""The plan: which surveys a paper's exhibits need, where they go, and which pictures are drawn of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from theodolite.errors import InputError, nearest
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.needs import WORDS
from theodolite.studies.choice import Choice

POPULATIONS = ("without-first", "without-massive")
MAKEUP = ("norm-variance/fig4", "norm-variance/fig5", "norm-variance/fig6")
COSINES = tuple(f"anisotropy-inherent/fig{number}" for number in (1, 2, 3, 4))
DRIFT = ("anisotropy-inherent/fig5", "anisotropy-inherent/fig11", "anisotropy-inherent/drift")
CONTEXTS = ("norm-variance/consistency", "anisotropy-inherent/contextuality")
BY_POPULATION = (*MAKEUP, *COSINES, *DRIFT, *CONTEXTS, "dynamics/fig1", "dynamics/fig2", "dynamics/fig3")
UNBIASED = (*MAKEUP, "norm-variance/fig7", "norm-variance/fig17")
BY_DEPTH = COSINES
UNITS = {"norm-variance": "surface"}
"""What a paper counts by, where it is not the vocabulary id."""
CONTEXTUAL = ("norm-variance",)
"""Papers whose surveys also tell self-similarity unless told otherwise: all that they read is text."""


@dataclass(frozen=True)
class Task:
    """One survey to make or to find: a model, the units it is counted by, and its folder."""

    model: str
    units: str
    folder: Path
    corpus: str = ""
    kind: str = "text"  # what it is fed
    laboratory: str = ""  # the verb that makes its folder, where that holds no survey


@dataclass(frozen=True)
class Edition:
    """One picture to draw: an exhibit as the paper has it, or again with another choice."""

    exhibit: Exhibit
    choice: Choice
    told: str = ""  # how it differs from the paper's, in words; also the end of its file's name

    @property
    def stem(self) -> str:
        """What its files are called, without the ending."""
        return f"{self.exhibit.id}-{self.told}" if self.told else self.exhibit.id


def tasks(
    models: Sequence[str],
    out: Path,
    units: str,
    exhibits: Iterable[Exhibit],
    reads: Callable[[str], tuple[str, str]] = lambda model: ("", "text"),
) -> list[Task]:
    """Return a survey a model, and one by words besides where an exhibit needs it and the first is not.

    `reads` says of a model what it reads and what kind it is; only text has units, and words.
    """
    if not models:
        raise InputError("--model: wanted at least one model; give the option once for each.")
    twice = [model for place, model in enumerate(models) if model in models[:place]]
    if twice:
        raise InputError(f"--model {twice[0]} is given twice; each model is surveyed once.")
    every = [units]
    if units != "word" and any(WORDS in found.needs for found in exhibits):
        every.append("word")
    used: set[str] = set()
    found = []
    for kind in every:
        for model in models:
            corpus, fed = reads(model)
            if kind != units and fed != "text":
                continue
            folder = out / "surveys" / _free(model, "" if kind == units else f"-{kind}", used)
            found.append(Task(model, kind if fed == "text" else "none", folder, corpus, fed))
    return found


def editions(paper: str, exhibits: Iterable[Exhibit]) -> list[Edition]:
    """Return a paper's exhibits, each once though the paper repeats some, then what goes beyond the paper."""
    found = once([exhibit for exhibit in exhibits if exhibit.paper == paper])
    plain = [Edition(exhibit, Choice()) for exhibit in found]
    others = [
        Edition(exhibit, Choice(population=population), population)
        for population in POPULATIONS
        for exhibit in found
        if exhibit.name in BY_POPULATION
    ]
    unbiased = [
        Edition(exhibit, Choice(variant="unbiased"), "unbiased") for exhibit in found if exhibit.name in UNBIASED
    ]
    by_depth = [
        Edition(exhibit, Choice(depth="normalised"), "by-depth") for exhibit in found if exhibit.name in BY_DEPTH
    ]
    return plain + others + unbiased + by_depth


def once(exhibits: Iterable[Exhibit]) -> list[Exhibit]:
    """Keep the first of those that one function makes: the paper has a figure a model, ours has them all."""
    kept: dict[int, Exhibit] = {}
    for exhibit in exhibits:
        kept.setdefault(id(exhibit.make), exhibit)
    return list(kept.values())


def check_paper(paper: str, exhibits: Iterable[Exhibit]) -> None:
    """Refuse a paper without exhibits."""
    known = list(dict.fromkeys(exhibit.paper for exhibit in exhibits))
    if paper not in known:
        raise InputError(f"There is no paper {paper!r}; known: {', '.join(known)}.{nearest(paper, known)}")


def safe_name(model: str) -> str:
    """Return a folder's name for a model: the last part of its own, of letters, digits, dots and dashes.

    >>> safe_name("minilm-l6"), safe_name("org/My Model/"), safe_name("files/tiny.Q8.gguf"), safe_name("..")
    ('minilm-l6', 'My-Model', 'tiny.Q8', 'model')
    """
    last = model.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".gguf")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.") or "model"


def _free(model: str, ending: str, used: set[str]) -> str:
    """Return a name not used yet; where two models would share one, the later gets a hash of its own."""
    name = safe_name(model)
    if f"{name}{ending}".lower() in used:
        name = f"{name}-{sha256(model.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    used.add(f"{name}{ending}".lower())
    return f"{name}{ending}"
