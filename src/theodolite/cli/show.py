"""theodolite show: the layer table of a survey."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.study_options import DefaultPopulation

MOST = 4  # folders named in an error


def show(
    survey: Annotated[Path, typer.Argument(help="Folder of a finished survey.")],
    population: DefaultPopulation = "auto",
    columns: Annotated[
        str | None, typer.Option(help="Comma-separated columns of layers.parquet, or headings of the table.")
    ] = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="Show the groups of a survey made with --by, at one layer.")
    ] = False,
    layer: Annotated[int | None, typer.Option(help="With --groups: the layer. Default: the last.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print every row and column as JSON.")] = False,
) -> None:
    """Show the layers of a survey in the terminal."""
    import json as encoder

    from theodolite.cli.console import Printer, print_result
    from theodolite.cli.group_table import print_groups
    from theodolite.cli.layer_table import (
        describe_columns,
        layers_json,
        massive_hint,
        parse_columns,
        print_layers,
        without_massive_hint,
    )
    from theodolite.cli.output import to_json_rows
    from theodolite.errors import InputError
    from theodolite.storage.location import parse_location
    from theodolite.storage.lock import find_writer
    from theodolite.studies.choice import AUTO, default_population
    from theodolite.studies.rare_units import describe_rare_units
    from theodolite.surveys.folder import open_tables
    from theodolite.text import survey_name

    _check_is_survey(survey)
    if layer is not None and not groups:
        raise InputError(f"--layer {layer} requires --groups: all layers are shown otherwise.")
    if columns is not None and groups:
        raise InputError("--columns applies to the layers, and --groups shows the groups. Omit one of them.")
    facts, tables = open_tables(survey, ["layers", *(["groups"] if groups else [])])
    if (writer := find_writer(parse_location(survey))) is not None:
        Printer().warn(f"{writer} is replacing this survey; the old one is shown")
    layers = tables["layers"]
    if json and groups:
        print_result(encoder.dumps(to_json_rows(tables["groups"])))
        return
    if json:
        print_result(encoder.dumps(layers_json(layers)))
        return
    population = default_population([facts]) if population == AUTO else population
    if population not in facts["populations"]:
        known = ", ".join(facts["populations"])
        raise InputError(f"--population {population!r} is not in this survey, which has {known}.")
    if groups:
        print_groups(tables["groups"], facts, population, layer=layer)
        return
    chosen = parse_columns(columns, list(layers.columns)) if columns is not None else None
    print_layers(layers, population, survey_name(facts), chosen)
    if chosen is None:
        print_result(describe_columns(facts, layers))
    if rare := describe_rare_units(facts, layers[layers["population"] == population]):
        print_result(rare)
    hint = massive_hint(layers, population, facts["populations"])
    if hint is not None:
        print_result(f"{hint} {without_massive_hint(survey)}")


def _check_is_survey(folder: Path) -> None:
    """Reject a folder that holds a laboratory, a series or several surveys, and say which."""
    from shlex import quote

    from theodolite.errors import InputError
    from theodolite.storage.file_names import FACTS, REPLACEMENT, UNFINISHED
    from theodolite.studies.laboratory import is_laboratory
    from theodolite.studies.series import is_series

    if not folder.is_dir() or any((folder / name).exists() for name in (FACTS, UNFINISHED, REPLACEMENT)):
        return
    inside = sorted(each.parent for each in [*folder.glob(f"*/{FACTS}"), *folder.glob(f"*/*/{FACTS}")])
    if is_laboratory(folder):
        raise InputError(
            f"{folder} holds the results of a laboratory, not a survey; `theodolite exhibits` lists the figures "
            "that can be drawn from it."
        )
    if is_series(folder):
        steps = f"; to show one step: {_list_folders(inside)}" if inside else ""
        raise InputError(
            f"{folder} is a series, not a survey; `theodolite report {quote(str(folder))}` reports all of "
            f"it{steps}."
        )
    if inside:
        raise InputError(f"{folder} holds {len(inside)} surveys; show one of them: {_list_folders(inside)}.")


def _list_folders(folders: Sequence[Path]) -> str:
    more = f" and {len(folders) - MOST} more" if len(folders) > MOST else ""
    return ", ".join(map(str, folders[:MOST])) + more
