"""theodolite batches: SVD anisotropy and dimension of a few batches, beside a finished survey."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Quiet, TrustRemoteCode

if TYPE_CHECKING:
    import pandas as pd

HEADS = {
    "layer": "layer",
    "layer_name": "name",
    "n": "n",
    "everything": "svd",
    "contiguous": "contiguous",
    "contiguous_sd": "s.d.",
    "contiguous_batches": "batches",
    "shuffled": "shuffled",
    "shuffled_sd": "s.d.",
    "twonn": "TwoNN",
    "twonn_sd": "s.d.",
    "twonn_batches": "batches",
}
LEGEND = (
    "svd: SVD anisotropy of everything; contiguous and shuffled: of each batch, centred by itself, mean over the "
    "batches. TwoNN is of shuffled batches. n: positions of a contiguous batch, the middle one."
)


def batches(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished survey of text.")],
    count: Annotated[int, typer.Option(help="Batches to measure, chosen by hash.")] = 10,
    size: Annotated[int, typer.Option(help="Positions that a batch holds at least.")] = 4096,
    layers: Annotated[
        str | None, typer.Option(help="Layers to measure: 0,6,12 or 0-3 or -1. Default: all.")
    ] = None,
    no_dimension: Annotated[
        bool, typer.Option("--no-dimension", help="Leave out TwoNN, which takes most of the time.")
    ] = False,
    memory: Annotated[
        str | None, typer.Option(help="States held at a time, such as 4G. Default: 1G, or one layer.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Where the surveyed model is, if it has moved.")] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Where the surveyed documents are, if they have moved.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1. Default: the survey's.")] = None,
    trust_remote_code: TrustRemoteCode = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Read a few contiguous stretches of the corpus again, and measure each as a batch of its own."""
    from theodolite.cli.console import Printer, hush, result
    from theodolite.studies.anisotropy.batch_files import TABLE
    from theodolite.studies.anisotropy.batch_summary import BATCHES, summary
    from theodolite.studies.anisotropy.batches import make_batches
    from theodolite.surveys.memory import parse_size
    from theodolite.surveys.stretch_states import BUDGET

    hush()
    budget = BUDGET if memory is None else parse_size(memory)
    with Printer(quiet=quiet).listening() as printer:
        made = make_batches(
            folder,
            count=count,
            size=size,
            layers=layers,
            dimension=not no_dimension,
            model=model,
            corpus=corpus,
            device=device,
            trust_remote_code=trust_remote_code,
            budget=budget,
            listener=printer,
        )
    found, facts = summary(made.tables[BATCHES], made.layers), made.facts[BATCHES]
    if json:
        result(encoder.dumps({"facts": facts, "rows": _plain(found)}))
        return
    for population in made.facts["populations"]:
        print(f"{made.model} on {made.corpus} · population: {population}")
        _print(found[found["population"] == population])
    result(LEGEND)
    result(
        f"batches: {folder / TABLE} ({facts['stretches']} of {facts['of']:,} stretches of at least "
        f"{facts['size']:,} positions)"
    )


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows with every digit, nulls for what is undefined."""
    import pandas as pd

    return [
        {str(name): None if pd.isna(value) else value for name, value in record.items()}
        for record in table.to_dict("records")
    ]


def _print(table: pd.DataFrame) -> None:
    from rich.console import Console
    from rich.table import Table

    from theodolite.cli.layer_table import number

    printed = Table(box=None, pad_edge=False)
    for column, head in HEADS.items():
        printed.add_column(head, justify="left" if column == "layer_name" else "right", no_wrap=True)
    for record in table.to_dict("records"):
        printed.add_row(*(number(record[column]) for column in HEADS))
    Console(highlight=False, markup=False, width=1000).print(printed, crop=False)
