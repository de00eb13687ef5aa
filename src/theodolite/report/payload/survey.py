"""One survey as the page's script sees it."""

from __future__ import annotations

from typing import Any

from theodolite.report.payload.curves import scales, spectra
from theodolite.report.payload.planes import projections
from theodolite.report.payload.profiles import layers, profiles
from theodolite.report.payload.tokens import tokens, units
from theodolite.report.rows import populations
from theodolite.report.tables import Tables
from theodolite.report.text import plain


def survey_payload(tables: Tables) -> dict[str, Any]:
    """Return names, layers, profiles, units and curves; what the survey does not have is absent or empty."""
    model = tables.facts.get("model")
    return {
        "name": plain(tables.name),
        "model": plain(model.get("name", "")) if isinstance(model, dict) else "",
        "layers": layers(tables),
        "populations": populations(tables),
        "profiles": profiles(tables),
        "units": units(tables),
        "tokens": tokens(tables),
        "spectra": spectra(tables),
        "scales": scales(tables),
        "projections": projections(tables),
    }
