"""The data of the page as one JSON text, of a size that does not depend on the vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from theodolite.escaping import make_visible
from theodolite.report.payload.contexts import pack_contexts, pack_neighbours, pack_points
from theodolite.report.payload.groups import pack_groups
from theodolite.report.payload.layers import (
    RANKS,
    choose_opening_layer,
    list_layers,
    pack_profiles,
    pack_scales,
    pack_spectra,
)
from theodolite.report.payload.sample import BYTES_PER_POINT, limit_points, pack_projections
from theodolite.report.payload.tokens import choose_units, pack_tokens, pack_units, read_matrices
from theodolite.report.tables import Tables, populations
from theodolite.studies.rare_units import find_min_count

BUDGET = 4_600_000
"""Bytes for the data and the tables of all numbers of all surveys; with Plotly, 4.8 MB, a page is below 10 MB."""
BYTES_PER_CELL = 32  # about, in the table of all numbers, which is part of the page
POINTS, CONTEXTS, TEXTS, NEIGHBOURS = 0.3, 0.14, 0.06, 0.1
"""Shares of the budget for projected vectors, contexts of units, texts of vectors, and nearest units."""
REST = 0.8  # of what is left, for more projected vectors; the others are their documents and positions
BYTES_PER_UNIT = 48  # about, for its text, key and n
FEWEST_UNITS, FEWEST_RANKS = 100, 32


def build_survey_payload(tables: Tables, surveys: int = 1, budget: int | None = None) -> dict[str, Any]:
    """Return the data of one survey of several; tables that it does not have are empty.

    `budget` is in bytes, by default an equal share.
    """
    budget = (BUDGET // surveys if budget is None else budget) - _table_bytes(tables)
    model = tables.facts.get("model")
    head: dict[str, Any] = {
        "name": make_visible(tables.name),
        "model": make_visible(model.get("name", "")) if isinstance(model, dict) else "",
        "layers": list_layers(tables),
        "populations": populations(tables),
        "opening": choose_opening_layer(tables),
        "min_count": find_min_count(tables.facts),
        "profiles": pack_profiles(tables),
        "spectra": pack_spectra(tables, max(RANKS // surveys, FEWEST_RANKS)),
        "scales": pack_scales(tables),
    }
    if (groups := pack_groups(tables)) is not None:
        head["groups"] = groups
    spare = max(budget - len(_to_json(head)), 0)
    projected = limit_points(tables, int(POINTS * spare / BYTES_PER_POINT))
    texts = int(TEXTS * spare)
    points = pack_points(tables, projected, texts)
    spare -= len(_to_json(pack_projections(tables, {}, projected))) + len(_to_json(points))
    matrices = read_matrices(tables)
    distinct = len(matrices.by_population) - len(matrices.same)
    extra = bool(len(tables.contexts)) * CONTEXTS + bool(len(tables.neighbours)) * NEIGHBOURS
    # Two columns of three bytes, as base64.
    per_unit = BYTES_PER_UNIT + 8 * distinct * len(head["layers"])
    chosen = choose_units(tables, max(int((1 - extra) * spare / per_unit), FEWEST_UNITS))
    places = {matrices.units[at]: place for place, at in enumerate(chosen.tolist())}
    tokens = {"units": pack_units(tables, chosen), "tokens": pack_tokens(tables, chosen)}
    left = max(spare - len(_to_json(tokens)), int(extra * spare))
    near = pack_neighbours(tables, places, int(left * NEIGHBOURS / max(extra, NEIGHBOURS)))
    left -= len(_to_json(near))
    contexts = pack_contexts(tables, places, min(left, int(CONTEXTS * BUDGET / surveys)))
    left -= len(_to_json(contexts))
    # A deep model with few units leaves room, which more vectors fill.
    if len(projected) < len(tables.projections) and left > 0:
        projected = limit_points(tables, len(projected) + int(REST * left / BYTES_PER_POINT))
        points = pack_points(tables, projected, texts)
    return {
        **head,
        **tokens,
        "projections": pack_projections(tables, places, projected),
        "points": points,
        "contexts": contexts,
        "neighbours": near,
    }


def build_payload(surveys: Sequence[Tables], more: Mapping[str, Any] | None = None) -> str:
    """Return the data of the page as JSON; `more` adds further keys. The surveys share the budget."""
    packed: dict[int, dict[str, Any]] = {}
    budget = BUDGET
    # The smallest tables first: what a survey does not use is shared by the following, which need more.
    for place in sorted(range(len(surveys)), key=lambda at: surveys[at].layers.size):
        share = budget // (len(surveys) - len(packed))
        packed[place] = build_survey_payload(surveys[place], len(surveys), share)
        budget -= len(_to_json(packed[place])) + _table_bytes(surveys[place])
    text = _to_json({"surveys": [packed[place] for place in range(len(surveys))], **(more or {})})
    # Without "<" nothing in the text can end its <script> element or start a comment.
    return text.replace("<", "\\u003c")


def _table_bytes(tables: Tables) -> int:
    return BYTES_PER_CELL * tables.layers.size


def _to_json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
