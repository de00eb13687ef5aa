"""V_W with vectors of a sample of rare units only, against V_W of the same survey with all vectors.

python -m benchmarks.rare_units --limit 300 --min-count 10 --sampled 300 --seeds 3
"""

from __future__ import annotations

import argparse
from functools import partial
from unittest.mock import patch

import numpy as np
import pandas as pd

from theodolite.measures.decomposition import unit_moments
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.rare_units import choose_units
from theodolite.surveys.api import survey
from theodolite.surveys.survey import Survey
from theodolite.tables.rare_units import find_rare


def sampling_error(found: Survey, layer: int, population: str) -> float:
    """Return the standard error of V_W that is due to units without a vector."""
    fold, cells = found.state.folds[layer], POPULATIONS[population]
    sums = fold.moments.population(cells)
    n, squares, centre = sums.n.numpy(), sums.squares.numpy(), sums.centre.numpy()
    rare = find_rare(fold, cells, sums, unit_moments(n, sums.readable, squares, centre))
    return 0.0 if rare is None else rare.spread.se / (int(n.sum()) + rare.n)


def compare(whole: Survey, found: Survey) -> pd.DataFrame:
    """Return the error of V_W and the claimed one, as shares of V_W, for every layer and population."""
    rows = []
    for exact, row in zip(whole.layers.itertuples(), found.layers.itertuples(), strict=True):
        error = sampling_error(found, row.layer, row.population) / exact.v_within
        off = row.v_within / exact.v_within - 1
        rows.append((row.layer, row.population, row.v_within_estimated_share, off, error))
    return pd.DataFrame(rows, columns=["layer", "population", "estimated_share", "error", "claimed"])


def main() -> None:
    """Print the errors by population."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="minilm-l6")
    parser.add_argument("--corpus", default="chitchat")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--min-count", type=int, default=10)
    parser.add_argument("--sampled", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    whole = survey(options.model, options.corpus, limit=options.limit, min_count=1)
    parts = []
    for seed in range(options.seeds):
        chosen = partial(choose_units, sampled=options.sampled, seed=seed)
        with patch("theodolite.surveys.unit_counts.choose_units", chosen):
            found = survey(options.model, options.corpus, limit=options.limit, min_count=options.min_count)
        parts.append(compare(whole, found).assign(seed=seed))
        print(found.facts["counts"], found.facts["memory"]["units_with_vector"], "with a vector")
    table = pd.concat(parts)
    table["covered"] = table["error"].abs() <= 1.96 * table["claimed"]
    table["error"], table["squared_claim"] = table["error"].abs(), np.square(table["claimed"])
    print(table.groupby("population")[["estimated_share", "error", "claimed", "covered"]].agg(["mean", "max"]))
    root = np.sqrt(np.square(table["error"]).mean()), np.sqrt(table["squared_claim"].mean())
    print(f"root mean square: error {root[0]:.4%}, claimed {root[1]:.4%}; covered {table['covered'].mean():.1%}")


if __name__ == "__main__":
    main()
