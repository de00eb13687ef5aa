"""A survey: the tables of a finished run, with everything needed to merge and redraw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import InputError, nearest
from theodolite.models.layers import Layer
from theodolite.models.norms import Norm
from theodolite.state.pilot import Pilot
from theodolite.state.state import State
from theodolite.storage.file_names import UNITS
from theodolite.storage.location import Location, parse_location
from theodolite.tables.display import Display, figures
from theodolite.tables.tables import SurveyTables
from theodolite.text import pluralize, survey_name

OTHER_UNITS = "other_units"  # in survey.json: kinds of units whose surveys are in the folder too
SHOWN = "layer layer_name population n q m v mean_cosine anisotropy_svd effective_rank twonn".split()
CHARTED = ("mean_cosine", "anisotropy_svd", "effective_rank")


@dataclass
class Survey(Display):
    """The result of a run. `layers`, `tokens`, `units` and so on are data frames; `facts` is survey.json."""

    facts: dict[str, Any]
    tables: SurveyTables
    state: State
    pilot: Pilot
    folder: Location | None = None
    norms: dict[int, Norm] = field(default_factory=dict)  # by layer, if its states leave a norm
    others: dict[str, Survey] = field(default_factory=dict, repr=False)  # by kind of unit; see `by`

    def by(self, units: str) -> Survey:
        """Return the survey by another kind of unit that was made in the same pass, such as by("word")."""
        known = [str(self.facts["units"]), *self.facts.get(OTHER_UNITS, [])]
        if units not in known:
            raise InputError(
                f"This survey has no units {units!r}, only {', '.join(known)}. To have several kinds, survey with "
                f"--units {known[0]},{units}."
            )
        if units == known[0]:
            return self
        if units not in self.others:
            from theodolite.surveys.folder import open_survey

            assert self.folder is not None
            self.others[units] = open_survey(self.folder / UNITS / units)
        return self.others[units]

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
    def jackknife(self) -> pd.DataFrame:
        """Columns of `layers` without each group of documents, for the errors of differences between layers."""
        return self.tables.jackknife

    @property
    def groups(self) -> pd.DataFrame:
        """One row per layer, population and group of documents by a field; no rows in surveys made without it."""
        return self.tables.groups

    @property
    def group_differences(self) -> pd.DataFrame:
        """One row per layer, population and pair of groups; no rows in surveys made without groups."""
        return self.tables.group_differences

    @property
    def name(self) -> str:
        """A short name: model and corpus."""
        return survey_name(self.facts)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Location:
        """Write the survey's folder and return it."""
        from theodolite.surveys.folder import write

        path = parse_location(folder)
        write(self, path, overwrite=overwrite)
        return path

    def plot(self, *measures: str | Sequence[str], **options: Any) -> Any:
        """Return a figure of measures by layer, such as plot("mean_cosine", "twonn"); options of `compare`."""
        columns = [name for given in measures for name in ([given] if isinstance(given, str) else given)]
        return figures().compare(self, columns, **options)

    def compare(self, *others: Any, **options: Any) -> Any:
        """Return a figure of this survey and others by layer; see `theodolite.compare`."""
        return figures().compare([self, *others], **options)

    def summary(self, population: str | None = None) -> pd.DataFrame:
        """Return the most important measures, one row per layer, of the default population or another."""
        chosen = population or import_module("theodolite.studies.choice").default_population([self.facts])
        known = list(self.layers["population"].unique())
        if chosen not in known:
            raise InputError(
                f"--population {chosen!r}: the survey has {', '.join(known)}.{nearest(chosen, known)}"
            )
        rows = self.layers[self.layers["population"] == chosen]
        return rows[[column for column in SHOWN if column in rows]].reset_index(drop=True)

    def layer_objects(self) -> tuple[Layer, ...]:
        """Return the layers as the source named them."""
        return tuple(Layer(**layer) for layer in self.facts["layers"])

    def __repr__(self) -> str:
        counts = self.facts["counts"]
        return (
            f"Survey({self.name!r}: {pluralize(len(self.facts['layers']), 'layer')}, "
            f"{pluralize(counts['positions'], 'position')}, {pluralize(counts['types'], 'unit')})"
        )

    def _chart(self) -> Any:
        drawn = [name for name in CHARTED if self.layers[name].notna().any()]
        return self.plot(*drawn, caption=False) if drawn else None


def folder_of(survey: Survey | str | Path) -> str | Path:
    """Return the folder of a survey, or the folder that was given; raise if the survey is in memory only."""
    if not isinstance(survey, Survey):
        return survey
    if survey.folder is None:
        raise InputError(f"{survey.name} is in memory only. Write it to a folder first, with survey.save(folder).")
    return str(survey.folder)
