"""Batches of The Shape of Learning (Razzhigaev et al. 2024): read chunks of the corpus again and measure each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from theodolite.engines.progress import Listener
from theodolite.errors import InputError, TheodoliteError
from theodolite.measures.batches import batch_anisotropy
from theodolite.measures.intrinsic_dimension import twonn
from theodolite.models.layers import select_layers
from theodolite.state.pilot import Pilot
from theodolite.statistics.cells import cells_to_separate
from theodolite.storage.location import local_path
from theodolite.studies.anisotropy.batch_tables import BATCHES, CONTIGUOUS, SHUFFLED, write_batches
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData
from theodolite.surveys.chunks import (
    BUDGET,
    INTERRUPTED,
    ChosenChunks,
    Chunk,
    ChunkStates,
    choose_chunks,
    read_chunk_states,
)
from theodolite.surveys.options import parse_size
from theodolite.surveys.reopen import Reopened, check_readable, reopen
from theodolite.surveys.survey import Survey, folder_of
from theodolite.surveys.token_sets import PositionFilter
from theodolite.tables.layer_row import LayerRow

DIMENSION = "twonn twonn_se twonn_ml twonn_ml_se twonn_keep20".split()
COLUMNS = (
    "layer layer_name population kind batch n first_document documents anisotropy_svd".split()
    + DIMENSION
    + "twonn_n duplicates undefined".split()
)
INTEGER_COLUMNS = "first_document documents twonn_n duplicates".split()
ALL_EQUAL = "all vectors of the batch are equal"
ONLY_SHUFFLED = "the dimension is measured on shuffled batches only"
DISABLED = "the dimension was disabled"
COUNT, SIZE = 10, 4096
MIN_SIZE = 10
"""Vectors that a batch requires to have a dimension."""


def make_batches(
    folder: Survey | str | Path,
    *,
    count: int = COUNT,
    size: int = SIZE,
    layers: str | Sequence[int] | None = None,
    dimension: bool = True,
    model: str | None = None,
    corpus: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    memory: int | str | None = None,
    listener: Listener | None = None,
) -> SurveyData:
    """Run a few contiguous chunks of the surveyed corpus again, measure each as a batch and save batches.parquet.

    The corpus is split into chunks of complete windows with at least `size` positions of every population each;
    `count` of them are chosen by hash. `layers` selects layers of the survey. Without `dimension` the TwoNN
    dimension, which takes most of the time, is omitted. `model` and `corpus` give the new locations if the
    surveyed ones have moved. `memory` is that for hidden states, in bytes or such as "4G" (default: 1G, or more if
    one layer needs it). Returns the survey with its batches.
    """
    _check(count, size)
    budget = BUDGET if memory is None else parse_size(memory)
    listener = listener or Listener()
    folder = local_path(folder_of(folder), "batches")
    survey = read_survey_data(folder, ("layers",))
    check_readable(survey.facts)
    selected = sorted(select_layers(list(survey.layer_names), layers))
    populations = list(survey.facts["populations"])
    by_sinks = cells_to_separate(populations).sinks
    reopened = reopen(
        survey.facts,
        list(survey.layer_names) if by_sinks else selected,
        model=model,
        corpus=corpus,
        device=device,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    listener.say("splitting the corpus into chunks")
    chosen = choose_chunks(
        reopened,
        count,
        required_positions(survey, size),
        without_first="without-first" in populations,
        listener=listener,
    )
    _report_chunks(chosen, count, size, reopened, listener)
    options = BatchOptions(
        size, dimension, device or survey.facts["model"]["device"], lambda: _check_interrupt(listener)
    )
    table = _measure(folder, reopened, chosen, selected, populations, options, budget, listener)
    facts = {
        "count": count,
        "size": size,
        "dimension": dimension,
        "layers": selected,
        "stretches": len(chosen.chunks),
        "of": chosen.of,
        "positions": sum(chunk.positions for chunk in chosen.chunks),
        "device": options.device,
    }
    write_batches(folder, survey.facts, table, facts)
    return read_survey_data(folder, ("layers", BATCHES))


@dataclass(frozen=True)
class BatchOptions:
    """Options of the measurement: minimum size of a batch, whether to compute the dimension, and the device."""

    size: int
    dimension: bool = True
    device: str = "cpu"
    tick: Callable[[], None] = lambda: None  # called before each batch


def measure_layer_batches(
    states: ChunkStates, chunks: Sequence[Chunk], filters: Mapping[str, PositionFilter], options: BatchOptions
) -> list[dict[str, Any]]:
    """Return the rows of one layer for all populations. Populations with equal positions are measured once."""
    known: list[tuple[Tensor, list[dict[str, Any]]]] = []
    for population in filters.values():
        counts = population.select(states.vectors, states.first, states.sinks)
        rows = next((rows for mask, rows in known if torch.equal(mask, counts)), None)
        known.append((counts, rows if rows is not None else _measure_population(states, chunks, counts, options)))
    return [{"population": name} | row for name, (_, rows) in zip(filters, known, strict=True) for row in rows]


def _measure_population(
    states: ChunkStates, chunks: Sequence[Chunk], counts: Tensor, options: BatchOptions
) -> list[dict[str, Any]]:
    rows = []
    for number, chunk in enumerate(chunks):
        options.tick()
        members = ((states.chunk == number) & counts).nonzero().squeeze(1)
        where = {"first_document": chunk.first_document, "documents": chunk.documents}
        rows.append(
            {"kind": CONTIGUOUS, "batch": number, "n": len(members)}
            | where
            | _measure_contiguous(states, members, options)
        )
    for number, members in enumerate(split_shuffled(states, counts, len(chunks), options.size)):
        options.tick()
        rows.append(
            {"kind": SHUFFLED, "batch": number, "n": len(members)} | _measure_shuffled(states, members, options)
        )
    return rows


def split_shuffled(states: ChunkStates, counts: Tensor, most: int, size: int) -> list[Tensor]:
    """Split the counted positions, ordered by key, into at most `most` batches of nearly equal size."""
    rows = counts.nonzero().squeeze(1)
    rows = rows[torch.argsort(states.key[rows], stable=True)]
    batches = min(most, len(rows) // size)
    edges = [len(rows) * number // batches for number in range(batches + 1)] if batches else []
    return [rows[start:stop] for start, stop in pairwise(edges)]


def _measure_contiguous(states: ChunkStates, members: Tensor, options: BatchOptions) -> dict[str, Any]:
    row = LayerRow()
    if len(members) < options.size:
        row.undefined(_too_few(len(members), options.size), ["anisotropy_svd"])
    else:
        row.put(ALL_EQUAL, anisotropy_svd=batch_anisotropy(states.vectors[members]))
    row.undefined(ONLY_SHUFFLED, [*DIMENSION, "twonn_n", "duplicates"])
    return row.to_dict()


def _measure_shuffled(states: ChunkStates, members: Tensor, options: BatchOptions) -> dict[str, Any]:
    row = LayerRow()
    vectors = states.vectors[members]
    row.put(ALL_EQUAL, anisotropy_svd=batch_anisotropy(vectors))
    if not options.dimension:
        row.undefined(DISABLED, [*DIMENSION, "twonn_n", "duplicates"])
        return row.to_dict()
    estimate = twonn(vectors.to(options.device), contexts=states.context[members].to(options.device))
    numbers = (estimate.keep90, estimate.se, estimate.ml, estimate.ml_se, estimate.keep20)
    row.put(estimate.reason or "", **dict(zip(DIMENSION, numbers, strict=True)))
    row.values |= {"twonn_n": estimate.n, "duplicates": estimate.duplicates}
    return row.to_dict()


def _too_few(n: int, size: int) -> str:
    return f"the chunk has {n:,} positions of this population; a batch requires at least {size:,}"


def _measure(
    folder: Path,
    reopened: Reopened,
    chosen: ChosenChunks,
    selected: Sequence[int],
    populations: Sequence[str],
    options: BatchOptions,
    budget: int,
    listener: Listener,
) -> pd.DataFrame:
    pilot = Pilot.load(folder)
    rows: list[dict[str, Any]] = []
    sinks = pilot if cells_to_separate(populations).sinks else None
    for layer, states in read_chunk_states(
        reopened, chosen.chunks, layers=selected, pilot=sinks, budget=budget, listener=listener
    ):
        listener.say(f"measuring layer {layer.index} ({layer.name})")
        above = pilot.massive_above(layer.index)
        filters = {population: PositionFilter(population, above) for population in populations}
        head = {"layer": layer.index, "layer_name": layer.name}
        rows += [head | row for row in measure_layer_batches(states, chosen.chunks, filters, options)]
    return pd.DataFrame(rows).reindex(columns=COLUMNS).astype(dict.fromkeys(INTEGER_COLUMNS, "Int64"))


def required_positions(survey: SurveyData, size: int) -> int:
    """Return the positions that a chunk requires to have at least `size` positions of every population.

    Their number is known only after the chunk is run, so twice the largest share that a population leaves out at
    any layer, other than first positions, is assumed.
    """
    n = survey.layers.pivot_table(index="layer", columns="population", values="n", aggfunc="first").astype(float)
    others = [name for name in ("without-massive", "without-sinks") if name in n]
    if not others or not len(n):
        return size
    share = 1 - float(n[others].div(n["all"].clip(lower=1), axis=0).min().min())
    return ceil(size / (1 - min(2 * float(share), 0.5)))


def _check(count: int, size: int) -> None:
    if count < 1:
        raise InputError(f"--count must be at least 1 (got {count}); the default is {COUNT}.")
    if size < MIN_SIZE:
        raise InputError(
            f"--size must be at least {MIN_SIZE} positions per batch (got {size}); the paper uses {SIZE:,}."
        )


def _report_chunks(chosen: ChosenChunks, count: int, size: int, reopened: Reopened, listener: Listener) -> None:
    """Report the chosen chunks. Raise if the corpus has no batch, and warn if it has fewer than `count`."""
    if not chosen.chunks:
        raise InputError(
            f"CORPUS {reopened.corpus.name!r} has {chosen.positions:,} counted positions; a batch requires "
            f"at least {size:,} of every population. Survey more documents or give a smaller --size. Results of "
            "small batches cannot be compared with those of large ones."
        )
    positions = sum(chunk.positions for chunk in chosen.chunks)
    summary = f"{len(chosen.chunks)} of {chosen.of:,} chunks, {positions:,} of {chosen.positions:,} positions"
    if len(chosen.chunks) < count:
        listener.warn(f"the corpus has {chosen.of} batches of at least {size:,} positions, not {count}")
    listener.say(f"second pass: {summary}")


def _check_interrupt(listener: Listener) -> None:
    if listener.stop():
        raise TheodoliteError(INTERRUPTED)
