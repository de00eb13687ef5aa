"""What every verb that makes a survey does at its end: the report, the table, the way to the page."""

from __future__ import annotations

import json
from typing import Any

from theodolite.cli.console import result
from theodolite.cli.layer_table import LEGEND, layers_json, print_layers
from theodolite.cli.show_hints import massive_hint
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
        hint = massive_hint(survey.layers, survey.facts["populations"][0], survey.facts["populations"])
        if hint is not None:
            result(hint)
    if report is not None:
        result(f"survey: {survey.folder}\nreport: {report}")
