"""theodolite weights: the word, position and segment tables of a model, over all pairs."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings


def weights(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Catalogue name, folder, .gguf file or name on the model hub.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for what is found.")],
    other: Annotated[
        str | None, typer.Option("--with", metavar="OTHER", help="Also compare with another model's vocabulary.")
    ] = None,
    above: Annotated[float, typer.Option(help="List token-position pairs whose |cosine| is above this.")] = 0.2,
    most: Annotated[int, typer.Option(help="Extreme pairs to list of each kind.")] = 10,
    keep_special: Annotated[
        bool, typer.Option("--keep-special", help="Let special tokens be in extreme pairs.")
    ] = False,
    keep_unused: Annotated[
        bool, typer.Option("--keep-unused", help="Let unused tokens be in extreme pairs.")
    ] = False,
    projections: Annotated[
        bool, typer.Option("--projections/--no-projections", help="Also PCA, t-SNE and UMAP, which take longer.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Of what is drawn at random.")] = 0,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the model hub.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the code that comes with the model.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace findings that lie in --out.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the statistics as JSON.")] = False,
) -> None:
    """Weigh a model's tables: norms, distances, dot products and cosines of all pairs, and the vocabulary."""
    from theodolite.cli.console import Printer, hush, result
    from theodolite.studies.weights.weigh import weights as weighed

    hush()
    printer = Printer(quiet=quiet)
    with printer.listening():
        found = weighed(
            model,
            out=out,
            with_other=other,
            above=above,
            most=most,
            keep_special=keep_special,
            keep_unused=keep_unused,
            projections=projections,
            seed=seed,
            revision=revision,
            trust_remote_code=trust_remote_code,
            overwrite=overwrite,
            listener=printer,
        )
    if json:
        result(encoder.dumps(as_json(found)))
        return
    _print(found, above)
    result(f"tables: {out}")


def as_json(found: Findings) -> dict[str, Any]:
    """Return what was found and the statistics; null where a number is undefined."""
    told = {name: found.tables[name].to_json(orient="records") for name in ("pairs", "close", "parts")}
    return {"found": found.facts["found"], **{name: encoder.loads(text) for name, text in told.items()}}


def _print(found: Findings, above: float) -> None:
    from theodolite.cli.console import result
    from theodolite.cli.plain_table import print_rows

    told = found.facts["found"]
    for note in told["notes"]:
        result(note)
    print_rows([_row(row) for row in found.tables["pairs"].to_dict("records")])
    extremes = found.tables["extremes"].query("left == 'words' and right == 'words' and metric == 'cosine'")
    first = extremes.groupby("which", sort=False).head(3)
    if len(first):
        result("")
        print_rows([_pair(row) for row in first.to_dict("records")])
    if told["beyond"] is not None:
        result(f"\ntoken-position pairs with |cosine| > {above:g}: {told['beyond']:,}")


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    of = {"table": row["left"], "with": row["right"] or "–", "metric": row["metric"], "n": int(row["n"])}
    return of | {name: f"{row[name]:.4g}" for name in ("mean", "sd", "smallest", "largest")}


def _pair(row: dict[Any, Any]) -> dict[str, Any]:
    names = [str(row[name]).encode("utf-8", "backslashreplace").decode() for name in ("left_name", "right_name")]
    return {"cosine": row["which"], "token": names[0], "and": names[1], "value": f"{row['value']:.4g}"}
