"""theodolite trace: the paths of a few sentences through the layers, and where two sentences diverge."""

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
)
from theodolite.surveys.options import RunOptions, SurveyOptions
from theodolite.text import format_decimal

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings

LEGEND = (
    "Means over the tokens of the first sentence. norm: length of the vector. step: distance from the previous "
    "layer. radial: share of the squared step along the vector. cos, cos first: cosine with the previous and "
    "with the first layer. alike: mean cosine between the steps of different tokens."
)
PARTED = (
    "parted: first layer at which at least 5% of random pairs of different tokens are closer than these two "
    "tokens. far: that share at the last layer. × others: distance divided by the median distance of the other "
    "shared tokens."
)


@add_flags(SurveyOptions, RunOptions, only=MODEL_OPTIONS)
def trace(
    model: Model,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SENTENCE]...", help="One sentence, or several: the first is compared with the others."
        ),
    ] = None,
    out: OptionalResultsFolder = None,
    file: Annotated[Path | None, typer.Option(help="Text file with more sentences, one per line.")] = None,
    token: Annotated[
        list[str] | None,
        typer.Option(
            help="Token whose path is projected separately; may be repeated. Default: the token that diverges "
            "most."
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Text file of ordinary sentences, one per line, whose distances serve as the reference. Default: "
            "a built-in list."
        ),
    ] = None,
    layers: Layers = None,
    device: Device = None,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print the tables moves and partings as JSON.")] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Follow the tokens of a few sentences through the layers, and compare the first sentence with the others."""
    from theodolite.cli.console import Printer, silence_transformers
    from theodolite.cli.output import print_findings
    from theodolite.studies.trace.trace import trace as traced

    silence_transformers()
    found = traced(
        model,
        [*(sentences or []), *(_read_lines(file, "--file") if file else [])],
        out=out,
        tokens=token or (),
        reference=_read_lines(reference, "--reference") if reference else None,
        layers=layers,
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
        tables=["moves", "partings"],
        legend=f"{LEGEND} {PARTED}" if "partings" in found.tables else LEGEND,
        as_json=json,
        quiet=quiet,
    )


def _read_lines(path: Path, option: str) -> list[str]:
    from theodolite.errors import InputError

    if not path.is_file():
        raise InputError(f"{option} {path} does not exist.")
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise InputError(f"{option} {path} is not UTF-8; convert it to UTF-8.") from None


def _print(found: Findings) -> None:
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows

    moves = found.tables["moves"]
    print_rows([_move(row) for row in moves[moves["sentence"] == 0].to_dict("records")])
    if "partings" in found.tables:
        print_result("")
        print_rows([_parting(row) for row in found.tables["partings"].to_dict("records")])


def _move(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "layer": int(row["layer"]),
        "name": row["layer_name"],
        "norm": format_decimal(row["norm"]),
        "step": format_decimal(row["step"]),
        "radial": format_decimal(row["radial_share"]),
        "cos": format_decimal(row["cosine"]),
        "cos first": format_decimal(row["cosine_first"]),
        "alike": format_decimal(row["shared_direction"]),
    }


def _parting(row: dict[Any, Any]) -> dict[str, Any]:
    import pandas as pd

    pair = row["token"].strip() if row["same"] else f"{row['token'].strip()} / {row['token_other'].strip()}"
    return {
        "stack": row["stack"] or "–",
        "sentence": f"1 and {int(row['other']) + 1}",
        "position": int(row["position"]),
        "token": pair,
        "parted": "never" if pd.isna(row["parted_at"]) else str(row["parted_at"]),
        "distance": format_decimal(row["distance_last"]),
        "cos": format_decimal(row["cosine_last"]),
        "far": format_decimal(row["nearer_different_last"]),
        "× others": format_decimal(row["times_others_last"]),
    }
