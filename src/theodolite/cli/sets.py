"""theodolite sets: the vectors of a few chosen tokens of a finished survey."""

from __future__ import annotations

from typing import Annotated

import typer

from theodolite.cli.options import Quiet, TrustRemoteCode
from theodolite.cli.study_options import (
    DefaultPopulation,
    SurveyedCorpus,
    SurveyedDevice,
    SurveyedModel,
    TextSurveyFolder,
)


def sets(
    folder: TextSurveyFolder,
    layer: Annotated[int | None, typer.Option(help="Layer of the vectors. Default: the middle one.")] = None,
    seed: Annotated[int, typer.Option(help="Seed for choosing tokens at random.")] = 0,
    most: Annotated[int, typer.Option(help="Maximum number of vectors per token, chosen by hash.")] = 200,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKEN", help="Use this token instead of random ones; give the option at least twice."
        ),
    ] = None,
    population: DefaultPopulation = "auto",
    model: SurveyedModel = None,
    corpus: SurveyedCorpus = None,
    device: SurveyedDevice = None,
    trust_remote_code: TrustRemoteCode = False,
    quiet: Quiet = False,
) -> None:
    """Choose tokens from rare to frequent, run their documents through the model again, and keep the vectors."""
    from theodolite.cli.console import Printer, print_result, silence_transformers
    from theodolite.studies.norm_variance.token_set_files import TABLE_FILE
    from theodolite.studies.norm_variance.token_sets import make_token_sets

    silence_transformers()
    with Printer(quiet=quiet).listening() as printer:
        made = make_token_sets(
            folder,
            layer=layer,
            seed=seed,
            most=most,
            units=unit or (),
            population=population,
            model=model,
            corpus=corpus,
            device=device,
            trust_remote_code=trust_remote_code,
            listener=printer,
        )
    print_result(
        f"token sets: {folder / TABLE_FILE} ({len(made.chosen)} tokens, {len(made.places):,} vectors, "
        f"layer {made.layer}, {made.population}, {made.facts['documents']:,} of {made.facts['of']:,} documents)"
    )
