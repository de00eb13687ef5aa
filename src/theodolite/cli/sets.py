"""theodolite sets: the vectors of a few chosen tokens, beside a finished survey."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import Quiet, TrustRemoteCode


def sets(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished survey of text.")],
    layer: Annotated[int | None, typer.Option(help="Layer to take vectors from. Default: the middle one.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the tokens that are drawn.")] = 0,
    most: Annotated[int, typer.Option(help="Vectors kept of a token, chosen by hash.")] = 200,
    unit: Annotated[
        list[str] | None, typer.Option(metavar="TOKEN", help="Choose this token by hand; twice or more.")
    ] = None,
    population: Annotated[
        str, typer.Option(help="Positions that count: all, without-first or without-massive.")
    ] = "all",
    model: Annotated[str | None, typer.Option(help="Where the surveyed model is, if it has moved.")] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Where the surveyed documents are, if they have moved.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1. Default: the survey's.")] = None,
    trust_remote_code: TrustRemoteCode = False,
    quiet: Quiet = False,
) -> None:
    """Draw tokens evenly over frequencies and read the documents that hold them again, for their vectors."""
    from theodolite.cli.console import Printer, hush, result
    from theodolite.studies.norm_variance.set_files import TABLE
    from theodolite.studies.norm_variance.token_sets import make_sets

    hush()
    with Printer(quiet=quiet).listening() as printer:
        made = make_sets(
            folder,
            layer=layer,
            seed=seed,
            most=most,
            units=unit or (),
            population=population,
            model=model,
            corpus=corpus,
            device=device,
            trust_remote_code=trust_remote_code,
            listener=printer,
        )
    result(
        f"token sets: {folder / TABLE} ({len(made.chosen)} tokens, {len(made.places):,} vectors, "
        f"layer {made.layer}, {made.population}, {made.facts['documents']:,} of {made.facts['of']:,} documents)"
    )
