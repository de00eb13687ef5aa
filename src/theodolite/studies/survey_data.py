"""A finished survey, laboratory or series as studies and exhibits read it: its facts and its tables."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.corpora.options import CorpusOptions
from theodolite.errors import DamagedError, InputError
from theodolite.studies.rare_units import find_min_count
from theodolite.text import join_words, list_layers, short_path

UNDEFINED_EVERYWHERE = "undefined at every layer"


@dataclass(frozen=True, eq=False)
class SurveyData:
    """The contents of survey.json as a dict, and the tables that were read, by name."""

    facts: dict[str, Any]
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def layers(self) -> pd.DataFrame:
        """One row per layer and population."""
        return self.tables["layers"]

    @property
    def tokens(self) -> pd.DataFrame:
        """One row per layer, population and unit."""
        return self.tables["tokens"]

    @property
    def units(self) -> pd.DataFrame:
        """One row per unit seen."""
        return self.tables["units"]

    @property
    def model(self) -> str:
        """Name of the model; the name of the file if vectors were measured without a model."""
        model = self.facts.get("model")
        return escape_unencodable(short_path(str(model["name"]), 2)) if model else self.corpus

    @property
    def corpus(self) -> str:
        """Name of the corpus."""
        return escape_unencodable(short_path(str(self.facts["corpus"]["name"])))

    @property
    def documents(self) -> int:
        """Number of documents read."""
        return int(self.facts["corpus"]["documents"])

    @property
    def layer_names(self) -> dict[int, str]:
        """Names of the surveyed layers by number, first to last."""
        return {int(layer["index"]): str(layer["name"]) for layer in self.facts["layers"]}

    def command(self, *options: str) -> str:
        """Return the command that surveys the same documents of the same corpus again with the given options.

        >>> facts = {"model": {"name": "runs/minilm"}, "corpus": {"name": "my notes.txt", "filters": {"limit": 9}}}
        >>> SurveyData(facts).command("--units", "word")
        "theodolite survey runs/minilm --corpus 'my notes.txt' --limit 9 --units word --out DIR"
        """
        model, corpus = self.facts.get("model"), escape_unencodable(self.facts["corpus"]["name"])
        kept = list(self._options(set(options)))
        if model is None:
            return shlex.join(["theodolite", "measure", corpus, *kept, *options, "--out", "DIR"])
        name = escape_unencodable(model["name"])
        return shlex.join(["theodolite", "survey", name, "--corpus", corpus, *kept, *options, "--out", "DIR"])

    def _options(self, replaced: Collection[str]) -> Iterator[str]:
        """Yield the options with which the survey was made, such as filters, where they are not the default."""
        corpus, settings = self.facts["corpus"], self.facts.get("settings") or {}
        chosen = corpus.get("filters") or {}
        filters = {name: (value, DEFAULT_FILTERS.get(name)) for name, value in chosen.items()}
        others = {name: (settings[name], usual) for name, usual in USUAL_SETTINGS.items() if name in settings}
        others["part"] = (corpus.get("part"), None)
        if self.facts.get("model") is None:  # vectors of a file that has several columns
            filters["column"] = ((self.facts.get("identity") or {}).get("corpus", {}).get("column"), None)
        for name, (value, usual) in (filters | others).items():
            flag = f"--{name.replace('_', '-')}"
            if value == usual or value is None or value in ("id", "none") or flag in replaced:
                continue
            yield from (flag,) if value is True else (flag, str(value))


DEFAULT_FILTERS = asdict(CorpusOptions())
USUAL_SETTINGS = {
    "units": "id",
    "max_tokens": 512,
    "max_seconds": 30.0,
    "drop_special": False,
    "wrap": False,
    "clean_words": False,
    "contextuality": False,
}
"""Settings that `SurveyData.command` repeats where they are not the default."""


def escape_unencodable(name: object) -> str:
    """Return a name that can be encoded as UTF-8; a path may contain bytes that cannot."""
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


def describe_adapters(facts: Mapping[str, Any]) -> str:
    """Return what follows the name of a model that was surveyed with adapters; empty without any.

    >>> describe_adapters({"model": {"name": "llama", "adapters": ["law", "tax"]}})
    ' with the adapters law and tax'
    """
    model = facts.get("model")
    given = model.get("adapters") if isinstance(model, Mapping) else None
    adapters = [escape_unencodable(name) for name in given or ()]
    return f" with the {'adapters' if len(adapters) > 1 else 'adapter'} {join_words(adapters)}" if adapters else ""


def describe_units(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the kind of units of each survey, with its --min-count if these differ.

    >>> describe_units([{"units": "id"}, {"units": "id", "settings": {"min_count": 10}}])
    ['id, min-count 1', 'id, min-count 10']
    """
    counts = [find_min_count(one) for one in facts]
    details = [f", min-count {count}" if len(set(counts)) > 1 else "" for count in counts]
    return [f"{one.get('units') or ''}{detail}" for one, detail in zip(facts, details, strict=True)]


