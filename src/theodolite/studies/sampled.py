"""The survey's sample read from its folder: a layer at a time, and of it no more rows than are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import DamagedError, InputError
from theodolite.sources.layers import Layer, layer_numbers
from theodolite.statistics.cells import CELLS, POPULATIONS
from theodolite.statistics.fold import most_sampled
from theodolite.studies.choice import check_population
from theodolite.studies.surveyed import Surveyed
from theodolite.surveys.fetching import fetched
from theodolite.surveys.files import verify
from theodolite.surveys.folder import open_tables
from theodolite.surveys.state import SAMPLE

MASSIVE = tuple(cell for cell, name in enumerate(CELLS) if name in ("massive", "both"))


@dataclass(frozen=True, slots=True)
class SampledRows:
    """Vectors kept whole at one layer, in the order of their keys: the first k are again a uniform sample."""

    key: NDArray[np.int64]  # (rows,), a hash of where the vector stands: the same at every layer
    unit: NDArray[np.int64]  # (rows,), codes
    vector: NDArray[np.float32]  # (rows, dim)
    massive: NDArray[np.bool_]  # (rows,)

    def __len__(self) -> int:
        return len(self.key)


class SampleFile:
    """sample.safetensors of a finished survey, checked once, with the facts beside it."""

    def __init__(self, folder: str | Path, tables: tuple[str, ...] = ("units",)) -> None:
        self.folder = fetched(folder, [SAMPLE])
        facts, found = open_tables(folder, tables)
        self.survey = Surveyed(facts, found, self.folder)
        self.layers = {layer["index"]: Layer(**layer) for layer in facts["layers"]}
        if SAMPLE not in facts["files"]:
            raise InputError(f"{self.folder} was made before surveys had {SAMPLE}; survey again to have it.")
        verify(self.folder / SAMPLE, facts["files"][SAMPLE])

    @property
    def size(self) -> int:
        """How many vectors a population's sample holds at most, unless they are very wide."""
        return int(self.survey.facts["settings"]["sample_size"])

    @property
    def has_units(self) -> bool:
        """Say whether vectors belong to units at all."""
        return str(self.survey.facts["settings"]["units"]) != "none"

    def tells(self, population: str) -> bool:
        """Say whether the survey has a population, and no merge has lost it."""
        facts = self.survey.facts
        return population in facts["populations"] and population not in (facts.get("lost") or {})

    def check(self, population: str) -> None:
        """Refuse a population that the survey does not tell."""
        check_population(self.survey, population)
        lost = (self.survey.facts.get("lost") or {}).get(population)
        if lost:
            raise InputError(f"--population {population!r} was lost when surveys were merged: {lost}.")

    def chosen(self, wanted: str | int | None, option: str = "--layer") -> list[int]:
        """Return the layers that "6", "0,6,12", "0-3" or "-1" names, -1 being the last; None is all."""
        known = list(self.layers)
        if wanted is None:
            return known
        numbers = layer_numbers(wanted if isinstance(wanted, str) else [wanted])
        found = [number + known[-1] + 1 if number < 0 else number for number in numbers]
        for number in found:
            if number not in self.layers:
                raise InputError(f"{option} {number}: this survey has layers {', '.join(map(str, known))}.")
        return list(dict.fromkeys(found))

    def unit_names(self, layer: int, codes: NDArray[np.int64]) -> NDArray[np.object_]:
        """Return the units with these codes, None where the layer's vectors belong to none."""
        if not (self.has_units and self.layers[layer].units):
            return np.full(len(codes), None, dtype=object)
        units = self.survey.units
        return units["unit"].astype(object).set_axis(units["row"]).reindex(codes).to_numpy(dtype=object)

    def rows(self, layer: int, population: str, limit: int | None = None) -> SampledRows:
        """Return the vectors of smallest key of one layer and population, `limit` of them at most.

        Cells are sorted by key, so no more than `limit` rows of each are read.
        """
        dim = self.layers[layer].dim
        most = min(self.size, most_sampled(dim), self.size if limit is None else limit)
        # A safetensors file without any tensor, as a sample of size 0 leaves it, cannot be opened.
        parts = [self._cell(layer, cell, most) for cell in POPULATIONS[population]] if most else []
        found = [part for part in parts if part is not None]
        if not found:
            whole = np.empty(0, dtype=np.int64)
            return SampledRows(whole, whole, np.empty((0, dim), dtype=np.float32), whole.astype(bool))
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
        massive = np.full(len(key), cell in MASSIVE)
        return SampledRows(key.numpy(), unit.numpy(), vector.float().numpy(), massive)
