"""theodolite contrast: directions from sentence pairs, the angles between them, and their uncertainty."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Device, Quiet, add_flags
from theodolite.cli.study_options import (
    MODEL_OPTIONS,
    Layers,
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
    "cosine: between the mean differences (second sentence minus first) of two classes, with its 95% interval "
    "over pairs. p: from sign flips: whether these words give the same cosine in other sentences. random: 95% "
    "interval of the cosines of random words exchanged in the same sentences, and p of being as far from 0: "
    "whether the words matter. adjusted: by Holm's method over all rows. SEAT, WEAT: effect sizes of the "
    "association tests for sentences and for words. Verdicts: sure: the interval and both adjusted p exclude 0; "
    "hint: only before adjustment; small: not 0, but random words give as much; open: may be 0."
)


@add_flags(SurveyOptions, RunOptions, only=MODEL_OPTIONS)
def contrast(
    model: Model,
    pairs: Annotated[
        Path,
        typer.Argument(
            metavar="PAIRS.json",
            help='Sentence pairs by class: {"class": [["one sentence", "the other"], ...], ...}.',
        ),
    ],
    out: ResultsFolder,
    layers: Layers = None,
    pooling: Pooling = "mean",
    population: PooledPopulation = None,
    matched: Annotated[
        bool, typer.Option("--matched", help="Skip pairs whose sentences differ in punctuation.")
    ] = False,
    random_swaps: Annotated[
        int, typer.Option(help="Random versions of each class to compare with, other words in its templates.")
    ] = 30,
    seed: Annotated[int, typer.Option(help="Seed for sign flips, resampling and random swaps.")] = 0,
    device: Device = None,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print classes and cosines of all layers as JSON.")] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Measure the directions between the sentences of pairs at every layer: a bias audit with uncertainties."""
    from theodolite.cli.console import Printer, silence_transformers
    from theodolite.cli.output import print_findings
    from theodolite.studies.contrast.contrast import contrast as contrasted

    silence_transformers()
    found = contrasted(
        model,
        pairs,
        layers=layers,
        pooling=pooling,
        population=population,
        matched=matched,
        random_swaps=random_swaps,
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
        facts=["warnings"],
        tables=["classes", "cosines"],
        legend=LEGEND,
        as_json=json,
        quiet=quiet,
    )


def _print(found: Findings) -> None:
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows

    last = found.facts["layers"][-1]
    print_result(f"{found.facts['model']['name']} · {last['name']} · {describe_pooling(found.facts['settings'])}")
    classes, cosines = (found.tables[name] for name in ("classes", "cosines"))
    print_rows([_class(row) for row in classes[classes["layer"] == last["index"]].to_dict("records")])
    if len(cosines):
        print_result()
        print_rows([_cosine(row) for row in cosines[cosines["layer"] == last["index"]].to_dict("records")])


def _class(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "class": row["class"],
        "pairs": int(row["n"]),
        "|difference|": format_fixed(row["length"]),
        "|mean|": format_fixed(row["length_of_mean"]),
        "agree": "–" if row["agree"] != row["agree"] else f"{row['agree']:.0%}",
        "p": _p(row["p"]),
        "adjusted": _p(row["p_holm"]),
        "least p": _p(row["smallest_p"]),
        "": row["reason"],
    }


def _cosine(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "class": row["class_a"],
        "and": row["class_b"],
        "cosine": format_fixed(row["cosine"]),
        "95%": f"[{format_fixed(row['low'])}, {format_fixed(row['high'])}]",
        "p": _p(row["p"]),
        "adjusted": _p(row["p_holm"]),
        "random": f"[{format_fixed(row['reference_low'])}, {format_fixed(row['reference_high'])}]",
        "p ": _p(row["reference_p"]),
        "adjusted ": _p(row["reference_p_holm"]),
        "SEAT": format_fixed(row["seat"], 2),
        "WEAT": format_fixed(row["weat"], 2),
        "verdict": row["verdict"],
    }


def _p(value: float) -> str:
    return "–" if value != value else f"{value:.2g}"
