"""theodolite export: the sample for embedding-atlas or TensorBoard's projector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished survey.")],
    to: Annotated[str, typer.Option(help="embedding-atlas or projector (TensorBoard's).")],
    out: Annotated[Path, typer.Option(help="embedding-atlas: a .parquet; projector: a folder.")],
    layer: Annotated[
        str | None,
        typer.Option(
            help="A layer such as 6 or -1, or several: 0,6,12. Default: the last; for the projector all of them."
        ),
    ] = None,
    population: Annotated[str, typer.Option(help="all, without-first or without-massive.")] = "all",
    limit: Annotated[
        int | None, typer.Option(help="Vectors a layer, chosen by hash. Default: all kept; projector: 10,000.")
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="embedding-atlas's x and y: pca, umap or tsne. Default: pca.")
    ] = None,
) -> None:
    """Write the vectors that a survey kept whole for another viewer, and print the command that shows them."""
    from theodolite.cli.console import result
    from theodolite.studies.sample_export import export as exported

    made = exported(folder, to=to, out=out, layer=layer, population=population, limit=limit, project=project)
    count = sum(made.layers.values())
    layers = f"{len(made.layers)} layer{'s' if len(made.layers) > 1 else ''}"
    result(f"{made.out}: {count:,} vectors of {layers}, population {population}")
    result(made.command)
