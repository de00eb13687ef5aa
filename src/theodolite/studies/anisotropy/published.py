"""Figures of Ethayarajh (2019) for BERT and GPT-2, for comparison.

"How Contextual are Contextualized Word Representations?", EMNLP-IJCNLP 2019, on words of the SemEval tasks of
semantic textual similarity, 12 blocks each; layer 0 is the input to the first. These are the statistics by layer
in the paper's repository (kawine/contextual, embedding_space_stats.json). Its README calls them close to the
paper's charts, not equal to them. Self-similarity and explained variance are given there by word and are not
copied here, only their baselines: the mean cosine of random words, and the share of their variance along the first
singular direction of 1,000 of them, computed without centring. That is approximately the direction of their mean.
It is not the SVD anisotropy, and often far below it.
"""

from __future__ import annotations

import pandas as pd

CITED = "Ethayarajh (2019)"
COLUMNS = ("intra_similarity", "cosine_baseline", "mev_baseline")
FIGURES: dict[str, tuple[tuple[float, float, float], ...]] = {
    "BERT": (
        (0.435, 0.105, 0.039),
        (0.522, 0.168, 0.025),
        (0.570, 0.219, 0.017),
        (0.590, 0.245, 0.012),
        (0.642, 0.327, 0.014),
        (0.695, 0.377, 0.012),
        (0.726, 0.420, 0.012),
        (0.711, 0.398, 0.010),
        (0.720, 0.399, 0.012),
        (0.771, 0.484, 0.015),
        (0.820, 0.561, 0.022),
        (0.870, 0.675, 0.040),
        (0.776, 0.477, 0.009),
    ),
    "GPT-2": (
        (0.808, 0.611, 0.062),
        (0.825, 0.644, 0.298),
        (0.583, 0.597, 0.969),
        (0.549, 0.614, 0.998),
        (0.537, 0.587, 0.998),
        (0.559, 0.573, 0.997),
        (0.586, 0.578, 0.997),
        (0.614, 0.582, 0.996),
        (0.635, 0.595, 0.995),
        (0.658, 0.617, 0.994),
        (0.693, 0.667, 0.992),
        (0.768, 0.758, 0.985),
        (0.990, 0.978, 0.829),
    ),
}
"""By layer: intra-sentence similarity; mean cosine of random words; variance explained of random words."""


def published_figures() -> pd.DataFrame:
    """Return the figures, one row per model and layer, with the adjusted intra-sentence similarity.

    >>> published_figures().query("survey == 'BERT' and layer == 12")["intra_similarity_adjusted"].round(3).item()
    0.299
    """
    rows = [(model, layer, *row) for model, layers in FIGURES.items() for layer, row in enumerate(layers)]
    table = pd.DataFrame(rows, columns=["survey", "layer", *COLUMNS])
    table.insert(2, "depth", table["layer"] / table.groupby("survey")["layer"].transform("max"))
    return table.assign(intra_similarity_adjusted=table["intra_similarity"] - table["cosine_baseline"])
