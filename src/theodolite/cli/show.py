"""theodolite show: the layer table of a survey."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(
    survey: Annotated[Path, typer.Argument(help="Folder of a survey.")],
    population: Annotated[str, typer.Option(help="all, without-first or without-massive.")] = "all",
    columns: Annotated[
        str | None, typer.Option(help="Columns of layers.parquet to show, separated by commas.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print every row and column as JSON.")] = False,
) -> None:
    """Show the layers of a survey in the terminal."""
    import json as encoder

    from theodolite.cli.console import result
    from theodolite.cli.layer_table import LEGEND, layers_json, print_layers
    from theodolite.cli.show_hints import check_one_survey, massive_hint
    from theodolite.errors import InputError, nearest
    from theodolite.naming import survey_name
    from theodolite.surveys.folder import open_tables

    check_one_survey(survey)
    facts, tables = open_tables(survey, ["layers"])
    layers = tables["layers"]
    if json:
        result(encoder.dumps(layers_json(layers)))
        return
    if population not in facts["populations"]:
        raise InputError(f"--population {population!r}: this survey has {', '.join(facts['populations'])}.")
    chosen = None
    if columns is not None:
        chosen = [column.strip() for column in columns.split(",") if column.strip()]
        for column in chosen:
            if column not in layers.columns:
                count = f" There are {len(layers.columns)}; docs/survey-folder.md and --json have them."
                near = nearest(column.lower(), list(layers.columns)) or count
                raise InputError(f"--columns: there is no column {column!r}.{near}")
    print_layers(layers, population, survey_name(facts), chosen)
    if chosen is None:
        result(LEGEND)
    hint = massive_hint(layers, population, facts["populations"])
    if hint is not None:
        result(hint)
