"""One layer's batches measured: contiguous stretches as they are, and the same positions shuffled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from theodolite.measures.batches import batch_anisotropy
from theodolite.measures.twonn import twonn
from theodolite.studies.anisotropy.batch_summary import CONTIGUOUS, SHUFFLED
from theodolite.surveys.rows import Row
from theodolite.surveys.stretch_states import States
from theodolite.surveys.stretches import Stretch
from theodolite.surveys.token_sets import Among

DIMENSION = "twonn twonn_se twonn_ml twonn_ml_se twonn_keep20".split()
COLUMNS = (
    "layer layer_name population kind batch n first_document documents anisotropy_svd".split()
    + DIMENSION
    + "twonn_n duplicates undefined".split()
)
WHOLE = "first_document documents twonn_n duplicates".split()
ALIKE = "the vectors of the batch are all the same"
OF_SHUFFLED = "the dimension is of shuffled batches"
NOT_ASKED = "the dimension was not asked for"


@dataclass(frozen=True)
class Measuring:
    """How batches are measured: their least size, whether the dimension is wanted, and where it is worked out."""

    size: int
    dimension: bool = True
    device: str = "cpu"
    tick: Callable[[], None] = lambda: None  # called before each batch


def layer_batches(
    states: States, stretches: Sequence[Stretch], among: Mapping[str, Among], how: Measuring
) -> list[dict[str, Any]]:
    """Return the rows of one layer, all populations; one that leaves nothing out here is not measured twice."""
    known: list[tuple[Tensor, list[dict[str, Any]]]] = []
    for population in among.values():
        counts = population.has(states.vectors, states.first)
        rows = next((rows for mask, rows in known if torch.equal(mask, counts)), None)
        known.append((counts, rows if rows is not None else _population(states, stretches, counts, how)))
    return [{"population": name} | row for name, (_, rows) in zip(among, known, strict=True) for row in rows]


def _population(
    states: States, stretches: Sequence[Stretch], counts: Tensor, how: Measuring
) -> list[dict[str, Any]]:
    rows = []
    for number, stretch in enumerate(stretches):
        how.tick()
        here = ((states.stretch == number) & counts).nonzero().squeeze(1)
        where = {"first_document": stretch.first_document, "documents": stretch.documents}
        rows.append({"kind": CONTIGUOUS, "batch": number, "n": len(here)} | where | _contiguous(states, here, how))
    for number, here in enumerate(shuffled(states, counts, len(stretches), how.size)):
        how.tick()
        rows.append({"kind": SHUFFLED, "batch": number, "n": len(here)} | _shuffled(states, here, how))
    return rows


def shuffled(states: States, counts: Tensor, most: int, size: int) -> list[Tensor]:
    """Cut the positions that count, ordered by their keys, into at most `most` batches of nearly equal size."""
    rows = counts.nonzero().squeeze(1)
    rows = rows[torch.argsort(states.key[rows], stable=True)]
    batches = min(most, len(rows) // size)
    edges = [len(rows) * number // batches for number in range(batches + 1)] if batches else []
    return [rows[start:stop] for start, stop in pairwise(edges)]


def _contiguous(states: States, here: Tensor, how: Measuring) -> dict[str, Any]:
    row = Row()
    if len(here) < how.size:
        row.undefined(few(len(here), how.size), ["anisotropy_svd"])
    else:
        row.put(ALIKE, anisotropy_svd=batch_anisotropy(states.vectors[here]))
    row.undefined(OF_SHUFFLED, [*DIMENSION, "twonn_n", "duplicates"])
    return row.finished()


def _shuffled(states: States, here: Tensor, how: Measuring) -> dict[str, Any]:
    row = Row()
    vectors = states.vectors[here]
    row.put(ALIKE, anisotropy_svd=batch_anisotropy(vectors))
    if not how.dimension:
        row.undefined(NOT_ASKED, [*DIMENSION, "twonn_n", "duplicates"])
        return row.finished()
    found = twonn(vectors.to(how.device), contexts=states.context[here].to(how.device))
    numbers = (found.keep90, found.se, found.ml, found.ml_se, found.keep20)
    row.put(found.reason or "", **dict(zip(DIMENSION, numbers, strict=True)))
    row.values |= {"twonn_n": found.n, "duplicates": found.duplicates}
    return row.finished()


def few(n: int, size: int) -> str:
    """Say why a stretch is no batch of this population."""
    return f"{n:,} positions of this population in the stretch, and a batch has at least {size:,}"
