"""Making the batches of The Shape of Learning (Razzhigaev et al. 2024): choose stretches, read again, measure."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import InputError, TheodoliteError
from theodolite.sources.layers import layer_numbers
from theodolite.studies.anisotropy.batch_files import write_batches
from theodolite.studies.anisotropy.batch_summary import BATCHES
from theodolite.studies.anisotropy.batch_table import COLUMNS, WHOLE, Measuring, layer_batches
from theodolite.studies.reading import read
from theodolite.studies.surveyed import Surveyed
from theodolite.surveys.listener import Listener
from theodolite.surveys.pilot import Pilot
from theodolite.surveys.reopening import Reopened, check_readable, reopen
from theodolite.surveys.storage import on_disk
from theodolite.surveys.stretch_states import BUDGET, states_of
from theodolite.surveys.stretches import INTERRUPTED, Chosen, choose_stretches
from theodolite.surveys.token_sets import Among

COUNT, SIZE = 10, 4096
FEWEST = 10
"""Vectors without which no batch has a dimension."""


def make_batches(
    folder: str | Path,
    *,
    count: int = COUNT,
    size: int = SIZE,
    layers: str | Sequence[int] | None = None,
    dimension: bool = True,
    model: str | None = None,
    corpus: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    budget: int = BUDGET,
    listener: Listener | None = None,
) -> Surveyed:
    """Run a few stretches of the surveyed corpus again, measure each as a batch, and leave batches.parquet.

    The corpus is cut into stretches of whole windows that hold at least `size` positions of every population;
    `count` of them are chosen by hash. `layers` are some of the survey's; without `dimension` TwoNN is left out,
    which takes most of the time. `model` and `corpus` are where the surveyed ones are now, if they have moved.
    Returns the survey with its batches.
    """
    _check(count, size)
    listener = listener or Listener()
    folder = on_disk(folder, "batches")
    survey = read(folder, ("layers",))
    check_readable(survey.facts)
    wanted = surveyed_layers(survey, layers)
    reopened = reopen(
        survey.facts,
        wanted,
        model=model,
        corpus=corpus,
        device=device,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    populations = list(survey.facts["populations"])
    listener.say("cutting the corpus into stretches")
    found = choose_stretches(
        reopened, count, room(survey, size), without_first="without-first" in populations, listener=listener
    )
    _tell(found, count, size, reopened, listener)
    how = Measuring(size, dimension, device or survey.facts["model"]["device"], lambda: _tick(listener))
    table = _measured(folder, reopened, found, populations, how, budget, listener)
    facts = {
        "count": count,
        "size": size,
        "dimension": dimension,
        "layers": wanted,
        "stretches": len(found.stretches),
        "of": found.of,
        "positions": sum(stretch.positions for stretch in found.stretches),
        "device": how.device,
    }
    write_batches(folder, survey.facts, table, facts)
    return read(folder, ("layers", BATCHES))


def _measured(
    folder: Path,
    reopened: Reopened,
    found: Chosen,
    populations: Sequence[str],
    how: Measuring,
    budget: int,
    listener: Listener,
) -> pd.DataFrame:
    pilot = Pilot.load(folder)
    rows: list[dict[str, Any]] = []
    for layer, states in states_of(reopened, found.stretches, budget=budget, listener=listener):
        listener.say(f"measuring layer {layer.index} ({layer.name})")
        above = pilot.frame(layer.index, populations=populations, sample_size=0).massive_above
        among = {population: Among(population, above) for population in populations}
        head = {"layer": layer.index, "layer_name": layer.name}
        rows += [head | row for row in layer_batches(states, found.stretches, among, how)]
    return pd.DataFrame(rows).reindex(columns=COLUMNS).astype(dict.fromkeys(WHOLE, "Int64"))


def room(survey: Surveyed, size: int) -> int:
    """Return how many positions a stretch needs so that enough are left without the massive ones.

    How many of those it has is known only once it is run: twice the largest share that any layer has of them.
    """
    if "without-massive" not in survey.facts["populations"]:
        return size
    rows = survey.layers[survey.layers["population"] == "all"]
    share = (rows["massive"] / rows["n"].clip(lower=1)).max() if len(rows) else 0.0
    return ceil(size / (1 - min(2 * float(share), 0.5)))


def surveyed_layers(survey: Surveyed, layers: str | Sequence[int] | None) -> list[int]:
    """Return the layers that "0,6,12", "0-3" or "-1" names, -1 being the survey's last; all without."""
    known = list(survey.layer_names)
    if layers is None:
        return known
    wanted = [number + known[-1] + 1 if number < 0 else number for number in layer_numbers(layers)]
    for layer in wanted:
        if layer not in known:
            raise InputError(f"--layers {layer}: this survey has layers {', '.join(map(str, known))}.")
    return sorted(set(wanted))


def _check(count: int, size: int) -> None:
    if count < 1:
        raise InputError(f"--count {count}: wanted at least 1 batch; 10 unless told.")
    if size < FEWEST:
        raise InputError(f"--size {size}: wanted at least {FEWEST} positions a batch; the paper has 4,096.")


def _tell(found: Chosen, count: int, size: int, reopened: Reopened, listener: Listener) -> None:
    """Say what was chosen; refuse a corpus that has no batch, and tell one that has fewer than wanted."""
    if not found.stretches:
        raise InputError(
            f"CORPUS {reopened.corpus.name!r} has {found.positions:,} positions that count, and a batch needs at "
            f"least {size:,} of every population. Survey more documents, or give a smaller --size; numbers of "
            "small batches are not those of large ones."
        )
    taken = sum(stretch.positions for stretch in found.stretches)
    told = f"{len(found.stretches)} of {found.of:,} stretches, {taken:,} of {found.positions:,} positions"
    if len(found.stretches) < count:
        listener.warn(f"the corpus has {found.of} batches of at least {size:,} positions, not {count}")
    listener.say(f"second pass: {told}")


def _tick(listener: Listener) -> None:
    if listener.stop():
        raise TheodoliteError(INTERRUPTED)
