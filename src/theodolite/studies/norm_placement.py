"""Appendix H: what a block does in turn, by where its norms stand."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from theodolite.studies.surveyed import Surveyed, labels

LABELS = {
    "post": "Post-LN",
    "pre": "Pre-LN",
    "sandwich": "Sandwich-LN",
    "parallel": "Parallel, Pre-LN",
    "branch": "LN in the branch",
    "none": "no LN",
}
STEPS = {
    "post": "ATTN, RES, LN, FF, RES, LN",
    "pre": "(LN, ATTN), RES, (LN, FF), RES",
    "sandwich": "(LN, ATTN, LN), RES, (LN, FF, LN), RES",
    "parallel": "(LN, ATTN | FF), RES",
    "branch": "(ATTN, LN), RES, (FF, LN), RES",
    "none": "ATTN, RES, FF, RES",
}
"""In brackets: what stands in a branch beside the stream. RES adds a branch to the stream."""


def placements(surveys: Sequence[Surveyed]) -> pd.DataFrame:
    """Return a row per survey: the model's class, where its norms stand, what kind they are, a block's steps.

    The placement was read from the running model when it was surveyed; it is null where it could not be told.
    """
    rows = []
    for survey, name in zip(surveys, labels(surveys), strict=True):
        model = survey.facts["model"]
        word = model["norm_placement"]
        kinds = sorted(set(survey.tables["layer_norms"]["kind"]))
        rows.append(
            {
                "survey": name,
                "architecture": str(model.get("architecture", "")),
                "placement": word,
                "label": LABELS.get(word, "cannot be told"),
                "norm": ", ".join(kinds) or None,
                "steps": STEPS.get(word, ""),
            }
        )
    return pd.DataFrame(rows)
