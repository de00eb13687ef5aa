"""The estimate of the spread within rare units on real states: how far it is off, and whether its error is right.

    theodolite survey minilm-l6 --corpus chitchat --limit 400 --min-count 1 --keep-sums --out chitchat
    python -m benchmarks.rare_units chitchat --min-count 10 --sampled 300 --seeds 200

The survey has the vectors of all units, so the spread within the rare ones is known. The choice of sampled units
is repeated over seeds on its sums, for every layer and population. Special units, which always have a vector, are
left out, and so are populations with the same rare positions as one before them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.measures.decomposition import unit_moments
from theodolite.measures.rare_units import RareLengths, SampledUnits, estimate_within
from theodolite.statistics.cells import CELLS, MASSIVE_CELLS, POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.rare_units import SAMPLED, choose_units, expand_massive, odd_units
from theodolite.surveys.folder import open_survey
from theodolite.surveys.survey import Survey

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Estimate(NamedTuple):
    """The spread within rare units of one choice of the sample, and its standard error, both over the truth."""

    value: float
    se: float


@dataclass
class RareUnits:
    """All rare units of a population, with their spread. (units,) each"""

    codes: Ints
    n_of_corpus: Ints
    first: Ints  # codes of the units that occur at the start of a window
    known: RareLengths
    within: Array

    def estimate(self, min_count: int, sampled: int, seed: int) -> Estimate:
        """Return the spread within all units with vectors of a sample only, relative to the truth."""
        kept = choose_units(
            self.codes, self.n_of_corpus, min_count, first=self.first.tolist(), sampled=sampled, seed=seed
        )
        weights = kept.weights.numpy()
        chosen, rest = (weights > 1) & (self.known.n > 0), (weights == 0) & (self.known.n > 0)
        of_sample, of_rest = (RareLengths(*(part[of] for part in self.known)) for of in (chosen, rest))
        found = estimate_within(of_rest, SampledUnits(of_sample, self.within[chosen], weights[chosen]))
        truth = float(self.within.sum())
        return Estimate((float(self.within[weights > 0].sum()) + found.within) / truth, found.se / truth)


def find_rare_units(fold: LayerFold, cells: Sequence[int], min_count: int, special: Ints) -> RareUnits:
    """Return the rare units of these cells from the sums of a survey in which every unit has a vector."""
    whole, part = (fold.moments.population(of) for of in (POPULATIONS["all"], cells))
    rare = (whole.n.numpy() < min_count) & ~np.isin(whole.codes.numpy(), special)
    codes, n_of_corpus = whole.codes[torch.from_numpy(rare)], whole.n.numpy()[rare]
    n, lengths, within = np.zeros(len(codes), dtype=np.int64), np.zeros(len(codes)), np.zeros(len(codes))
    own = torch.isin(part.codes, codes)
    at = torch.searchsorted(codes, part.codes[own]).numpy()
    units = unit_moments(part.n.numpy(), part.readable, part.squares.numpy(), part.centre.numpy())
    n[at], mask = part.n[own].numpy(), own.numpy()
    lengths[at], within[at] = n[at] * units.q[mask], n[at] * units.v[mask]
    tables = fold.moments.tables
    massive = expand_massive(codes, [tables[cell] for cell in cells if cell in MASSIVE_CELLS], part.centre)
    odd = torch.isin(codes, odd_units(tables, cells)).numpy()
    known = RareLengths(n, lengths, massive[0].numpy(), massive[1].numpy(), odd)
    first = fold.moments.population(range(1, len(CELLS), 2)).codes.numpy()
    return RareUnits(codes.numpy(), n_of_corpus, first, known, within)


def repeat(survey: Survey, min_count: int, sampled: int, seeds: int) -> pd.DataFrame:
    """Return, for every layer and population, what the estimates over seeds are worth."""
    special = np.flatnonzero([unit.special for unit in survey.state.units.known])
    rows = []
    for layer, fold in survey.state.folds.items():
        seen: list[RareUnits] = []
        for population in survey.facts["populations"]:
            units = find_rare_units(fold, POPULATIONS[population], min_count, special)
            if units.within.sum() <= 0:
                continue  # embeddings without positions: no unit has spread
            if any(np.array_equal(units.known, other.known) for other in seen):
                continue  # rare units have no position by which this population differs from one before it
            seen.append(units)
            found = [units.estimate(min_count, sampled, seed) for seed in range(seeds)]
            value, se = np.array(found).T
            error = value - 1
            rows.append(
                {
                    "layer": layer,
                    "population": population,
                    "units": len(units.codes),
                    "odd": int(units.known.odd.sum()),
                    "covered": np.mean(np.abs(error) <= 1.96 * se),
                    "error": error.std(),
                    "se_ratio": np.sqrt(np.mean(se**2)) / error.std(),
                    "bias": error.mean(),
                    "bias_ratio": error.mean() / error.std(),
                }
            )
    return pd.DataFrame(rows)


def main() -> None:
    """Print a row for every layer and population, and the means by population."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("survey", help="folder of a survey with --min-count 1 and --keep-sums")
    parser.add_argument("--min-count", type=int, default=10)
    parser.add_argument("--sampled", type=int, default=SAMPLED)
    parser.add_argument("--seeds", type=int, default=200)
    options = parser.parse_args()
    table = repeat(open_survey(options.survey), options.min_count, options.sampled, options.seeds)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.4f}"))
    numbers = ["units", "odd", "covered", "error", "se_ratio", "bias", "bias_ratio"]
    print(table.groupby("population", sort=False)[numbers].mean().to_string(float_format=lambda v: f"{v:.4f}"))


if __name__ == "__main__":
    main()
