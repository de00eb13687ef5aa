"""The Hopf link: two linked circles, which no flat picture shows as they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from theodolite.measures.linking import linking_number
from theodolite.measures.projection import principal
from theodolite.studies.flattening import tsne, umap

Array = NDArray[np.float64]
POINTS = 200
RADIUS = 0.9
PERPLEXITIES, NEIGHBOURS = (5, 30, 100), (5, 15, 100)


def hopf_link(points: int = POINTS, radius: float = RADIUS) -> Array:
    """Return two linked circles: the unit circle in the plane of x, y, and one about (1, 0, 0) in that of x, z.

    Equal radii would leave the second principal direction undefined: with r the second radius the variances along
    x, y and z are (1 + r^2)/4 + 1/4, 1/4 and r^2/4. (2 points, 3)
    """
    angle = 2 * np.pi * np.arange(points) / points
    cos, sin, zero = np.cos(angle), np.sin(angle), np.zeros(points)
    first = np.stack([cos, sin, zero], axis=1)
    second = np.stack([1 + radius * cos, zero, radius * sin], axis=1)
    return np.concatenate([first, second])


def hopf_variances(radius: float = RADIUS) -> Array:
    """Return the variances along the principal directions, largest first, in closed form.

    >>> hopf_variances(1.0).tolist()
    [0.75, 0.25, 0.25]
    """
    return np.sort([(1 + radius**2) / 4 + 1 / 4, 1 / 4, radius**2 / 4])[::-1]


def hopf_tables(seed: int = 0, points: int = POINTS) -> dict[str, pd.DataFrame]:
    """Return hopf (the points and every projection) and hopf_facts (what became of the link in each)."""
    link = hopf_link(points)
    label = np.repeat(["first circle", "second circle"], points)
    found = principal(link, 2)
    flat = {("PCA", 0): found.points}
    flat |= {("t-SNE", each): tsne(link, seed, perplexity=each) for each in PERPLEXITIES}
    flat |= {("UMAP", each): umap(link, seed, neighbours=each) for each in NEIGHBOURS}
    frames = [_frame("space", 0, label, link)]
    frames += [_frame(method, setting, label, xy) for (method, setting), xy in flat.items()]
    facts = [_facts("space", 0, link, points) | {"linking_number": linking_number(link[:points], link[points:])}]
    facts += [_facts(method, setting, xy, points) for (method, setting), xy in flat.items()]
    shares = pd.DataFrame(
        {
            "component": [1, 2, 3],
            "share": principal(link, 3).shares,
            "exact": hopf_variances() / hopf_variances().sum(),
        }
    )
    told = pd.DataFrame(facts).assign(seed=seed, n=2 * points)
    return {"hopf": pd.concat(frames, ignore_index=True), "hopf_facts": told, "hopf_shares": shares}


def _frame(method: str, setting: int, label: NDArray[np.str_], points: Array) -> pd.DataFrame:
    z = points[:, 2] if points.shape[1] > 2 else np.nan
    return pd.DataFrame(
        {"method": method, "setting": setting, "circle": label, "x": points[:, 0], "y": points[:, 1], "z": z}
    )


def _facts(method: str, setting: int, points: Array, half: int) -> dict[str, object]:
    """Return how near the circles come over how wide each is, and how far each is from round.

    Roundness: the least distance of a point from its circle's mean over the largest; 1 if round, 0 on a segment.
    """
    circles = points[:half], points[half:]
    widths = [float(np.linalg.norm(circle - circle.mean(axis=0), axis=1).max()) for circle in circles]
    round_ = [
        float((far := np.linalg.norm(circle - circle.mean(axis=0), axis=1)).min() / far.max())
        for circle in circles
    ]
    gap = float(cdist(*circles).min() / np.mean(widths))
    row = {"method": method, "setting": setting, "gap": gap, "linking_number": np.nan}
    return row | {"roundness_1": round_[0], "roundness_2": round_[1]}
