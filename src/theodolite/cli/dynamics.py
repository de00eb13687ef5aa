"""theodolite dynamics: the geometry of one model at several steps of its training."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import CORPUS, Quiet, add_flags
from theodolite.measures.columns import find_column
from theodolite.surveys.options import RunOptions, SurveyOptions
from theodolite.text import pluralize

if TYPE_CHECKING:
    import pandas as pd

    from theodolite.studies.series import Series
    from theodolite.studies.survey_data import SurveyData

HEADINGS = {
    name: find_column(name).label for name in "mean_norm mean_cosine anisotropy_svd effective_rank twonn".split()
}
ATTENTION_HEADINGS = {
    "query_norm": "|q|",
    "key_norm": "|k|",
    "query_cosine": "cos q",
    "key_cosine": "cos k",
    "attention_max": "max",
    "attention_entropy_share": "entropy",
}
EMBEDDINGS = "+e"  # marks means that include the embeddings
LEGEND = (
    "Means over blocks; +e: over embeddings and blocks. A layer whose measure is undefined at a step is excluded "
    "from the mean of that measure. svd: share of the variance along the first direction. max, entropy: of "
    "attention weights, entropy as a share of log length. --json prints every measure, and the state after the "
    "final norm."
)


OPTIONS = (
    "units layers streams field column min_words max_words sample seed limit max_tokens batch_tokens wrap "
    "contextuality populations sample_size memory dtype trust_remote_code device"
).split()


@add_flags(SurveyOptions, RunOptions, only=OPTIONS)
def dynamics(
    model: Annotated[
        str,
        typer.Argument(
            help="With --revisions: the hub name of the model. With --checkpoints: any name, or a model that "
            "provides the tokenizer if the checkpoints have none."
        ),
    ],
    corpus: Annotated[str, typer.Option(help=f"What to read: {CORPUS}.")],
    out: Annotated[Path, typer.Option(help="Folder for the surveys and the series.")],
    checkpoints: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDERS",
            help="Checkpoint folders: a folder, a quoted glob, or a pattern such as 'runs/checkpoint-{step}'. The "
            "last number in a path is the step; otherwise give STEP=FOLDER. May be repeated or comma-separated.",
        ),
    ] = None,
    revisions: Annotated[
        list[str] | None,
        typer.Option(help="Revisions of a hub model instead of folders, such as step1000,step2000."),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(help="Steps to survey of a pattern with {step}, such as 1000,2000. Default: all that exist."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the series. Default: MODEL.")] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Folder or model whose tokenizer is used for every step. Default: that of each checkpoint, or of "
            "MODEL if a checkpoint has none."
        ),
    ] = None,
    attention: Annotated[
        int, typer.Option(help="Number of documents for measuring queries, keys and attention; 0 for none.")
    ] = 16,
    *,
    json: Annotated[
        bool, typer.Option("--json", help="Print the averages, and which measure changes first, as JSON.")
    ] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Survey the checkpoints of a model on the same text and report how every measure changes.

    Running the same command again resumes an interrupted run and adds new checkpoints.
    """
    from theodolite.cli.console import Printer, silence_transformers
    from theodolite.studies.series.dynamics import dynamics as run

    silence_transformers()
    with Printer(quiet=quiet).listening() as printer:
        made = run(
            model,
            corpus,
            out,
            checkpoints=checkpoints or (),
            revisions=revisions or (),
            steps=None if steps is None else _steps(steps),
            attention=attention,
            name=name,
            tokenizer=tokenizer,
            device=options.pop("device"),
            options=options,
            listener=printer,
        )
    _print_series(made, out, as_json=json)


def _steps(given: str) -> list[int]:
    from theodolite.errors import InputError

    parts = [part.strip() for part in given.split(",") if part.strip()]
    if not parts or not all(part.isdigit() for part in parts):
        raise InputError(f"--steps {given!r}: expected integers separated by commas, such as 1000,2000.")
    return [int(part) for part in parts]


def _print_series(made: Series, out: Path, *, as_json: bool) -> None:
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_numbers, to_json_rows
    from theodolite.studies.series.averages import average_layers, list_steps
    from theodolite.studies.series.leads import describe_leads, make_lead_table
    from theodolite.studies.series.series import ATTENTION

    survey = made.as_survey_data(out)
    averages = average_layers(survey)
    leads = make_lead_table(survey) if ATTENTION in made.tables else None
    if as_json:
        summary = {"steps": survey.facts["steps"], "averages": to_json_rows(averages)}
        print_result(encoder.dumps(summary | {"leads": [] if leads is None else to_json_rows(leads)}))
        return

    def print_columns(columns: dict[str, list[Any]]) -> None:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        print_numbers(rows, {name: name for name in columns})

    printed: list[tuple[str, dict[str, list[Any]]]] = []
    for population in survey.facts["populations"]:
        columns = {"step": list_steps(survey), **_layers(averages[averages["population"] == population])}
        same = next((name for name, other in printed if str(other) == str(columns)), None)
        print_result(
            f"{survey.model} on {survey.corpus} · population: {population}{f' (same as {same})' if same else ''}"
        )
        if same is None:
            print_columns(columns)
        printed.append((population, columns))
    if leads is not None:
        print_result(f"attention on {made.notes[ATTENTION]['documents']} documents · population: all")
        print_columns({"step": list_steps(survey), **_attention(survey)})
    print_result(LEGEND)
    for line in [] if leads is None else describe_leads(leads, "all"):
        print_result(line)
    print_result(f"series: {out / 'series.parquet'} ({pluralize(len(made.steps), 'step')})")


def _layers(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the columns of the table: means over blocks, then over embeddings and blocks."""
    from theodolite.studies.series.averages import BLOCKS, WITH_EMBEDDINGS

    return {
        f"{head}{mark}": part[part["measure"] == measure].sort_values("step")["mean"].tolist()
        for scope, mark in ((BLOCKS, ""), (WITH_EMBEDDINGS, EMBEDDINGS))
        if len(part := rows[rows["scope"] == scope])
        for measure, head in HEADINGS.items()
    }


def _attention(survey: SurveyData) -> dict[str, list[Any]]:
    from theodolite.studies.series.averages import average_attention

    means = average_attention(survey, "all")
    return {
        head: means[means["measure"] == measure].sort_values("step")["mean"].tolist()
        for measure, head in ATTENTION_HEADINGS.items()
    }
