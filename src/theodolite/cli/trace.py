"""theodolite trace: the paths of single sentences through the layers, and where two sentences part."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Dtype, Quiet, Revision, TrustRemoteCode
from theodolite.cli.short import short

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings

LEGEND = (
    "means over the first sentence's text: norm, step from the layer before, its radial part (squared), cosine "
    "with the layer before and with the first, and how alike its tokens move (cosine between their steps)."
)
PARTED = (
    "parted: first layer at which at least 5% of random pairs of different tokens are nearer than the two; far: "
    "that share at the last layer; × others: distance over the median of the other shared tokens."
)


def trace(
    model: Annotated[str, typer.Argument(help="Catalogue name, folder, .gguf file or hub name of a text model.")],
    sentences: Annotated[
        list[str] | None, typer.Argument(metavar="[SENTENCE]...", help="One sentence, or two to compare.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the tables, which exhibits read.")] = None,
    file: Annotated[Path | None, typer.Option(help="Text file with more sentences, one a line.")] = None,
    token: Annotated[
        list[str] | None,
        typer.Option(
            help="Token whose path is also projected by itself; several times. Default: what parts most."
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="Text file of ordinary sentences, one a line, that say what is far. Default: built in."),
    ] = None,
    layers: Annotated[str | None, typer.Option(help="Layers such as 0,6,12 or 0-3 or -1. Default: all.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = "cpu",
    dtype: Dtype = "float32",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in the folder.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the tables of moves and partings as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Follow the tokens of a few sentences through the layers; compare the first with each other one."""
    from theodolite.cli.console import Printer, hush, result
    from theodolite.cli.plain_json import plain_rows
    from theodolite.studies.trace.trace import trace as traced

    hush()
    found = traced(
        model,
        [*(sentences or []), *(_lines(file, "--file") if file else [])],
        out=out,
        tokens=token or (),
        reference=_lines(reference, "--reference") if reference else None,
        layers=layers,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        overwrite=overwrite,
        listener=Printer(quiet=quiet),
    )
    if json:
        shown = {name: plain_rows(found.tables[name]) for name in ("moves", "partings") if name in found.tables}
        result(encoder.dumps({"settings": found.facts["settings"]} | shown))
        return
    _print(found)
    if out is not None:
        result(f"trace: {out}")


def _lines(path: Path, option: str) -> list[str]:
    from theodolite.errors import InputError

    if not path.is_file():
        raise InputError(f"{option} {path}: there is no such file.")
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise InputError(f"{option} {path} is not UTF-8.") from None


def _print(found: Findings) -> None:
    from theodolite.cli.console import result
    from theodolite.cli.plain_table import print_rows

    moves = found.tables["moves"]
    print_rows([_move(row) for row in moves[moves["sentence"] == 0].to_dict("records")])
    result(LEGEND)
    if "partings" in found.tables:
        result("")
        print_rows([_parting(row) for row in found.tables["partings"].to_dict("records")])
        result(PARTED)


def _move(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "layer": int(row["layer"]),
        "name": row["layer_name"],
        "norm": short(row["norm"]),
        "step": short(row["step"]),
        "radial": short(row["radial_share"]),
        "cos": short(row["cosine"]),
        "cos first": short(row["cosine_first"]),
        "alike": short(row["shared_direction"]),
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
        "distance": short(row["distance_last"]),
        "cos": short(row["cosine_last"]),
        "far": short(row["nearer_different_last"]),
        "× others": short(row["times_others_last"]),
    }
