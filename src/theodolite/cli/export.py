"""theodolite export: the sampled vectors for other viewers, or the means and scales of keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.study_options import Population, SurveyFolder
from theodolite.text import pluralize


def export(
    folder: SurveyFolder,
    to: Annotated[
        str,
        typer.Option(
            help="embedding-atlas, projector for TensorBoard's projector, or keys for the mean and scale of the "
            "keys of every head."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="A .parquet file for embedding-atlas, a folder for projector, a .safetensors file for keys."
        ),
    ],
    layer: Annotated[
        str | None,
        typer.Option(help="Layers, such as 6 or -1 or 0,6,12. Default: the last one; for projector all of them."),
    ] = None,
    population: Population = "all",
    limit: Annotated[
        int | None,
        typer.Option(
            help="Vectors per layer, chosen by hash. Default: all sampled vectors; for projector at most 10,000."
        ),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(help="Projection to x and y for embedding-atlas: pca, umap or tsne. Default: pca."),
    ] = None,
) -> None:
    """Write the sampled vectors of a survey for another viewer, and print the command that shows them."""
    from theodolite.cli.console import print_result
    from theodolite.studies.sample_export.export import export as exported

    made = exported(folder, to=to, out=out, layer=layer, population=population, limit=limit, project=project)
    if made.errors is not None:
        print_result(f"{made.out}: means and scales of {pluralize(len(made.errors), 'layer')} of keys")
        print_result("relative squared error of 4-bit keys, as they are, centred, and scaled too:")
        print_result(made.errors.to_string(index=False, float_format=lambda x: f"{x:.4f}"))
        return
    vectors, layers = pluralize(sum(made.layers.values()), "vector"), pluralize(len(made.layers), "layer")
    print_result(f"{made.out}: {vectors} of {layers}, population {population}")
    print_result(made.command)
