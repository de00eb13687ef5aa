"""theodolite batches: SVD anisotropy and dimension of a few batches of a finished survey."""

from __future__ import annotations

import json as encoder
from typing import Annotated

import typer

from theodolite.cli.options import Quiet, TrustRemoteCode
from theodolite.cli.study_options import Layers, SurveyedCorpus, SurveyedDevice, SurveyedModel, TextSurveyFolder

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
    "svd: SVD anisotropy of all positions. contiguous, shuffled: mean SVD anisotropy of batches, each centred by "
    "itself. TwoNN: mean over shuffled batches. n: median number of positions in a contiguous batch."
)


def batches(
    folder: TextSurveyFolder,
    count: Annotated[int, typer.Option(help="Number of batches to measure, chosen by hash.")] = 10,
    size: Annotated[int, typer.Option(help="Minimum number of positions in a batch.")] = 4096,
    layers: Layers = None,
    no_dimension: Annotated[
        bool, typer.Option("--no-dimension", help="Do not compute TwoNN, which takes most of the time.")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory for hidden states, such as 4G. Default: 1G, or more if one layer needs it."),
    ] = None,
    model: SurveyedModel = None,
    corpus: SurveyedCorpus = None,
    device: SurveyedDevice = None,
    trust_remote_code: TrustRemoteCode = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run a few contiguous chunks of the corpus through the model again and measure each as a separate batch."""
    from theodolite.cli.console import Printer, print_result, silence_transformers
    from theodolite.cli.output import print_numbers, to_json_rows
    from theodolite.studies.anisotropy.batch_tables import BATCHES, TABLE, summarise_batches
    from theodolite.studies.anisotropy.batches import make_batches

    silence_transformers()
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
            memory=memory,
            listener=printer,
        )
    found, facts = summarise_batches(made.tables[BATCHES], made.layers), made.facts[BATCHES]
    if json:
        print_result(encoder.dumps({"facts": facts, "rows": to_json_rows(found)}))
        return
    for population in made.facts["populations"]:
        print_result(f"{made.model} on {made.corpus} · population: {population}")
        rows = found[found["population"] == population].to_dict("records")
        print_numbers(rows, HEADS, left_aligned=("layer_name",))
    print_result(LEGEND)
    print_result(
        f"batches: {folder / TABLE} ({facts['stretches']} of {facts['of']:,} chunks of at least "
        f"{facts['size']:,} positions)"
    )