def make_labels(surveys: Sequence[SurveyData]) -> list[str]:
    """Return a short, distinct name for each survey: its label, or the model.

    Models get their adapters and the corpus, then units and --min-count, and then a number if these are needed to
    distinguish them.
    """
    given = [escape_unencodable(survey.facts.get("label") or "") for survey in surveys]
    names = [label or survey.model for label, survey in zip(given, surveys, strict=True)]
    fuller = [
        label or f"{survey.model}{describe_adapters(survey.facts)} on {survey.corpus}"
        for label, survey in zip(given, surveys, strict=True)
    ]
    if max(Counter(names).values(), default=0) > 1:
        names = fuller
    if max(Counter(names).values(), default=0) > 1:
        units = describe_units([survey.facts for survey in surveys])
        names = [f"{name}, {unit}" for name, unit in zip(names, units, strict=True)]
    if max(Counter(names).values(), default=0) > 1:
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    return names


def middle_layer(survey: SurveyData) -> int:
    """Return the surveyed layer nearest to the middle of the blocks, such as 6 for the 12 blocks of BERT."""
    known = list(survey.layer_names)
    if not known:
        raise InputError(f"{survey.model}: the survey has no layers.")
    model = survey.facts.get("model") or {}
    half = int(model.get("blocks") or max(known)) // 2
    return min(known, key=lambda layer: (abs(layer - half), layer))


def sample_layers(survey: SurveyData, count: int = 5) -> list[int]:
    """Return up to `count` surveyed layers, evenly spaced from the first to the last."""
    known = list(survey.layer_names)
    if len(known) <= count:
        return known
    return [known[round(step * (len(known) - 1) / (count - 1))] for step in range(count)]


def check_layer(survey: SurveyData, layer: int) -> int:
    """Return the layer if the survey has it; raise InputError otherwise."""
    known = list(survey.layer_names)
    if layer not in known:
        raise InputError(f"--layer {layer}: the survey of {survey.model} has {list_layers(known)}.")
    return layer


def get_tables(survey: SurveyData, names: Sequence[str]) -> list[pd.DataFrame]:
    """Return tables of a laboratory by name; raise DamagedError if one is missing."""
    missing = [name for name in names if name not in survey.tables]
    if missing:
        raise DamagedError(f"{survey.folder}: {missing[0]}.parquet is missing.")
    return [survey.tables[name] for name in names]


def explain_undefined(survey: SurveyData, population: str, column: str) -> str:
    """Return why a column of layers.parquet is undefined: the most frequent reason among the layers, if stored."""
    rows = survey.layers[survey.layers["population"] == population]
    stored = [row for row in rows.get("undefined", ()) if isinstance(row, str)]
    reasons = [json.loads(row).get(column) for row in stored]
    found = Counter(str(reason) for reason in reasons if reason).most_common(1)
    return f"{column} is undefined ({found[0][0]})" if found else f"{column} is {UNDEFINED_EVERYWHERE}"


def owner(survey_facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies the survey that the files of a second pass belong to."""
    known = survey_facts.get("identity") or {}
    return {name: known.get(name) for name in ("model", "tokenizer", "corpus", "settings")}
