"""Error bars of sums over positions, with a real model: against the spread over corpora of other documents."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import theodolite
from theodolite.corpora.catalogue.lookup import corpus_file, model_folder
from theodolite.measures.resampling import NUMBERS, SHARES

REPLICATIONS, DOCUMENTS, CHARACTERS = 16, 60, 500
WITHIN = 1.5
"""The factor within which a standard error must be. The spread over 16 corpora is itself known to 18%, so the
median over numbers and layers must be within the factor, and each number within its square."""


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Layers 2 and 5 of surveys of different documents."""
    texts = [json.loads(line)["text"][:CHARACTERS] for line in corpus_file("chitchat").open(encoding="utf-8")]
    texts = [text for text in texts if len(text) > CHARACTERS // 2][: REPLICATIONS * DOCUMENTS]
    tables = []
    for number in range(REPLICATIONS):
        part = texts[number::REPLICATIONS]
        survey = theodolite.survey(
            model_folder("minilm-l6"), part, layers=[2, 5], sample_size=64, populations=["all"]
        )
        tables.append(survey.layers.assign(replication=number))
    table = pd.concat(tables, ignore_index=True)
    shares = {name: table[above] / table[below] for name, (above, below) in SHARES.items()}
    return pd.concat([table, pd.DataFrame(shares)], axis=1)


@pytest.mark.weights
@pytest.mark.slow
def test_errors_are_within_a_factor_of_the_spread_over_documents(rows: pd.DataFrame) -> None:
    ratios = {}
    for layer, part in rows.groupby("layer"):
        for name in NUMBERS:
            claimed = np.sqrt(np.square(part[f"{name}_se"].to_numpy(np.float64)).mean())
            ratios[layer, name] = claimed / part[name].std()
    found = np.array(list(ratios.values()))
    assert 1 / WITHIN < np.median(found) < WITHIN, ratios
    assert (found > 1 / WITHIN**2).all(), ratios
    assert (found < WITHIN**2).all(), ratios
