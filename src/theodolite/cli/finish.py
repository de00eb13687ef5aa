"""What every verb that makes a survey does at its end: the report, the table, the way to the page."""

from __future__ import annotations

import json
from typing import Any

from theodolite.cli.console import result
from theodolite.cli.layer_table import LEGEND, layers_json, print_layers
from theodolite.cli.show_hints import massive_hint, notes, without_massive
from theodolite.surveys.files import write_beside
from theodolite.surveys.survey import Survey


def finish(survey: Survey, *, as_json: bool, quiet: bool) -> None:
    """Write the report beside the tables and print the layers, as a table or as JSON."""
    from theodolite.report import write
    from theodolite.studies.survey_tables import survey_tables

    report = None
    if survey.folder is not None:
        report, tables = survey.folder / "report.html", [survey_tables(survey.folder)]
        write_beside(report, lambda file: write(tables, file))
    if as_json:
        found: dict[str, Any] = {"survey": str(survey.folder) if survey.folder else None, "name": survey.name}
        result(json.dumps(found | {"counts": survey.facts["counts"], "layers": layers_json(survey.layers)}))
        return
    print_layers(survey.layers, survey.facts["populations"][0], survey.name)
    if not quiet:
        result(LEGEND)
        _beside(survey)
    if report is not None:
        result(f"survey: {survey.folder}\nreport: {report}")


def _beside(survey: Survey) -> None:
    """Print what can make the numbers of the table, and where they are without it."""
    known = survey.facts["populations"]
    for line in notes(survey.layers, known[0]):
        result(line)
    hint = massive_hint(survey.layers, known[0], known)
    if hint is None:
        return
    if survey.folder is not None:
        result(f"{hint} {without_massive(survey.folder)}")
        return
    result(f"{hint} Without them:")  # nothing is left that could be shown later
    print_layers(survey.layers, "without-massive", survey.name)
