"""theodolite clouds: compare corpora as clouds of document vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Device, Quiet, add_flags
from theodolite.cli.study_options import (
    MODEL_OPTIONS,
    Model,
    Overwrite,
    PooledPopulation,
    Pooling,
    ResultsFolder,
)
from theodolite.surveys.options import RunOptions, SurveyOptions
from theodolite.text import describe_pooling, format_fixed

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings

LEGEND = (
    "accuracy: of a linear classifier on held-out documents, with its 95% interval; 0.5 is chance. energy: energy "
    "distance as a share of the mean distance between the corpora. p: from permuting the labels of sources "
    "(documents, unless --sources). by length, case, marks, unknown: accuracy of classifiers that see only the "
    "number of tokens, capitals, punctuation, and unknown words. matched: all documents cut to the same number of "
    "tokens; plain: the same without capitals, punctuation and unknown words."
)


@add_flags(SurveyOptions, RunOptions, only=MODEL_OPTIONS)
def clouds(
    model: Model,
    corpora: Annotated[
        list[str], typer.Argument(metavar="A B [C ...]", help="Corpora: catalogue names, files, globs or hf:NAME.")
    ],
    out: ResultsFolder,
    limit: Annotated[int, typer.Option(help="Documents per corpus, sampled from all of it.")] = 400,
    first: Annotated[bool, typer.Option("--first", help="Use the first documents instead of a sample.")] = False,
    layers: Annotated[str, typer.Option(help="Layers to measure, such as 0,6,12 or 0-3 or -1.")] = "-1",
    pooling: Pooling = "mean",
    population: PooledPopulation = None,
    max_tokens: Annotated[int, typer.Option(help="Maximum number of tokens read from a document.")] = 128,
    projections: Annotated[
        str, typer.Option(help="Projections to compute: pca, tsne, umap (comma-separated), or none.")
    ] = "pca,tsne,umap",
    permutations: Annotated[
        int, typer.Option(help="Permutations of the labels. The smallest possible p is 1 / (permutations + 1).")
    ] = 999,
    sources: Annotated[
        str | None,
        typer.Option(
            help="Documents of one source, which stay together in folds and permutations: file, or a number of "
            "consecutive documents. Default: file for several .txt files, else every document by itself."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for sampling, folds, permutations and projections.")] = 0,
    device: Device = None,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print separations and summaries as JSON.")] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Compare corpora by their document vectors, with documents at full length and again at equal length."""
    from theodolite.cli.console import Printer, silence_transformers
    from theodolite.cli.output import print_findings
    from theodolite.studies.clouds.clouds import clouds as measured

    silence_transformers()
    found = measured(
        model,
        corpora,
        limit=limit,
        first=first,
        layers=layers,
        pooling=pooling,
        population=population,
        max_tokens=max_tokens,
        projections=projections,
        permutations=permutations,
        sources=sources,
        seed=seed,
        device=device,
        out=out,
        overwrite=overwrite,
        listener=Printer(quiet=quiet),
        **options,
    )
    print_findings(
        found,
        out,
        _print,
        facts=["corpora", "warnings"],
        tables=["separations", "summaries"],
        legend=LEGEND,
        as_json=json,
        quiet=quiet,
    )


def _print(found: Findings) -> None:
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows

    print_result(f"{found.facts['model']['name']} · {describe_pooling(found.facts['settings'])}")
    print_rows([_apart(row) for row in found.tables["separations"].to_dict("records")])
    print_result()
    print_rows([_spread(row) for row in found.tables["summaries"].to_dict("records")])


def _apart(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "layer": row["layer_name"],
        "lengths": row["lengths"],
        "corpus": row["corpus_a"],
        "and": row["corpus_b"],
        "n each": int(row["n"]),
        "tokens": f"{format_fixed(row['tokens_a'], 1)}, {format_fixed(row['tokens_b'], 1)}",
        "accuracy": format_fixed(row["accuracy"]),
        "95%": f"[{format_fixed(row['accuracy_low'])}, {format_fixed(row['accuracy_high'])}]",
        "p": format_fixed(row["accuracy_p"]),
        "energy": format_fixed(row["energy_share"]),
        "p ": format_fixed(row["energy_p"]),
        "by length": format_fixed(row["length_accuracy"], 2),
        "case": format_fixed(row["casing_accuracy"], 2),
        "marks": format_fixed(row["punctuation_accuracy"], 2),
        "unknown": format_fixed(row["unknown_accuracy"], 2),
        "": row["reason"],
    }


def _spread(row: dict[Any, Any]) -> dict[str, Any]:
    of = row["corpus_a"] if row["corpus_a"] == row["corpus_b"] else f"{row['corpus_a']} – {row['corpus_b']}"
    head = {
        "layer": row["layer_name"],
        "lengths": row["lengths"],
        "what": row["metric"],
        "of": of,
        "n": int(row["n"]),
    }
    return head | {name: format_fixed(row[name]) for name in ("mean", "sd", "smallest", "largest", "negative")}
