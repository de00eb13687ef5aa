"""What is checked: a survey, the results of a store, or one step of a series, with its tables read when needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import InputError, nearest
from theodolite.storage.bucket import Bucket
from theodolite.storage.download import download
from theodolite.stores.results import FACTS as STORE_FACTS
from theodolite.stores.results import SCHEMA as STORE_SCHEMA
from theodolite.stores.results import StoreResults, open_results
from theodolite.studies.choice import default_population
from theodolite.studies.laboratory import is_laboratory
from theodolite.studies.series import Series, is_series
from theodolite.surveys.folder import TABLES as SURVEY_TABLES
from theodolite.surveys.folder import open_tables
from theodolite.surveys.survey import Survey
from theodolite.text import list_layers, short_path, survey_name

SURVEY, STORE, STEP = "survey", "store", "series"
KINDS = {SURVEY: "a survey", STORE: "the results of a store", STEP: "a series of checkpoints"}
COUNTS = "counts"
"""A table of one row that every subject has: how much was read."""
VECTORS = "vectors"
"""Of a store: its sampled vectors, whose aspects (mean, covariance, ...) can be tested."""
Source = Survey | Series | StoreResults | str | Path


@dataclass(eq=False)
class Subject:
    """One side of a check.

    name    how messages name it: the folder as given, or the model and corpus
    title   the model and corpus, or the store
    step    of a series; None otherwise
    read    reads a table by name
    """

    kind: str
    name: str
    title: str
    facts: dict[str, Any]
    tables: tuple[str, ...]
    read: Callable[[str], pd.DataFrame]
    step: int | None = None
    source: Any = None
    """What it was read from: a Survey, its folder, or StoreResults."""
    _read: dict[str, pd.DataFrame] = field(default_factory=dict)

    def table(self, name: str) -> pd.DataFrame:
        """Return a table, which is read once."""
        if name not in self._read:
            self._read[name] = self._counts() if name == COUNTS else self.read(name)
        return self._read[name]

    @property
    def population(self) -> str:
        """The population that rules are about if they name none."""
        return default_population([self.facts])

    @property
    def layer_numbers(self) -> list[int]:
        """The layers, first to last; none for a store."""
        return [] if self.kind == STORE else [int(layer["index"]) for layer in self.facts["layers"]]

    @property
    def label(self) -> str:
        """The title, with the step of a series."""
        return self.title if self.step is None else f"{self.title}, step {self.step:,}"

    def _counts(self) -> pd.DataFrame:
        if self.kind == STORE:
            counts = {name: self.facts["store"].get(name) for name in ("rows", "dim")}
        else:
            corpus = self.facts.get("corpus") or {}
            counts = {name: corpus.get(name) for name in ("documents", "characters")}
            counts |= dict(self.facts.get("counts") or {})
        return pd.DataFrame([{name: value for name, value in counts.items() if value is not None}])


def open_subject(given: Source, *, step: int | None = None, option: str = "DIR") -> Subject:
    """Open what is checked, or its baseline: a folder, or an object in memory. `option` is named in messages."""
    if isinstance(given, StoreResults):
        found = _open_store(given, given.name)
    elif isinstance(given, Series):
        return _open_step(given, given.model["name"], None, step, option)
    elif isinstance(given, Survey):
        found = _open_survey(given)
    else:
        folder = download(given)
        if is_series(folder):
            return _open_step(Series.read(folder), str(given), folder, step, option)
        if is_laboratory(folder):
            raise InputError(
                f"{option} {given} holds a laboratory; a check compares surveys, stores or checkpoints."
            )
        if (folder / STORE_FACTS).is_file():
            found = _open_store(open_results(folder), str(given))
        else:
            found = _open_survey_folder(given)
    if step is not None:
        flag = "--step" if option == "DIR" else "--baseline-step"
        raise InputError(f"{flag} {step}: {found.name} is {KINDS[found.kind]}, not a series of checkpoints.")
    return found


def check_comparable(subject: Subject, baseline: Subject) -> None:
    """Reject a baseline of another kind, model or set of layers."""
    mine, theirs = subject.name, baseline.name
    if subject.kind != baseline.kind:
        raise InputError(
            f"--baseline {theirs} is {KINDS[baseline.kind]}, and {mine} is {KINDS[subject.kind]}. Give a baseline "
            "of the same kind."
        )
    if subject.kind == STORE:
        dims = [one.facts["store"]["dim"] for one in (subject, baseline)]
        if dims[0] != dims[1]:
            raise InputError(
                f"--baseline {theirs} has vectors of {dims[1]:,} coordinates, {mine} of {dims[0]:,}: they come "
                "from different models. Give a baseline of the same model."
            )
        return
    layers = [_layers(one) for one in (subject, baseline)]
    if layers[0] != layers[1]:
        described = [f"{_model(one)}, {list_layers(one.layer_numbers)}" for one in (subject, baseline)]
        raise InputError(
            f"--baseline {theirs} has other layers than {mine}: {described[1]} there; {described[0]} here. Give a "
            "baseline of the same model, surveyed with the same --layers."
        )
    architectures = [(one.facts.get("model") or {}).get("architecture") for one in (subject, baseline)]
    if architectures[0] != architectures[1]:
        raise InputError(
            f"--baseline {theirs} is of another model than {mine}: {_model(baseline)} there, {_model(subject)} "
            "here. Give a baseline of a version of the same model."
        )
    units = [one.facts.get("units") for one in (subject, baseline)]
    if units[0] != units[1]:
        raise InputError(
            f"--baseline {theirs} has --units {units[1]}, and {mine} has --units {units[0]}. Give surveys of the "
            "same units."
        )


def list_changes(subject: Subject, baseline: Subject) -> list[str]:
    """Return what differs between the two besides their numbers, as sentences."""
    notes: list[str] = []
    if subject.kind == STORE:
        return notes
    for what in ("model", "tokenizer", "corpus", "settings"):
        pair = [(one.facts.get("identity") or {}).get(what) for one in (subject, baseline)]
        if what == "model":
            pair = [(one.facts.get("model") or {}).get("sha256") for one in (subject, baseline)]
        mine, theirs = pair
        if mine is None or theirs is None or mine == theirs:
            continue
        changed = {"model": "weights", "corpus": "documents"}.get(what, what)
        if what == "settings":
            keys = [key for key in mine if key != "min_count" and mine[key] != theirs.get(key)]
            changed = f"settings {', '.join(keys)}"
            if not keys:
                continue
        notes.append(f"The {changed} {'differs' if what == 'tokenizer' else 'differ'} from the baseline.")
    return notes


def _layers(subject: Subject) -> list[tuple[int, str, Any]]:
    dims = {}
    if subject.kind == STEP:  # a series has the dimensions in its table only
        rows = subject.table("layers")
        dims = dict(zip(rows["layer"], rows["dim"], strict=True)) if "dim" in rows else {}
    found = []
    for layer in subject.facts["layers"]:
        dim = layer.get("dim", dims.get(layer["index"]))
        found.append((int(layer["index"]), str(layer["name"]), None if pd.isna(dim) else int(dim)))
    return found


def _model(subject: Subject) -> str:
    model = subject.facts.get("model") or {}
    name = short_path(str(model.get("name", "vectors")), 2)
    return f"{name} ({model['architecture']})" if model.get("architecture") else name


def _open_survey(survey: Survey) -> Subject:
    def read(name: str) -> pd.DataFrame:
        return pd.DataFrame(getattr(survey.tables, name))

    name = str(survey.folder) if survey.folder is not None else survey.name
    return Subject(SURVEY, name, survey.name, survey.facts, (COUNTS, *SURVEY_TABLES), read, source=survey)


def _open_survey_folder(folder: str | Path | Bucket) -> Subject:
    facts, _ = open_tables(folder, [])

    def read(name: str) -> pd.DataFrame:
        return open_tables(folder, [name])[1][name]

    present = [name for name in SURVEY_TABLES if f"{name}.parquet" in facts["files"]]
    return Subject(SURVEY, str(folder), survey_name(facts), facts, (COUNTS, *present), read, source=folder)


def _open_store(results: StoreResults, name: str) -> Subject:
    if results.facts.get("schema") != STORE_SCHEMA:
        raise InputError(
            f"{name} has schema {results.facts.get('schema')}; this version reads schema {STORE_SCHEMA}."
        )
    tables = {"answers": results.answers, **results.tables}
    return Subject(
        STORE, name, short_path(results.name), results.facts, (COUNTS, *tables, VECTORS), tables.__getitem__,
        source=results,
    )  # fmt: skip


def _open_step(series: Series, name: str, folder: Path | None, step: int | None, option: str) -> Subject:
    """Open one step, by default the last; if the series kept its survey, document groups come from there."""
    known = [each.step for each in series.steps]
    if not known:
        raise InputError(f"{option} {name}: the series has no steps yet.")
    chosen = known[-1] if step is None else step
    if chosen not in known:
        flag = "--step" if option == "DIR" else "--baseline-step"
        listed = ", ".join(map(str, known if len(known) < 12 else [*known[:5], "...", *known[-5:]]))
        raise InputError(f"{flag} {chosen}: the series in {name} has the steps {listed}.")
    found = next(each for each in series.steps if each.step == chosen)
    kept = None if folder is None or found.survey is None else folder / found.survey
    rows = series.table[series.table["step"] == chosen].drop(columns="step").reset_index(drop=True)
    title = f"{short_path(str(series.model['name']), 2)} on {short_path(str(series.corpus['name']))}"
    facts = series.as_survey_data().facts | {"corpus": series.corpus}
    facts["model"] = series.model | {"sha256": found.sha256}
    source: Any = None
    survey: Subject | None = None
    if kept is not None and (kept / "survey.json").is_file():
        survey = _open_survey_folder(kept)
        source, facts = kept, survey.facts

    def read(table: str) -> pd.DataFrame:
        return rows if survey is None else survey.table(table)

    tables = (COUNTS, "layers") if survey is None else survey.tables
    return Subject(STEP, name, title, facts, tables, read, chosen, source)


def find_table(subject: Subject, name: str) -> pd.DataFrame:
    """Return a table; raise InputError if there is none of this name."""
    if name not in subject.tables or name == VECTORS:
        known = [each for each in subject.tables if each != VECTORS]
        raise InputError(f"{subject.name} has no table {name!r}.{nearest(name, known) or f' It has {known}.'}")
    return subject.table(name)
