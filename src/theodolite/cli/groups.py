"""theodolite groups: whether sentences that say the same lie together, and how far from nonsense."""

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
    "within, between: mean distance of two sentences of one group, of two groups; separation: their difference "
    "over the mean of all, p by permuting labels; silhouette with distances and with 1 - cos. "
    "Bag of words: what the words alone tell apart, without a model."
)


def groups(
    model: Annotated[str, typer.Argument(help="Catalogue name, folder, .gguf file or hub name of a text model.")],
    file: Annotated[
        Path, typer.Argument(help="Groups: .json, .jsonl or .csv of group and sentence; {a|b} are templates.")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder for the tables, which exhibits read.")] = None,
    pooling: Annotated[
        str | None,
        typer.Option(help="first, mean, last or max. Default: first, or last where the model is causal."),
    ] = None,
    drop_special: Annotated[
        bool, typer.Option("--drop-special", help="Leave special tokens out of what is pooled.")
    ] = False,
    layers: Annotated[str | None, typer.Option(help="Layers such as 0,6,12 or 0-3 or -1. Default: all.")] = None,
    controls: Annotated[
        int | None,
        typer.Option(help="Sentences of each kind of nonsense; 0 for none. Default: as many as a group has."),
    ] = None,
    permutations: Annotated[int, typer.Option(help="Permutations of the labels in each test.")] = 999,
    seed: Annotated[int, typer.Option(help="Seed of nonsense and permutations.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = "cpu",
    dtype: Dtype = "float32",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in the folder.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the layer table as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Measure within- and between-group structure of sentence groups, beside two kinds of nonsense."""
    from theodolite.cli.console import Printer, hush, result
    from theodolite.cli.plain_json import plain_rows
    from theodolite.studies.groups.groups import groups as measured

    hush()
    found = measured(
        model,
        file,
        out=out,
        pooling=pooling,
        special=not drop_special,
        layers=layers,
        controls=controls,
        permutations=permutations,
        seed=seed,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        overwrite=overwrite,
        listener=Printer(quiet=quiet),
    )
    if json:
        shown = {name: plain_rows(found.tables[name]) for name in ("layers", "bag_of_words")}
        result(encoder.dumps({"settings": found.facts["settings"]} | shown))
        return
    _print(found)
    if out is not None:
        result(f"groups: {out}")


def _print(found: Findings) -> None:
    from theodolite.cli.console import result
    from theodolite.cli.plain_table import print_rows

    settings, layers, bag = found.facts["settings"], found.tables["layers"], found.tables["bag_of_words"]
    for population in layers["population"].unique():
        rows = [_row(row) for row in layers[layers["population"] == population].to_dict("records")]
        alone = bag[bag["population"] == population].to_dict("records")
        rows += [_row(row | {"layer": "", "layer_name": "bag of words"}) for row in alone]
        n, groups = int(alone[0]["n"]), int(alone[0]["groups"])
        result(f"{population} · {n} sentences in {groups} groups · pooling: {settings['pooling']}")
        print_rows(rows)
        result("")
    result(LEGEND)


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "layer": str(row["layer"]),
        "name": row["layer_name"],
        "within": short(row["within_distance"]),
        "between": short(row["between_distance"]),
        "cos within": short(row["within_cosine"]),
        "cos between": short(row["between_cosine"]),
        "separation": short(row["separation"]),
        "p": short(row["p"]),
        "silhouette": short(row["silhouette"]),
        "by cos": short(row["silhouette_cosine"]),
        "": row["undefined"] if isinstance(row["undefined"], str) else "",
    }
