"""Arguments and options that several studies and laboratories share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[str, typer.Argument(help="Catalogue name, model folder, .gguf file or hub name.")]
ResultsFolder = Annotated[Path, typer.Option(help="Folder for the results.")]
OptionalResultsFolder = Annotated[
    Path | None, typer.Option(help="Folder for the results, which exhibits read. Default: they are only printed.")
]
Layers = Annotated[str | None, typer.Option(help="Layers to measure, such as 0,6,12 or 0-3 or -1. Default: all.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the results in the folder.")]
Pooling = Annotated[
    str,
    typer.Option(help="How tokens become one vector: mean, first, last, max or cls (classification token)."),
]
PooledPopulation = Annotated[
    str | None,
    typer.Option(
        help="Positions that mean and max pool: all, without-first, without-massive or without-sinks. Default: "
        "without-sinks if the model has sinks, else all."
    ),
]
MODEL_OPTIONS = ("dtype", "revision", "trust_remote_code")
"""Options of surveys that are passed to the laboratories."""

# Verbs that read a finished survey
SurveyFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished survey.")]
TextSurveyFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished survey of text.")]
_POPULATIONS = "Positions to include: all, without-first, without-massive or without-sinks."
Population = Annotated[str, typer.Option(help=_POPULATIONS)]
DefaultPopulation = Annotated[
    str, typer.Option(help=f"{_POPULATIONS} auto: without-sinks for decoders that have it, otherwise all.")
]

# Verbs that read the surveyed text again
SurveyedModel = Annotated[str | None, typer.Option(help="Where the surveyed model is now, if it was moved.")]
SurveyedCorpus = Annotated[str | None, typer.Option(help="Where the surveyed corpus is now, if it was moved.")]
SurveyedDevice = Annotated[
    str | None, typer.Option(help="Device that runs the model: cpu, cuda, cuda:1. Default: as in the survey.")
]
