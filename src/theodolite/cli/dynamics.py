"""theodolite dynamics: the geometry of one model at several steps of its training."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import (
    BatchTokens,
    Column,
    Device,
    Dtype,
    Field,
    Layers,
    Limit,
    MaxTokens,
    MaxWords,
    Memory,
    MinWords,
    Populations,
    Quiet,
    SampleSize,
    Seed,
    Share,
    TrustRemoteCode,
)
from theodolite.cli.survey import Corpus

if TYPE_CHECKING:
    import pandas as pd

    from theodolite.studies.series import Series
    from theodolite.studies.surveyed import Surveyed

MEASURES = {
    "mean_norm": "|mean|",
    "mean_cosine": "cos",
    "anisotropy_svd": "svd",
    "effective_rank": "rank",
    "twonn": "TwoNN",
}
ATTENTION = {
    "query_norm": "|q|",
    "key_norm": "|k|",
    "query_cosine": "cos q",
    "key_cosine": "cos k",
    "attention_max": "max",
    "attention_entropy_share": "entropy",
}
EMBEDDINGS = "+e"  # marks means that the embeddings are in
LEGEND = (
    "Means over blocks, with +e over embeddings and blocks; a layer that does not tell a measure at every step is "
    "in no mean. svd: share of the variance along the first direction; max and entropy (of log length): of "
    "attention. --json has every measure, and the state after the final norm."
)


def dynamics(
    model: Annotated[
        str,
        typer.Argument(
            help="What the checkpoints are called together: a hub name with --revisions, else any name, or a "
            "model that has the tokenizer they lack."
        ),
    ],
    corpus: Annotated[str, typer.Option(help=f"What to read: {Corpus}.")],
    out: Annotated[Path, typer.Option(help="Folder for the surveys and the series.")],
    checkpoints: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDERS",
            help="Folders, a quoted glob whose last number is the step, or a pattern such as "
            "'runs/checkpoint-{step}'; several times or with commas; STEP=FOLDER for one without a number.",
        ),
    ] = None,
    revisions: Annotated[
        list[str] | None, typer.Option(help="Revisions of a hub model in place of folders: step1000,step2000.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(help="The steps wanted of a pattern with {step}: 1000,2000. Default: all there.")
    ] = None,
    attention: Annotated[
        int, typer.Option(help="Documents that queries, keys and attention are read on; 0 for none.")
    ] = 16,
    units: Annotated[
        str | None, typer.Option(help="What vectors are counted by: id (the default), surface or word.")
    ] = None,
    layers: Layers = None,
    field: Field = "text",
    column: Column = "text",
    min_words: MinWords = None,
    max_words: MaxWords = None,
    sample: Share = None,
    seed: Seed = 0,
    limit: Limit = None,
    max_tokens: MaxTokens = None,
    batch_tokens: BatchTokens = None,
    wrap: Annotated[
        bool, typer.Option("--wrap", help="Put BOS and EOS around every window where the tokenizer adds none.")
    ] = False,
    contextuality: Annotated[
        bool, typer.Option("--contextuality", help="Also tell self-similarity and its kin.")
    ] = False,
    populations: Populations = "all,without-first,without-massive",
    sample_size: SampleSize = 4096,
    memory: Memory = None,
    device: Device = None,
    dtype: Dtype = "float32",
    trust_remote_code: TrustRemoteCode = False,
    json: Annotated[bool, typer.Option("--json", help="Print every average and order as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Survey a model's checkpoints on the same text; tell how every measure moves. Run again, it goes on."""
    from theodolite.cli.console import Printer, hush
    from theodolite.studies.series.dynamics import dynamics as run
    from theodolite.surveys.memory import parse_size

    hush()
    options = {
        "units": units,
        "layers": layers,
        "field": field,
        "column": column,
        "min_words": min_words,
        "max_words": max_words,
        "sample": sample,
        "seed": seed,
        "limit": limit,
        "max_tokens": max_tokens,
        "batch_tokens": batch_tokens,
        "wrap": wrap,
        "contextuality": contextuality,
        "populations": [name.strip() for name in populations.split(",") if name.strip()],
        "sample_size": sample_size,
        "memory": parse_size(memory) if memory is not None else None,
        "dtype": dtype,
        "trust_remote_code": trust_remote_code,
    }
    with Printer(quiet=quiet).listening() as printer:
        made = run(
            model,
            corpus,
            out,
            checkpoints=checkpoints or (),
            revisions=revisions or (),
            steps=None if steps is None else _steps(steps),
            attention=attention,
            device=device,
            options=options,
            listener=printer,
        )
    _tell(made, out, as_json=json)


def _steps(given: str) -> list[int]:
    from theodolite.errors import InputError

    parts = [part.strip() for part in given.split(",") if part.strip()]
    if not parts or not all(part.isdigit() for part in parts):
        raise InputError(f"--steps {given!r}: wanted whole numbers with commas between, such as 1000,2000.")
    return [int(part) for part in parts]


def _tell(made: Series, out: Path, *, as_json: bool) -> None:
    from theodolite.cli.console import result
    from theodolite.cli.plain_json import plain_rows
    from theodolite.studies.dynamics import names
    from theodolite.studies.dynamics.at_step import steps_of
    from theodolite.studies.dynamics.averages import averages
    from theodolite.studies.dynamics.leads import leads, sentences

    survey = made.as_surveyed(out)
    found = averages(survey)
    order = leads(survey) if names.ATTENTION in made.tables else None
    if as_json:
        told = {"steps": survey.facts["steps"], "averages": plain_rows(found)}
        result(encoder.dumps(told | {"leads": [] if order is None else plain_rows(order)}))
        return
    shown: list[tuple[str, dict[str, list[Any]]]] = []
    for population in survey.facts["populations"]:
        columns = {"step": steps_of(survey), **_layers(found[found["population"] == population])}
        same = next((name for name, other in shown if str(other) == str(columns)), None)
        print(f"{survey.model} on {survey.corpus} · population: {population}{f', as {same}' if same else ''}")
        if same is None:
            _print(columns)
        shown.append((population, columns))
    if order is not None:
        print(f"attention on {made.notes[names.ATTENTION]['documents']} documents · population: all")
        _print({"step": steps_of(survey), **_attention(survey)})
    result(LEGEND)
    for line in [] if order is None else sentences(order, "all"):
        result(line)
    result(f"series: {out / 'series.parquet'} ({len(made.steps)} steps)")


def _layers(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the columns of the compact table: means over blocks, then over embeddings too."""
    from theodolite.studies.dynamics.averages import BLOCKS, WITH_EMBEDDINGS

    return {
        f"{head}{mark}": part[part["measure"] == measure].sort_values("step")["mean"].tolist()
        for scope, mark in ((BLOCKS, ""), (WITH_EMBEDDINGS, EMBEDDINGS))
        if len(part := rows[rows["scope"] == scope])
        for measure, head in MEASURES.items()
    }


def _attention(survey: Surveyed) -> dict[str, list[Any]]:
    from theodolite.studies.dynamics.attention_means import attention_means

    means = attention_means(survey, "all")
    return {
        head: means[means["measure"] == measure].sort_values("step")["mean"].tolist()
        for measure, head in ATTENTION.items()
    }


def _print(columns: dict[str, list[Any]]) -> None:
    """Print the columns; a digit is never cut."""
    from rich.console import Console
    from rich.table import Table

    from theodolite.cli.layer_table import number

    table = Table(box=None, pad_edge=False)
    for head in columns:
        table.add_column(head, justify="right", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*map(number, row))
    Console(highlight=False, markup=False, width=1000).print(table, crop=False)
