"""theodolite block: one Transformer block fed with embeddings and a bias of growing norm."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Quiet

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings

HEADS = {
    "norm": "norm",
    "mean_cosine_in": "cos in",
    "mean_cosine_out": "cos out",
    "mean_norm_in": "|x| in",
    "mean_norm_out": "|x| out",
    "norm_of_mean_in": "|mean| in",
    "norm_of_mean_out": "|mean| out",
    "mean": "score",
    "sd": "s.d.",
    "maximum": "softmax max",
    "median": "median",
    "minimum": "min",
}
LEGEND = (
    "Of the first run: cos: mean cosine of all pairs; |x|: mean norm; |mean|: norm of the mean; score: mean and "
    "s.d. of q k^T/sqrt(d_k) over heads; softmax: mean over rows of the greatest length. `theodolite measures` "
    "defines each."
)


def block(
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="A real model: catalogue name, folder, .gguf, hub name."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the findings.")] = None,
    config: Annotated[
        str | None, typer.Option(help="An untrained block instead: bert-base, gpt2, llama, or a config.json.")
    ] = None,
    layer: Annotated[int, typer.Option(help="Which block, 1 being the first.")] = 1,
    sequences: Annotated[int, typer.Option(help="Sequences of the first run.")] = 16,
    length: Annotated[int, typer.Option(help="Positions of a sequence.")] = 512,
    norms: Annotated[
        str | None,
        typer.Option(help="Norms of the bias, such as 0,1,10,30. Default: 0 and ten by the inputs' own."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Seeds: other weights where untrained, other inputs.")] = 3,
    directions: Annotated[int, typer.Option(help="Directions of the bias for each seed.")] = 3,
    spread_sequences: Annotated[int, typer.Option(help="Sequences of every run but the first.")] = 1,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    initialisation: Annotated[
        str, typer.Option(help="With --config: as the configuration says, or `torch`'s for linear maps.")
    ] = "configuration",
    inputs: Annotated[
        str, typer.Option(help="table: rows of the embedding table; states: a survey's, biased along their mean.")
    ] = "table",
    survey: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A survey of the trained model: its norms by layer, its states."),
    ] = None,
    population: Annotated[str, typer.Option(help="With --survey: all, without-first or without-massive.")] = "all",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what --out holds of this verb.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the fixed points and the table as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Feed one block with a bias of growing norm: cosines, norms, the fixed point, scores and their softmax."""
    from theodolite.cli.console import Printer, hush, result
    from theodolite.studies.block.block import block as measured

    hush()
    with Printer(quiet=quiet).listening() as printer:
        found = measured(
            model,
            config=config,
            layer=layer,
            sequences=sequences,
            length=length,
            norms=_numbers(norms),
            seeds=seeds,
            directions=directions,
            spread_sequences=spread_sequences,
            seed=seed,
            inputs=inputs,
            survey=survey,
            population=population,
            initialisation=initialisation,
            out=out,
            overwrite=overwrite,
            listener=printer,
        )
    rows = _rows(found)
    if json:
        points = [_plain(row) for row in found.tables["summary"].to_dict("records")]
        result(encoder.dumps({"fixed_points": points, "rows": [_plain(row) for row in rows]}))
        return
    _print(rows, f"{found.facts['model']['name']} · block {layer}")
    result(LEGEND)
    for row in found.tables["summary"].to_dict("records"):
        result(_told(row))
    if out is not None:
        result(f"findings: {out} ({found.facts['seconds']:.0f} s)")


def _numbers(norms: str | None) -> list[float]:
    from theodolite.errors import InputError

    try:
        return [float(part) for part in norms.split(",")] if norms is not None else []
    except ValueError:
        raise InputError(f"--norms {norms!r}: wanted rising numbers with commas, such as 0,1,10,30.") from None


def _rows(found: Findings) -> list[dict[str, Any]]:
    """Return a row a norm of the first run."""
    ends = found.tables["norms"].query("run == 0")
    scores = found.tables["scores"].query("run == 0").groupby("norm", as_index=False)[["mean", "sd"]].mean()
    softmax = found.tables["softmax"].query("run == 0")
    longest = softmax[softmax["length"] == softmax["length"].max()]
    whole = ends.merge(scores, on="norm").merge(longest, on="norm")
    return [{head: row[column] for column, head in HEADS.items()} for row in whole.to_dict("records")]


def _told(row: dict[Any, Any]) -> str:
    """Return the sentence on one fixed point."""
    what = {"mean_norm": "mean norm", "norm_of_mean": "norm of the mean"}[str(row["quantity"])]
    closed = row["closed_form"]
    formula = f"; closed form {closed:.5g}" if closed == closed else ""
    if not row["found"]:
        return f"N* ({what}): {row['reason']}{formula}"
    spread = f" ± {row['n_star_sd']:.2g}" if row["found"] > 1 else ""
    return f"N* ({what}): {row['n_star']:.5g}{spread} over {row['found']} of {row['runs']} runs{formula}"


def _plain(row: dict[Any, Any]) -> dict[str, Any]:
    plain = {str(name): getattr(value, "item", lambda value=value: value)() for name, value in row.items()}
    return {name: None if value != value else value for name, value in plain.items()}  # NaN differs from itself


def _print(rows: list[dict[str, Any]], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from theodolite.cli.layer_table import number

    printed = Table(box=None, pad_edge=False)
    for name in rows[0]:
        printed.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        printed.add_row(*(number(float(value)) for value in row.values()))
    print(title)
    Console(highlight=False, markup=False, width=1000).print(printed, crop=False)
