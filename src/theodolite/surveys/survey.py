"""A survey: the tables of a finished run, with everything needed to merge, resume and redraw."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.naming import several, survey_name
from theodolite.sources.layers import Layer
from theodolite.sources.text.norm import Norm
from theodolite.surveys.pilot import Pilot
from theodolite.surveys.state import State
from theodolite.surveys.storage import Place, placed
from theodolite.surveys.tables import Tables

SHOWN = "layer layer_name population n q m v mean_cosine anisotropy_svd effective_rank twonn".split()


@dataclass
class Survey:
    """What a run found. `layers`, `tokens`, `units` and so on are data frames; `facts` is survey.json."""

    facts: dict[str, Any]
    tables: Tables
    state: State
    pilot: Pilot
    folder: Place | None = None
    norms: dict[int, Norm] = field(default_factory=dict)  # by layer, where the state leaves a norm

    @property
    def layers(self) -> pd.DataFrame:
        """One row per layer and population."""
        return self.tables.layers

    @property
    def tokens(self) -> pd.DataFrame:
        """One row per layer, population and unit."""
        return self.tables.tokens

    @property
    def units(self) -> pd.DataFrame:
        """One row per unit seen."""
        return self.tables.units

    @property
    def coordinates(self) -> pd.DataFrame:
        """One row per layer, population and coordinate."""
        return self.tables.coordinates

    @property
    def scales(self) -> pd.DataFrame:
        """The intrinsic dimension at each scale, per layer and population; no rows in surveys made without it."""
        return self.tables.scales

    @property
    def spectra(self) -> pd.DataFrame:
        """Every eigenvalue of every layer and population; no rows in surveys made without it."""
        return self.tables.spectra

    @property
    def name(self) -> str:
        """What was surveyed, in a few words."""
        return survey_name(self.facts)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Place:
        """Write the survey's folder and return it."""
        from theodolite.surveys.folder import claim, save

        path = placed(folder)
        claim(path, overwrite=overwrite)
        save(self, path)
        return path

    def layer_objects(self) -> tuple[Layer, ...]:
        """Return the layers as the source named them."""
        return tuple(Layer(**layer) for layer in self.facts["layers"])

    def __repr__(self) -> str:
        counts = self.facts["counts"]
        return (
            f"Survey({self.name!r}: {several(len(self.facts['layers']), 'layer')}, "
            f"{several(counts['positions'], 'position')}, {several(counts['types'], 'unit')})"
        )

    def _repr_html_(self) -> str:
        """Show the layers in a notebook; pandas escapes what comes from a model or a corpus."""
        from html import escape

        shown = self.layers[SHOWN].to_html(index=False, float_format=lambda x: f"{x:.4g}", na_rep="–", border=0)
        return f"<h4>{escape(self.name)}</h4><p>{escape(repr(self))}</p>{shown}"
