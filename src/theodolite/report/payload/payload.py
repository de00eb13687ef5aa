"""The data of the page as one JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from theodolite.escaping import make_visible
from theodolite.report.payload.layers import list_layers, pack_profiles, pack_scales, pack_spectra
from theodolite.report.payload.tokens import pack_projections, pack_tokens, pack_units
from theodolite.report.tables import Tables, populations


def build_survey_payload(tables: Tables) -> dict[str, Any]:
    """Return the data of one survey; tables that it does not have are empty."""
    model = tables.facts.get("model")
    return {
        "name": make_visible(tables.name),
        "model": make_visible(model.get("name", "")) if isinstance(model, dict) else "",
        "layers": list_layers(tables),
        "populations": populations(tables),
        "profiles": pack_profiles(tables),
        "units": pack_units(tables),
        "tokens": pack_tokens(tables),
        "spectra": pack_spectra(tables),
        "scales": pack_scales(tables),
        "projections": pack_projections(tables),
    }


def build_payload(surveys: Sequence[Tables], more: Mapping[str, Any] | None = None) -> str:
    """Return the data of the page as JSON; `more` adds further keys."""
    data = {"surveys": [build_survey_payload(tables) for tables in surveys], **(more or {})}
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # Without "<" nothing in the text can end its <script> element or start a comment.
    return text.replace("<", "\\u003c")
