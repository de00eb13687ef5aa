"""theodolite weights: statistics of a model's word, position and segment tables over all pairs of rows."""

from __future__ import annotations

import json as encoder
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Quiet, Revision, TrustRemoteCode
from theodolite.cli.study_options import Model, Overwrite, ResultsFolder

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings


def weights(
    model: Model,
    out: ResultsFolder,
    other: Annotated[
        str | None,
        typer.Option("--with", metavar="OTHER", help="Also compare with the vocabulary of another model."),
    ] = None,
    above: Annotated[
        float, typer.Option(help="List tokens and positions whose embeddings have a |cosine| above this.")
    ] = 0.2,
    most: Annotated[int, typer.Option(help="Number of extreme pairs listed for each metric.")] = 10,
    keep_special: Annotated[
        bool, typer.Option("--keep-special", help="Allow special tokens in extreme pairs.")
    ] = False,
    keep_unused: Annotated[
        bool, typer.Option("--keep-unused", help="Allow unused tokens in extreme pairs.")
    ] = False,
    projections: Annotated[
        bool,
        typer.Option(
            "--projections/--no-projections", help="Also compute PCA, t-SNE and UMAP, which take longer."
        ),
    ] = True,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Measure the pairs of 4,096 random rows of a table instead of all its pairs."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed for sampling and projections.")] = 0,
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json: Annotated[bool, typer.Option("--json", help="Print the statistics as JSON.")] = False,
) -> None:
    """Measure a model's embedding tables: norms, distances, dot products and cosines of all pairs of rows."""
    from theodolite.cli.console import Printer, print_result, silence_transformers
    from theodolite.studies.weights.weights import weights as weighed

    silence_transformers()
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
            quick=quick,
            seed=seed,
            revision=revision,
            trust_remote_code=trust_remote_code,
            overwrite=overwrite,
            listener=printer,
        )
    if json:
        print_result(encoder.dumps(as_json(found)))
        return
    _print(found, above)
    print_result(f"tables: {out}")


def as_json(found: Findings) -> dict[str, Any]:
    """Return the facts and the statistics; None for undefined numbers."""
    tables = {name: found.tables[name].to_json(orient="records") for name in ("pairs", "close", "parts")}
    return {"found": found.facts["found"], **{name: encoder.loads(text) for name, text in tables.items()}}


def _print(found: Findings, above: float) -> None:
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows

    facts = found.facts["found"]
    for note in facts["notes"]:
        print_result(note)
    print_rows([_row(row) for row in found.tables["pairs"].to_dict("records")])
    extremes = found.tables["extremes"].query("left == 'words' and right == 'words' and metric == 'cosine'")
    first = extremes.groupby("which", sort=False).head(3)
    if len(first):
        print_result("")
        print_rows([_pair(row) for row in first.to_dict("records")])
    if facts["beyond"] is not None:
        print_result(f"\ntoken-position pairs with |cosine| > {above:g}: {facts['beyond']:,}")


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    of = {"table": row["left"], "with": row["right"] or "–", "metric": row["metric"], "n": int(row["n"])}
    return of | {name: f"{row[name]:.4g}" for name in ("mean", "sd", "smallest", "largest")}


def _pair(row: dict[Any, Any]) -> dict[str, Any]:
    names = [str(row[name]).encode("utf-8", "backslashreplace").decode() for name in ("left_name", "right_name")]
    return {"cosine": row["which"], "token": names[0], "and": names[1], "value": f"{row['value']:.4g}"}
