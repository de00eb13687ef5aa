"""Shares that the layer table has the parts of: M, V_B and V_W as parts of Q, and V_W of V."""

from __future__ import annotations

import numpy as np
import pandas as pd

SHARES = {
    "m_of_q": ("m", "q"),
    "v_between_of_q": ("v_between", "q"),
    "v_within_of_q": ("v_within", "q"),
    "v_within_of_v": ("v_within", "v"),
}

BOUNDED = {
    *SHARES, "mean_cosine", "anisotropy_svd", "iso_score", "partition_isotropy", "rogue_cosine_share",
    "rogue_variance_share", "tradeoff_r2", "self_similarity", "intra_similarity", "mev",
}  # fmt: skip
"""Columns that lie between 0 and 1: a logarithmic axis would make most of what is next to nothing."""

LIMITS = dict.fromkeys(BOUNDED - {"rogue_cosine_share"}, (0.0, 1.0)) | dict.fromkeys(
    ("mean_cosine", "self_similarity", "intra_similarity"), (-1.0, 1.0)
)
"""Between which numbers a column lies by its definition; an interval does not reach beyond them."""


def with_shares(layers: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a column a share, undefined where what it is a share of is 0.

    >>> with_shares(pd.DataFrame({"m": [1.0, 0.0], "q": [4.0, 0.0]}))["m_of_q"].tolist()
    [0.25, nan]
    """
    made = {}
    for share, (part, whole) in SHARES.items():
        if {part, whole} <= set(layers.columns):
            above, below = (pd.to_numeric(layers[name], errors="coerce").astype(float) for name in (part, whole))
            made[share] = above / below.where(below > 0, np.nan)
    return layers.assign(**made)
