"""Making the embedding sets of chosen tokens (figures 1 and 8, table 2): choose, read again, write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from theodolite.errors import InputError, TheodoliteError
from theodolite.studies.choice import check_population
from theodolite.studies.norm_variance.chosen_sets import ChosenSets
from theodolite.studies.norm_variance.points import seen
from theodolite.studies.norm_variance.selection import choose, select
from theodolite.studies.norm_variance.set_files import read_sets, write_sets
from theodolite.studies.reading import read
from theodolite.studies.surveyed import Surveyed, check_layer, middle_layer
from theodolite.surveys.listener import Listener
from theodolite.surveys.pilot import Pilot
from theodolite.surveys.reopening import check_readable, reopen
from theodolite.surveys.storage import on_disk
from theodolite.surveys.token_sets import Among, TokenSets, gather

MOST = 200


def make_sets(
    folder: str | Path,
    *,
    layer: int | None = None,
    seed: int = 0,
    most: int = MOST,
    units: Sequence[str] = (),
    population: str = "all",
    model: str | None = None,
    corpus: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    listener: Listener | None = None,
) -> ChosenSets:
    """Choose tokens of a finished survey, read the documents that hold them again, and leave the sets beside it.

    `units` chooses by hand; without, appendix A's selection. `population` leaves first or massive positions out,
    of the sets and of n, Q, M and V. `model` and `corpus` are where the surveyed ones are now, if they have moved:
    other weights or other documents are refused.
    """
    if most < 1:
        raise InputError(f"--most {most}: wanted at least 1 vector a token.")
    path = on_disk(folder, "sets")
    survey = read(path, ("tokens", "units"))
    check_readable(survey.facts)
    at = middle_layer(survey) if layer is None else check_layer(survey, layer)
    check_population(survey, population)
    chosen = (
        choose(survey, at, units, population=population)
        if units
        else select(survey, at, seed=seed, population=population)
    )
    among = Among(population, Pilot.load(path).frame(at, populations=(population,), sample_size=0).massive_above)
    reopened = reopen(
        survey.facts,
        [at],
        model=model,
        corpus=corpus,
        device=device,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    sets = gather(reopened, chosen["unit"].tolist(), most=most, among=among, listener=listener)
    _check_counts(survey, at, chosen, sets)
    how = {
        "layer": at,
        "population": population,
        "seed": seed,
        "most": most,
        "by_hand": list(units),
        "documents": sets.documents,
        "of": len(reopened),
    }
    write_sets(path, survey.facts, chosen, sets, how)
    return read_sets(path, survey.facts)


def _check_counts(survey: Surveyed, layer: int, chosen: pd.DataFrame, sets: TokenSets) -> None:
    """Compare what was met in all: a norm at the very edge of massive may fall on either side in another batch."""
    table = seen(survey, layer, "all")
    told = dict(zip(table["unit"], table["n"].tolist(), strict=True))
    for unit, met, n in zip(chosen["unit"], sets.met.tolist(), sets.n.tolist(), strict=True):
        if told[unit] != met or not n:
            raise TheodoliteError(
                f"The second pass met {unit!r} {met:,} times ({n:,} that count), the survey {told[unit]:,} times: "
                "the tokenizer or the model's code has changed since; survey again."
            )
