"""Print results: tables, JSON rows, and the end of verbs that make a survey or run a laboratory."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.table import Table

from theodolite.cli.console import PipedConsole, print_result
from theodolite.cli.layer_table import (
    describe_columns,
    layer_notes,
    layers_json,
    massive_hint,
    print_layers,
    without_massive_hint,
)
from theodolite.storage.atomic import write_atomically
from theodolite.storage.file_names import UNITS
from theodolite.studies.choice import default_population
from theodolite.studies.rare_units import describe_rare_units
from theodolite.surveys.survey import OTHER_UNITS, Survey
from theodolite.text import format_cell

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from theodolite.studies.laboratory import Findings


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows with the same keys to stdout, integers right-aligned. Long cells are wrapped."""
    table = Table(box=None, pad_edge=False)
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if isinstance(value, int) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    console = PipedConsole(highlight=False, markup=False)
    (console if console.is_terminal else PipedConsole(highlight=False, markup=False, width=160)).print(table)


def print_numbers(
    records: Sequence[dict[Any, Any]], headings: dict[str, str], left_aligned: Collection[str] = ()
) -> None:
    """Print the columns that `headings` names to stdout. A row is never wrapped or cut, in any terminal."""
    table = Table(box=None, pad_edge=False)
    for column, heading in headings.items():
        table.add_column(heading, justify="left" if column in left_aligned else "right", no_wrap=True)
    for record in records:
        table.add_row(*(format_cell(record[column]) for column in headings))
    PipedConsole(highlight=False, markup=False, width=1000).print(table, crop=False)


def to_json_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table for JSON, with None for undefined values.

    >>> import pandas as pd
    >>> to_json_rows(pd.DataFrame({"layer": [0, 1], "step": [float("nan"), 0.5]}))
    [{'layer': 0, 'step': None}, {'layer': 1, 'step': 0.5}]
    """
    import pandas as pd

    return [
        {str(name): None if pd.isna(value) else value for name, value in record.items()}
        for record in table.to_dict("records")
    ]


def print_findings(
    found: Findings,
    folder: Path | None,
    show: Callable[[Findings], None],
    *,
    facts: Sequence[str],
    tables: Sequence[str],
    legend: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the results of a laboratory by `show` and its folder, or the named facts and tables as JSON."""
    verb = found.facts["laboratory"]
    if as_json:
        rows = {name: to_json_rows(found.tables[name]) for name in tables if name in found.tables}
        where = None if folder is None else str(folder)
        print_result(json.dumps({verb: where} | {name: found.facts[name] for name in facts} | rows))
        return
    show(found)
    if not quiet:
        print_result(legend)
    if folder is not None:
        print_result(f"{verb}: {folder}")


def finish_survey(survey: Survey, *, as_json: bool, quiet: bool) -> None:
    """Write the report into the survey's folder and print the layers, as a table or as JSON."""
    from theodolite.report import write
    from theodolite.studies.reading import read_report_tables

    report = None
    others = {kind: survey.folder / UNITS / kind for kind in survey.facts.get(OTHER_UNITS, []) if survey.folder}
    for folder in (*others.values(), *([survey.folder] if survey.folder is not None else [])):
        report, tables = folder / "report.html", [read_report_tables(folder)]
        write_atomically(report, partial(write, tables))
    if as_json:
        summary: dict[str, Any] = {"survey": str(survey.folder) if survey.folder else None, "name": survey.name}
        summary |= {"counts": survey.facts["counts"], "layers": layers_json(survey.layers)}
        if len(survey.groups):
            summary["groups"] = to_json_rows(survey.groups)
        if others:
            summary[OTHER_UNITS] = {kind: str(folder) for kind, folder in others.items()}
        print_result(json.dumps(summary))
        return
    print_layers(survey.layers, default_population([survey.facts]), survey.name)
    if not quiet:
        print_result(describe_columns(survey.facts, survey.layers))
        _print_notes(survey)
    if len(survey.groups):
        from theodolite.cli.group_table import MOST, print_groups

        print_groups(survey.groups, survey.facts, default_population([survey.facts]), most=MOST)
    if report is not None:
        print_result(f"survey: {survey.folder}\nreport: {report}")
        for kind, folder in others.items():
            print_result(f"survey by {kind}: {folder}, with its own report.html")


def _print_notes(survey: Survey) -> None:
    """Print what may dominate the numbers of the table, and how to see them without it."""
    shown, populations = default_population([survey.facts]), survey.facts["populations"]
    if rare := describe_rare_units(survey.facts, survey.layers[survey.layers["population"] == shown]):
        print_result(rare)
    for line in layer_notes(survey.layers, shown):
        print_result(line)
    hint = massive_hint(survey.layers, shown, populations)
    if hint is None:
        return
    if survey.folder is not None:
        print_result(f"{hint} {without_massive_hint(survey.folder)}")
        return
    print_result(f"{hint} Without them:")  # there is no folder that `theodolite show` could read later
    print_layers(survey.layers, "without-massive", survey.name)
