"""theodolite what-if: the measures after centring, standardising, removing directions and whitening."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import on_disk

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = ("csv", "md", "json", "parquet")
HEADS = {
    "layer": "layer",
    "layer_name": "name",
    "transform": "what if",
    "kept": "kept",
    "mean_cosine": "cos",
    "mean_cosine_se": "±",
    "anisotropy_svd": "svd",
    "effective_rank": "rank",
    "iso_score": "iso",
    "twonn": "TwoNN",
    "twonn_se": "±",
    "hubness_skew": "hubs",
    "hubness_skew_se": "±",
}
LEGEND = (
    "cos, TwoNN and hubs (skew of the 10-occurrence) after a transform are of the sample, ± one standard error; "
    "svd, rank and iso are exact; kept: directions above 1e-6 of the largest variance. "
    "`theodolite measures` defines each."
)


def what_if(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished survey.")],
    remove: Annotated[
        list[int] | None,
        typer.Option(metavar="K", help="Take away the first K directions; several times. Default: 1, 2 and 3."),
    ] = None,
    layers: Annotated[str | None, typer.Option(help="Layers such as 0,6,12 or 0-3 or -1. Default: all.")] = None,
    population: Annotated[str, typer.Option(help="all, without-first or without-massive.")] = "all",
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the whole table: .csv, .md, .json or .parquet.", callback=on_disk),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print every row and column as JSON.")] = False,
) -> None:
    """Measure again as if the vectors were centred, standardised, whitened or without their first directions."""
    from theodolite.cli.console import result
    from theodolite.cli.layer_table import layers_json
    from theodolite.studies.what_if import what_if as measured

    if out is not None:
        _check_ending(out)
    table = measured(folder, remove=remove or (1, 2, 3), layers=layers, population=population)
    if out is not None:
        _write(table, out)
    if json:
        result(encoder.dumps(layers_json(table)))
        return
    _print(table, population)
    result(LEGEND)
    if out is not None:
        result(f"table: {out}")


def _check_ending(out: Path) -> str:
    from theodolite.errors import InputError

    ending = out.suffix.lower().removeprefix(".")
    if ending not in ENDINGS:
        raise InputError(f"--out {out}: the ending is one of {', '.join(ENDINGS)}.")
    return ending


def _write(table: pd.DataFrame, out: Path) -> None:
    from theodolite.cli.layer_table import layers_json
    from theodolite.surveys.files import write_beside
    from theodolite.surveys.folder import write_table

    out.parent.mkdir(parents=True, exist_ok=True)
    ending = _check_ending(out)
    if ending == "parquet":
        write_table(out, table)
        return
    texts = {
        "csv": lambda: table.to_csv(index=False),
        "md": lambda: _markdown(table),
        "json": lambda: encoder.dumps(layers_json(table), indent=2) + "\n",
    }
    text = texts[ending]()
    write_beside(out, lambda path: _text(path, text))


def _text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "replace"))


def _markdown(table: pd.DataFrame) -> str:
    shown = [column for column in table.columns if column != "undefined"]
    lines = [f"| {' | '.join(shown)} |", f"|{' --- |' * len(shown)}"]
    lines += [f"| {' | '.join(_cells(record, shown))} |" for record in table.to_dict("records")]
    return "\n".join(lines) + "\n"


def _cells(record: dict[Any, Any], columns: list[str]) -> list[str]:
    from theodolite.cli.layer_table import number

    return [number(record[column]).replace("|", "\\|") for column in columns]


def _print(table: pd.DataFrame, population: str) -> None:
    from rich.console import Console
    from rich.table import Table

    printed = Table(box=None, pad_edge=False)
    for column, head in HEADS.items():
        printed.add_column(
            head, justify="left" if column in ("layer_name", "transform") else "right", no_wrap=True
        )
    for record in table.to_dict("records"):
        printed.add_row(*_cells(record, list(HEADS)))
    print(f"what if · population: {population}")
    Console(highlight=False, markup=False, width=1000).print(printed, crop=False)
