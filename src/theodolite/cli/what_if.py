"""theodolite what-if: the measures after centring, standardising, removing directions or whitening."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from theodolite.cli.options import on_disk
from theodolite.cli.study_options import DefaultPopulation, Layers, SurveyFolder
from theodolite.measures.columns import find_column

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = ("csv", "md", "json", "parquet")
HEADS = {
    "layer": find_column("layer").label,
    "layer_name": find_column("layer_name").label,
    "transform": "what if",
    "kept": "kept",
    "mean_cosine": find_column("mean_cosine").label,
    "mean_cosine_se": "±",
    "anisotropy_svd": find_column("anisotropy_svd").label,
    "effective_rank": find_column("effective_rank").label,
    "iso_score": "iso",
    "twonn": find_column("twonn").label,
    "twonn_se": "±",
    "hubness_skew": "hubs L2",
    "hubness_skew_se": "±",
    "hubness_skew_cosine": "hubs cos",
    "hubness_skew_cosine_se": "±",
}
LEGEND = (
    "cos, TwoNN and hubs (skewness of the 10-occurrence) after a transform are estimated from the sample, ± one "
    "standard error. If you search by cosine, read hubs cos: its vectors are scaled to length 1 again after the "
    "transform. hubs L2 is for Euclidean distance. svd, rank and iso are exact. kept: number of directions whose "
    "variance is above 1e-6 of the largest. `theodolite measures` defines each."
)


def what_if(
    folder: SurveyFolder,
    remove: Annotated[
        list[int] | None,
        typer.Option(
            metavar="K", help="Remove the K directions of largest variance; may be repeated. Default: 1, 2 and 3."
        ),
    ] = None,
    layers: Layers = None,
    population: DefaultPopulation = "auto",
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the complete table: .csv, .md, .json or .parquet.", callback=on_disk),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print every row and column as JSON.")] = False,
) -> None:
    """Compute the measures as if the vectors were centred, standardised, whitened or without top directions."""
    from theodolite.cli.console import print_result
    from theodolite.cli.layer_table import layers_json
    from theodolite.cli.output import print_numbers
    from theodolite.studies.what_if import what_if as measured

    if out is not None:
        _check_ending(out)
    table = measured(folder, remove=remove or (1, 2, 3), layers=layers, population=population)
    if out is not None:
        _write(table, out)
    if json:
        print_result(encoder.dumps(layers_json(table)))
        return
    print_result(f"what if · population: {table['population'].iloc[0]}")
    print_numbers(table.to_dict("records"), HEADS, left_aligned=("layer_name", "transform"))
    print_result(LEGEND)
    if out is not None:
        print_result(f"table: {out}")


def _check_ending(out: Path) -> str:
    from theodolite.errors import InputError

    ending = out.suffix.lower().removeprefix(".")
    if ending not in ENDINGS:
        raise InputError(f"--out {out} must end in one of {', '.join('.' + known for known in ENDINGS)}.")
    return ending


def _write(table: pd.DataFrame, out: Path) -> None:
    from theodolite.cli.layer_table import layers_json
    from theodolite.storage.atomic import write_atomically
    from theodolite.tables.table_files import format_csv, write_table

    out.parent.mkdir(parents=True, exist_ok=True)
    ending = _check_ending(out)
    if ending == "parquet":
        write_table(out, table)
        return
    texts = {
        "csv": lambda: format_csv(table),
        "md": lambda: _markdown(table),
        "json": lambda: encoder.dumps(layers_json(table), indent=2) + "\n",
    }
    text = texts[ending]()
    write_atomically(out, lambda path: _write_text(path, text))


def _write_text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "replace"))


def _markdown(table: pd.DataFrame) -> str:
    from theodolite.escaping import markdown_table
    from theodolite.text import format_cell

    shown = [column for column in table.columns if column != "undefined"]
    rows = [[format_cell(record[column]) for column in shown] for record in table.to_dict("records")]
    return markdown_table(shown, rows) + "\n"
