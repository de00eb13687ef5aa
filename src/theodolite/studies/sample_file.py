"""The sample of a finished survey, read from its folder one layer at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import DamagedError, InputError
from theodolite.models.layers import Layer, select_layers
from theodolite.statistics.cells import CELLS, MASSIVE_CELLS, POPULATIONS
from theodolite.statistics.fold import max_sample_size
from theodolite.storage.download import download
from theodolite.storage.file_names import SAMPLE
from theodolite.storage.files import verify
from theodolite.studies.choice import check_population
from theodolite.studies.survey_data import SurveyData
from theodolite.surveys.folder import open_tables


@dataclass(frozen=True, slots=True)
class SampledRows:
    """Sampled vectors of one layer, sorted by key, so that the first k rows are again a uniform sample."""

    key: NDArray[np.int64]  # (rows,), a hash of document, window and position: the same at every layer
    unit: NDArray[np.int64]  # (rows,), codes
    vector: NDArray[np.float32]  # (rows, dim)
    massive: NDArray[np.bool_]  # (rows,)

    def __len__(self) -> int:
        return len(self.key)


class SampleFile:
    """sample.safetensors of a finished survey, its checksum verified once, with the facts of the survey."""

    def __init__(self, folder: str | Path, tables: tuple[str, ...] = ("units",)) -> None:
        self.folder = download(folder, [SAMPLE])
        facts, found = open_tables(folder, tables)
        self.survey = SurveyData(facts, found, self.folder)
        self.layers = {layer["index"]: Layer(**layer) for layer in facts["layers"]}
        if SAMPLE not in facts["files"]:
            raise InputError(
                f"{self.folder} has no {SAMPLE}: an older version of theodolite wrote it. Run the survey again."
            )
        verify(self.folder / SAMPLE, facts["files"][SAMPLE])

    @property
    def size(self) -> int:
        """Maximum number of sampled vectors per population; very wide layers have fewer."""
        return int(self.survey.facts["settings"]["sample_size"])

    @property
    def has_units(self) -> bool:
        """Whether vectors belong to units."""
        return str(self.survey.facts["settings"]["units"]) != "none"

    def has_population(self, population: str) -> bool:
        """Return whether the survey has the population and no merge has lost it."""
        facts = self.survey.facts
        return population in facts["populations"] and population not in (facts.get("lost") or {})

    def check_population(self, population: str) -> None:
        """Reject a population that the survey does not have."""
        check_population(self.survey, population)
        lost = (self.survey.facts.get("lost") or {}).get(population)
        if lost:
            raise InputError(f"--population {population!r} was lost when surveys were merged: {lost}.")

    def select_layers(self, layers: str | int | None, option: str = "--layer") -> list[int]:
        """Return the layers named by "6", "0,6,12", "0-3" or "-1" (the last layer); None is all layers."""
        return select_layers(list(self.layers), layers, option)

    def unit_names(self, layer: int, codes: NDArray[np.int64]) -> NDArray[np.object_]:
        """Return the units with these codes; None if the vectors of the layer do not belong to units."""
        if not (self.has_units and self.layers[layer].units):
            return np.full(len(codes), None, dtype=object)
        units = self.survey.units
        return units["unit"].astype(object).set_axis(units["row"]).reindex(codes).to_numpy(dtype=object)

    def rows(self, layer: int, population: str, limit: int | None = None) -> SampledRows:
        """Return the vectors with the smallest keys of one layer and population, at most `limit`.

        Cells are stored sorted by key, so at most `limit` rows of each are read.
        """
        dim = self.layers[layer].dim
        most = min(self.size, max_sample_size(dim), self.size if limit is None else limit)
        # A sample of size 0 is a safetensors file without tensors, which safe_open cannot open.
        parts = [self._cell(layer, cell, most) for cell in POPULATIONS[population]] if most else []
        found = [part for part in parts if part is not None]
        if not found:
            empty = np.empty(0, dtype=np.int64)
            return SampledRows(empty, empty, np.empty((0, dim), dtype=np.float32), empty.astype(bool))
        key = np.concatenate([part.key for part in found])
        order = np.argsort(key, kind="stable")[:most]
        return SampledRows(
            key[order],
            np.concatenate([part.unit for part in found])[order],
            np.concatenate([part.vector for part in found])[order],
            np.concatenate([part.massive for part in found])[order],
        )

    def _cell(self, layer: int, cell: int, most: int) -> SampledRows | None:
        from safetensors import SafetensorError, safe_open

        prefix = f"layer{layer}.sample.{CELLS[cell]}"
        try:
            with safe_open(self.folder / SAMPLE, framework="pt") as file:
                if f"{prefix}.key" not in file.keys():  # noqa: SIM118
                    return None
                key, unit, vector = (
                    file.get_slice(f"{prefix}.{name}")[:most] for name in ("key", "unit", "vector")
                )
        except (OSError, SafetensorError) as error:
            raise DamagedError(f"{self.folder / SAMPLE} cannot be read: {error}") from error
        massive = np.full(len(key), cell in MASSIVE_CELLS)
        return SampledRows(key.numpy(), unit.numpy(), vector.float().numpy(), massive)
