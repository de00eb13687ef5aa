"""theodolite block: one Transformer block whose inputs are shifted by a bias of growing norm."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Quiet
from theodolite.cli.study_options import OptionalResultsFolder, Overwrite

if TYPE_CHECKING:
    import pandas as pd

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
    "All numbers are of the first run. cos: mean cosine of all pairs. |x|: mean norm. |mean|: norm of the mean. "
    "score, s.d.: mean and standard deviation of q k^T/sqrt(d_k) over all pairs and heads. softmax max, median, "
    "min: means over the longest attention rows. `theodolite measures` defines each."
)


def block(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]", help="A trained model: catalogue name, model folder, .gguf file or hub name."
        ),
    ] = None,
    out: OptionalResultsFolder = None,
    config: Annotated[
        str | None, typer.Option(help="Use an untrained block instead: bert-base, gpt2, llama, or a config.json.")
    ] = None,
    layer: Annotated[int, typer.Option(help="Number of the block; the first is 1.")] = 1,
    sequences: Annotated[int, typer.Option(help="Number of sequences in the first run.")] = 16,
    length: Annotated[int, typer.Option(help="Number of positions in a sequence.")] = 512,
    norms: Annotated[
        str | None,
        typer.Option(
            help="Norms of the bias, such as 0,1,10,30. Default: 0 and ten values chosen from the norms of the "
            "inputs."
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Number of seeds. Each gives other inputs and, with --config, other weights.")
    ] = 3,
    directions: Annotated[int, typer.Option(help="Directions of the bias for each seed.")] = 3,
    spread_sequences: Annotated[
        int, typer.Option(help="Number of sequences in the other runs, which estimate the spread.")
    ] = 1,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    initialisation: Annotated[
        str, typer.Option(help="With --config: configuration, or torch for PyTorch's defaults of linear layers.")
    ] = "configuration",
    inputs: Annotated[
        str,
        typer.Option(
            help="table (rows of the embedding table) or states (vectors of --survey; the bias is "
            "along their mean)."
        ),
    ] = "table",
    survey: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of a survey of the trained model, for its states and norms."),
    ] = None,
    population: Annotated[
        str,
        typer.Option(help="With --survey, positions: all, without-first, without-massive or without-sinks."),
    ] = "all",
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print the fixed points and the table as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Add a growing bias to the inputs of one block, and measure cosines, norms, fixed points and attention."""
    from theodolite.cli.console import Printer, print_result, silence_transformers
    from theodolite.cli.output import print_numbers, to_json_rows
    from theodolite.studies.block.block import block as measured

    silence_transformers()
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
    rows = _first_run(found)
    if json:
        summary = {"fixed_points": to_json_rows(found.tables["summary"]), "rows": to_json_rows(rows)}
        print_result(encoder.dumps(summary))
        return
    print_result(f"{found.facts['model']['name']} · block {layer}")
    print_numbers(rows.astype(float).to_dict("records"), {name: name for name in HEADS.values()})
    print_result(LEGEND)
    for row in found.tables["summary"].to_dict("records"):
        print_result(_describe_fixed_point(row))
    if out is not None:
        print_result(f"findings: {out} ({found.facts['seconds']:.0f} s)")


def _numbers(norms: str | None) -> list[float]:
    from theodolite.errors import InputError

    try:
        return [float(part) for part in norms.split(",")] if norms is not None else []
    except ValueError:
        raise InputError(
            f"--norms {norms!r}: expected increasing numbers separated by commas, such as 0,1,10,30."
        ) from None


def _first_run(found: Findings) -> pd.DataFrame:
    """Return one row per norm of the first run, with the columns of HEADS."""
    ends = found.tables["norms"].query("run == 0")
    scores = found.tables["scores"].query("run == 0").assign(sd=lambda heads: heads["sd"] ** 2)
    of_heads = scores.groupby("norm")["mean"].var(ddof=0)  # every head has as many scores
    scores = scores.groupby("norm", as_index=False)[["mean", "sd"]].mean()
    scores["sd"] = (scores["sd"] + scores["norm"].map(of_heads)) ** 0.5
    softmax = found.tables["softmax"].query("run == 0")
    longest = softmax[softmax["length"] == softmax["length"].max()]
    return ends.merge(scores, on="norm").merge(longest, on="norm")[list(HEADS)].rename(columns=HEADS)


def _describe_fixed_point(row: dict[Any, Any]) -> str:
    what = {"mean_norm": "mean norm", "norm_of_mean": "norm of the mean"}[str(row["quantity"])]
    closed = row["closed_form"]
    formula = f"; closed form {closed:.5g}" if closed == closed else ""
    if not row["found"]:
        return f"N* ({what}): {row['reason']}{formula}"
    spread = f" ± {row['n_star_sd']:.2g}" if row["found"] > 1 else ""
    return f"N* ({what}): {row['n_star']:.5g}{spread} over {row['found']} of {row['runs']} runs{formula}"
