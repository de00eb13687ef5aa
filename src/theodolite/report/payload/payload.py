"""The data of the page as one JSON text, cut to a number of bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from theodolite.escaping import make_visible
from theodolite.report.payload.contexts import pack_contexts, pack_neighbours, pack_points
from theodolite.report.payload.groups import MOST_GROUPS, pack_groups
from theodolite.report.payload.layers import (
    RANKS,
    choose_opening_layer,
    list_layers,
    pack_profiles,
    pack_scales,
    pack_spectra,
)
from theodolite.report.payload.pack import to_json
from theodolite.report.payload.sample import BYTES_PER_POINT, limit_points, pack_projections
from theodolite.report.payload.tokens import choose_units, pack_tokens, pack_units, read_matrices
from theodolite.report.tables import Tables, populations
from theodolite.studies.rare_units import find_min_count

BUDGET = 4_600_000
"""Bytes for the data of all surveys if none are given; a page gives what its other parts leave."""
SPECTRA, GROUPS = 0.2, 0.3
"""The most of the budget for spectra and for groups of documents."""
POINTS, CONTEXTS, TEXTS, NEIGHBOURS = 0.3, 0.14, 0.06, 0.1
"""Shares of the rest for projected vectors, contexts of units, texts of vectors, and nearest units."""
BYTES_PER_UNIT = 48  # about, for its text, key and n
FEWEST_RANKS = 32


def build_survey_payload(tables: Tables, surveys: int, budget: int) -> dict[str, Any]:
    """Return the data of one survey of several in at most `budget` bytes; tables that it does not have are empty.

    Numbers by layer are never cut; everything else is.
    """
    model = tables.facts.get("model")
    ranks = max(RANKS // surveys, FEWEST_RANKS)
    head: dict[str, Any] = {
        "name": make_visible(tables.name),
        "model": make_visible(model.get("name", "")) if isinstance(model, dict) else "",
        "layers": list_layers(tables),
        "populations": populations(tables),
        "opening": choose_opening_layer(tables),
        "min_count": find_min_count(tables.facts),
        "profiles": pack_profiles(tables),
        "spectra": _fit(lambda count: pack_spectra(tables, count), ranks, int(SPECTRA * budget)),
        "scales": pack_scales(tables),
    }
    if len(tables.groups):
        # The bytes of pairs grow with the square of the number of groups.
        most, limit = min(tables.groups["group"].nunique(), MOST_GROUPS) ** 2, int(GROUPS * budget)
        head["groups"] = _fit(lambda count: pack_groups(tables, math.isqrt(count)), most, limit)
    names = ("units", "tokens", "projections", "points", "contexts", "neighbours")
    spare = budget - _size(head | {name: {} for name in names})

    def pack_sample(places: dict[Any, int], most: int) -> dict[str, Any]:
        projected = limit_points(tables, most)
        return {
            "projections": pack_projections(tables, places, projected),
            "points": pack_points(tables, projected, int(TEXTS * max(spare, 0))),
        }

    def pack_chosen(most: int) -> dict[str, Any]:
        chosen = choose_units(tables, most)
        return {"units": pack_units(tables, chosen), "tokens": pack_tokens(tables, chosen)}

    most = min(int(POINTS * spare / BYTES_PER_POINT), len(tables.projections))
    left = spare - min(_size(pack_sample({}, most)), int((POINTS + TEXTS) * spare))
    matrices = read_matrices(tables)
    distinct = len(matrices.by_population) - len(matrices.same)
    extra = bool(len(tables.contexts)) * CONTEXTS + bool(len(tables.neighbours)) * NEIGHBOURS
    # Two columns of three bytes, as base64.
    per_unit = BYTES_PER_UNIT + 8 * distinct * len(head["layers"])
    share = int((1 - extra) * left)
    tokens = _fit(pack_chosen, min(share // per_unit, len(matrices)), share)
    chosen = choose_units(tables, len(tokens["units"]["text"]))
    places = {matrices.units[at]: place for place, at in enumerate(chosen.tolist())}
    left -= _size(tokens)
    near = pack_neighbours(tables, places, int(left * NEIGHBOURS / max(extra, NEIGHBOURS)))
    left -= _size(near)
    contexts = pack_contexts(tables, places, min(left, int(CONTEXTS * budget)))
    # What the others leave is for projected vectors: a deep model with few units has room for more.
    left = spare - _size(tokens) - _size(near) - _size(contexts)
    most = min(max(left, 0) // BYTES_PER_POINT, len(tables.projections))
    sample = _fit(lambda count: pack_sample(places, count), most, left)
    return {**head, **tokens, **sample, "contexts": contexts, "neighbours": near}


def build_payload(surveys: Sequence[Tables], more: Mapping[str, Any] | None = None, budget: int = BUDGET) -> str:
    """Return the data of the page as JSON, at most `budget` bytes; `more` adds further keys.

    The surveys share what `more` leaves. No "<" is in the text, so nothing can end its <script> element.
    """
    packed: dict[int, dict[str, Any]] = {}
    left = budget - _size({"surveys": [], **(more or {})})
    # The smallest tables first: what a survey does not use is shared by the following, which need more.
    for place in sorted(range(len(surveys)), key=lambda at: surveys[at].layers.size):
        share = left // (len(surveys) - len(packed)) - 1  # for the comma between surveys
        packed[place] = build_survey_payload(surveys[place], len(surveys), share)
        left -= _size(packed[place]) + 1
    return to_json({"surveys": [packed[place] for place in range(len(surveys))], **(more or {})})


def _fit(make: Callable[[int], Any], count: int, budget: int) -> Any:
    """Return `make(count)`, with a smaller count until it takes at most `budget` bytes, or with 0."""
    count = max(count, 0)
    made = make(count)
    if (size := _size(made)) <= budget or not count:
        return made
    least = make(0)
    fixed = _size(least)
    while size > budget > fixed and count:
        # Sizes are about linear; the step is a little larger, so that one or two are enough.
        count = int(0.99 * count * (budget - fixed) / (size - fixed))
        made = make(count)
        size = _size(made)
    return made if size <= budget else least


def _size(data: Any) -> int:
    return len(to_json(data))
