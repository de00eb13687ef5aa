"""theodolite show: the layer table of a survey."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(
    survey: Annotated[Path, typer.Argument(help="Folder of a survey.")],
    population: Annotated[str, typer.Option(help="all, without-first or without-massive.")] = "all",
    columns: Annotated[
        str | None, typer.Option(help="Columns of layers.parquet, or headings of the table, separated by commas.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print every row and column as JSON.")] = False,
) -> None:
    """Show the layers of a survey in the terminal."""
    import json as encoder

    from theodolite.cli.console import result
    from theodolite.cli.layer_table import LEGEND, columns_named, layers_json, print_layers
    from theodolite.cli.show_hints import check_one_survey, massive_hint, without_massive
    from theodolite.errors import InputError
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
    chosen = columns_named(columns, list(layers.columns)) if columns is not None else None
    print_layers(layers, population, survey_name(facts), chosen)
    if chosen is None:
        result(LEGEND)
    hint = massive_hint(layers, population, facts["populations"])
    if hint is not None:
        result(f"{hint} {without_massive(survey)}")
