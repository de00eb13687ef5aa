"""One survey as the studies see it: its facts and its tables, wherever they came from."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import InputError
from theodolite.naming import short_path


@dataclass(frozen=True, eq=False)
class Surveyed:
    """survey.json as a dict, and the tables that were read, by name."""

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
        """What the model is called; the file's name where vectors were measured without one."""
        model = self.facts.get("model")
        return _encodable(short_path(str(model["name"]), 2)) if model else self.corpus

    @property
    def corpus(self) -> str:
        """What the corpus is called."""
        return _encodable(short_path(str(self.facts["corpus"]["name"])))

    @property
    def documents(self) -> int:
        """How many documents were read."""
        return int(self.facts["corpus"]["documents"])

    @property
    def layer_names(self) -> dict[int, str]:
        """Layers surveyed, by number, first to last."""
        return {int(layer["index"]): str(layer["name"]) for layer in self.facts["layers"]}

    def command(self, *options: str) -> str:
        """Return the command that would survey the same again, with other options.

        >>> facts = {"model": {"name": "minilm-l6"}, "corpus": {"name": "my notes.txt"}}
        >>> Surveyed(facts).command("--units", "word")
        "theodolite survey minilm-l6 --corpus 'my notes.txt' --units word --out DIR"
        """
        if self.facts.get("model") is None:
            return shlex.join(["theodolite", "measure", self.corpus, *options, "--out", "DIR"])
        return shlex.join(["theodolite", "survey", self.model, "--corpus", self.corpus, *options, "--out", "DIR"])


def _encodable(name: object) -> str:
    """Return a name that a table can hold: a path may have bytes that are no text."""
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


def labels(surveys: Sequence[Surveyed]) -> list[str]:
    """Return a short name for each survey, all different: the model, else the model and more."""
    names = [survey.model for survey in surveys]
    fuller = [f"{survey.model} on {survey.corpus}" for survey in surveys]
    if max(Counter(names).values(), default=0) > 1:
        names = fuller
    if max(Counter(names).values(), default=0) > 1:
        units = [f"{name}, {survey.facts.get('units')}" for name, survey in zip(names, surveys, strict=True)]
        names = [f"{name} ({number})" for number, name in enumerate(units, 1)]
    return names


def middle_layer(survey: Surveyed) -> int:
    """Return the surveyed layer nearest to half of the blocks: 6 of BERT's 12."""
    known = list(survey.layer_names)
    if not known:
        raise InputError(f"{survey.model}: the survey has no layers.")
    model = survey.facts.get("model") or {}
    half = int(model.get("blocks") or max(known)) // 2
    return min(known, key=lambda layer: (abs(layer - half), layer))


def spread_layers(survey: Surveyed, count: int = 5) -> list[int]:
    """Return up to `count` surveyed layers, evenly from the first to the last."""
    known = list(survey.layer_names)
    if len(known) <= count:
        return known
    return [known[round(step * (len(known) - 1) / (count - 1))] for step in range(count)]


def check_layer(survey: Surveyed, layer: int) -> int:
    """Return the layer if the survey has it; refuse otherwise."""
    known = survey.layer_names
    if layer not in known:
        whole = list(known) == list(range(len(known)))
        told = (
            f"layers 0 to {len(known) - 1}" if whole and len(known) > 1 else f"layer {', '.join(map(str, known))}"
        )
        raise InputError(f"--layer {layer}: the survey of {survey.model} has {told}.")
    return layer
