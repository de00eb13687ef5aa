"""theodolite groups: distances within and between groups of sentences, compared with nonsense sentences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Device, Quiet, add_flags
from theodolite.cli.study_options import (
    MODEL_OPTIONS,
    Layers,
    Model,
    OptionalResultsFolder,
    Overwrite,
    PooledPopulation,
    Pooling,
)
from theodolite.surveys.options import RunOptions, SurveyOptions
from theodolite.text import describe_pooling, format_decimal

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings

LEGEND = (
    "within, between: mean distance between two sentences of the same group and of different groups. separation: "
    "their difference divided by the mean of all distances, with p from permuting the labels. silhouette: with "
    "distances; by cos: with 1 - cos. Bag of words: the same numbers from word counts, without a model."
)


@add_flags(SurveyOptions, RunOptions, only=MODEL_OPTIONS)
def groups(
    model: Model,
    file: Annotated[
        Path,
        typer.Argument(
            help="Groups of sentences: .json, .jsonl or .csv with group and sentence. {a|b} in a sentence gives "
            "one sentence per alternative."
        ),
    ],
    out: OptionalResultsFolder = None,
    pooling: Pooling = "mean",
    population: PooledPopulation = None,
    drop_special: Annotated[
        bool, typer.Option("--drop-special", help="Exclude special tokens from pooling.")
    ] = False,
    layers: Layers = None,
    controls: Annotated[
        int | None,
        typer.Option(help="Number of nonsense sentences of each kind; 0 for none. Default: the size of a group."),
    ] = None,
    permutations: Annotated[int, typer.Option(help="Permutations of the labels in each test.")] = 999,
    seed: Annotated[int, typer.Option(help="Seed for nonsense sentences and permutations.")] = 0,
    device: Device = None,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print the layer table as JSON.")] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Measure distances within and between groups of sentences, and compare them with nonsense sentences."""
    from theodolite.cli.console import Printer, silence_transformers
    from theodolite.cli.output import print_findings
    from theodolite.studies.groups.groups import groups as measured

    silence_transformers()
    found = measured(
        model,
        file,
        out=out,
        pooling=pooling,
        population=population,
        special=not drop_special,
        layers=layers,
        controls=controls,
        permutations=permutations,
        seed=seed,
        device=device,
        overwrite=overwrite,
        listener=Printer(quiet=quiet),
        **options,
    )
    print_findings(
        found,
        out,
        _print,
        facts=["settings", "warnings"],
        tables=["layers", "bag_of_words"],
        legend=LEGEND,
        as_json=json,
        quiet=quiet,
    )


def _print(found: Findings) -> None:
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows

    settings, layers, bag = found.facts["settings"], found.tables["layers"], found.tables["bag_of_words"]
    for population in layers["population"].unique():
        rows = [_row(row) for row in layers[layers["population"] == population].to_dict("records")]
        words = bag[bag["population"] == population].to_dict("records")
        rows += [_row(row | {"layer": "", "layer_name": "bag of words"}) for row in words]
        n, groups = int(words[0]["n"]), int(words[0]["groups"])
        print_result(f"{population} · {n} sentences in {groups} groups · {describe_pooling(settings)}")
        print_rows(rows)
        print_result("")


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "layer": str(row["layer"]),
        "name": row["layer_name"],
        "within": format_decimal(row["within_distance"]),
        "between": format_decimal(row["between_distance"]),
        "cos within": format_decimal(row["within_cosine"]),
        "cos between": format_decimal(row["between_cosine"]),
        "separation": format_decimal(row["separation"]),
        "p": format_decimal(row["p"]),
        "silhouette": format_decimal(row["silhouette"]),
        "by cos": format_decimal(row["silhouette_cosine"]),
        "": row["undefined"] if isinstance(row["undefined"], str) else "",
    }
