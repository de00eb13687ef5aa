"""The numbers to export: one per layer and column of a survey, per step of a series, or per rule of a check."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import pandas as pd

from theodolite.errors import InputError, nearest
from theodolite.measures.columns import find_column
from theodolite.models.layers import select_layers
from theodolite.studies.choice import AUTO, check_population, default_population
from theodolite.studies.number_export.metric_names import clean_name, last_block, layer_key, metric_name
from theodolite.studies.reading import read_survey_data
from theodolite.studies.series.series import SERIES
from theodolite.studies.survey_data import SurveyData
from theodolite.tables.unit_sets import NEEDED

KEYS = ("layer", "library_index", "step", "dim")


@dataclass(frozen=True)
class Number:
    """A number to export.

    name    its column, or what a check states
    layer   None if it is about no layer
    step    of training; 0 for a survey
    labels  what else identifies it, such as the rule of a check
    """

    name: str
    value: float
    layer: int | None = None
    layer_name: str = ""
    step: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Numbers:
    """The numbers of one survey, series or check, with facts about it and the number of blocks of its model."""

    numbers: list[Number]
    facts: dict[str, str]
    blocks: int = 0

    @property
    def width(self) -> int:
        """Digits of the layers, so that names sort as numbers do."""
        return max(2, *(len(str(one.layer)) for one in self.numbers if one.layer is not None), 2)

    def key(self, number: Number) -> str:
        """Return the name of a number in a tracker: geometry/block_06/mean_cosine, as a probe logs it.

        One of a check is named after the rule: check_difference/01_mean_cosine/block_06.
        """
        if number.layer is not None and not number.labels:
            return metric_name(number.layer_name, number.name, self.blocks)
        parts = [clean_name(label) for label in number.labels.values()]
        layer = [] if number.layer is None else [layer_key(number.layer_name, self.blocks)]
        return "/".join([number.name, *parts, *layer])


def read_numbers(
    source: str | Path | SurveyData, *, layers: str | int | None, population: str, measures: Sequence[str]
) -> Numbers:
    """Read the numbers of the folder of a survey or series, or of the JSON file of a check."""
    if not isinstance(source, SurveyData) and Path(source).is_file():
        return _read_check(Path(source))
    survey = source if isinstance(source, SurveyData) else read_survey_data(source, ("layers",))
    if survey.facts.get("laboratory"):
        raise InputError(
            f"{source} holds a laboratory; export takes surveys, series and the JSON files of checks."
        )
    table = survey.tables[SERIES] if SERIES in survey.tables else survey.tables["layers"]
    chosen = default_population([survey.facts]) if population == AUTO else population
    check_population(survey, chosen)
    rows = table[table["population"] == chosen]
    rows = rows[rows["layer"].isin(select_layers(list(survey.layer_names), layers, "--layer"))]
    columns = _choose_columns(rows, measures)
    model = survey.facts.get("model") or {}
    facts = {
        "model": survey.model,
        "corpus": survey.corpus,
        "population": chosen,
        "units": str(survey.facts.get("units", "")),
        "weights": str(model.get("sha256") or ""),
    }
    blocks = int(model.get("blocks") or last_block(survey.layer_names.values()))
    known = {name: one for name, one in facts.items() if one}
    return Numbers(list(_layer_numbers(rows, columns)), known, blocks)


def _choose_columns(rows: pd.DataFrame, measures: Sequence[str]) -> list[str]:
    """Return the given columns; by default all numbers but errors and those over sets of units."""
    numeric = [str(name) for name in rows.select_dtypes(["number", "bool"]).columns if name not in KEYS]
    for name in measures:
        if name not in numeric:
            raise InputError(
                f"--measure: there is no number {name!r} in the table of layers.{nearest(name, numeric)}"
            )
    return list(measures) or [
        name for name in numeric if not name.endswith(("_se", "_sd")) and not name.startswith(tuple(NEEDED))
    ]


def _layer_numbers(rows: pd.DataFrame, columns: Sequence[str]) -> Iterator[Number]:
    """Yield the finite numbers, sorted by column, step and layer; a null has no number."""
    for column in sorted(columns):
        for row in rows[[name for name in ("step", "layer", "layer_name", column) if name in rows]].to_dict(
            "records"
        ):
            value = row[column]
            if not pd.isna(value) and isfinite(float(value)):
                step = int(row.get("step", 0))
                yield Number(column, float(value), int(row["layer"]), str(row["layer_name"]), step)


def _read_check(path: Path) -> Numbers:
    """Read the JSON file that `theodolite check --json` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        checked, rules = content["check"], content["rules"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is not the JSON file of a check: `theodolite check ... --json FILE` writes one."
        ) from None
    numbers = [
        Number("check_passed", float(content["passed"])),
        Number("check_broken_rules", float(sum(bool(rule["broken"]) for rule in rules))),
    ]
    for place, rule in enumerate(rules, 1):
        labels = {"rule": f"{place:02d} {rule['rule']}"}
        numbers.append(Number("check_rule_broken", float(rule["broken"]), labels=labels))
        for cell in rule["cells"]:
            more = labels | ({"row": cell["key"]} if cell["key"] else {})
            for name in ("difference", "p_adjusted"):
                if cell[name] is not None:
                    numbers.append(
                        Number(f"check_{name}", float(cell[name]), cell["layer"], cell["layer_name"], labels=more)
                    )
    facts = {
        "checked": str(checked["subject"]),
        "baseline": str(checked["baseline"]),
        "kind": str(checked["kind"]),
    }
    return Numbers(numbers, facts, last_block(number.layer_name for number in numbers))


def describe(name: str) -> str:
    """Return the meaning of a number in one line."""
    known = {
        "check_passed": "1 if every rule of the check holds, else 0",
        "check_broken_rules": "Number of broken rules",
        "check_rule_broken": "1 if the rule is broken, else 0",
        "check_difference": "Number minus that of the baseline",
        "check_p_adjusted": "p-value of the difference, corrected for the number of tests (Holm)",
    }
    return known.get(name) or find_column(name).meaning or name
