"""theodolite export: sampled vectors for other viewers, means and scales of keys, numbers for trackers."""

from __future__ import annotations

from typing import Annotated

import typer

from theodolite.cli.study_options import Population
from theodolite.text import pluralize


def export(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="Folder of a finished survey. Numbers also of a series of checkpoints, or of the JSON file of a "
            "check.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            help="Vectors: embedding-atlas, or projector for TensorBoard's projector. Mean and scale of the keys "
            "of every head: keys. Numbers by layer: mlflow, wandb (offline), tensorboard or prometheus."
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            help="A .parquet file for embedding-atlas, a .safetensors file for keys, a .prom file for prometheus, "
            "a server or .db file for mlflow; otherwise a folder."
        ),
    ],
    layer: Annotated[
        str | None,
        typer.Option(help="Layers, such as 6 or -1 or 0,6,12. Default: all; for embedding-atlas the last one."),
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
    measure: Annotated[
        list[str] | None,
        typer.Option(help="Column of layers.parquet to export as a number; may be repeated. Default: most."),
    ] = None,
) -> None:
    """Write the sampled vectors or the numbers of a survey for another program, and print how to see them."""
    from theodolite.cli.console import print_result
    from theodolite.studies.number_export.trackers import TRACKERS
    from theodolite.studies.sample_export.export import export as exported

    made = exported(
        folder,
        to=to,
        out=out,
        layer=layer,
        population=population,
        limit=limit,
        project=project,
        measures=measure or (),
    )
    if made.errors is not None:
        print_result(f"{made.out}: means and scales of {pluralize(len(made.errors), 'layer')} of keys")
        print_result("relative squared error of 4-bit keys, as they are, centred, and scaled too:")
        print_result(made.errors.to_string(index=False, float_format=lambda x: f"{x:.4f}"))
        return
    what = "number" if to in TRACKERS else "vector"
    total, layers = pluralize(sum(made.layers.values()), what), pluralize(len(made.layers), "layer")
    check = to in TRACKERS and folder.endswith(".json")  # which has no population of its own
    print_result(f"{made.out}: {total} of {layers}{'' if check else f', population {population}'}")
    print_result(made.command)
