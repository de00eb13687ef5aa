"""Three cubes of 7, 8 and 9 dimensions in 10: each is plain from its own PCA, none from that of all together."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.spectrum import eigenvalues, shares

Array = NDArray[np.float64]
DIM, POINTS = 10, 2000
SIDES = {"7-cube, shifted": 7, "8-cube, rotated": 8, "9-cube": 9}
SHIFT = 2.0
ALL = "all three"


def cubes(seed: int = 0, points: int = POINTS) -> dict[str, Array]:
    """Return points drawn evenly from the thesis' three cubes in ten dimensions, by name. (points, 10) each

    The first is moved by (2, ..., 2), the second turned at random, the third left as it is.
    """
    rng = np.random.default_rng(seed)
    drawn = {name: _cube(rng, sides, points) for name, sides in SIDES.items()}
    first, second, third = drawn.values()
    return dict(zip(SIDES, (first + SHIFT, second @ rotation(seed).T, third), strict=True))


def rotation(seed: int = 0) -> Array:
    """Return a rotation of ten dimensions, each as likely as any other. (10, 10)"""
    rng = np.random.default_rng([seed, 1])
    turned, scale = np.linalg.qr(rng.standard_normal((DIM, DIM)))
    turned = turned * np.sign(np.diag(scale))
    if np.linalg.det(turned) < 0:
        turned[:, 0] *= -1
    return np.asarray(turned)


def exact_spectra(seed: int = 0) -> dict[str, Array]:
    """Return the covariances' eigenvalues in closed form: a side of length 1 has variance 1/12.

    For all three: the mean of their covariances and the covariance of their means. (10,) each
    """
    covariances = [np.diag((np.arange(DIM) < sides) / 12) for sides in SIDES.values()]
    means = [np.where(np.arange(DIM) < sides, 0.5, 0.0) for sides in SIDES.values()]
    turn = rotation(seed)
    covariances[1], means[1], means[0] = turn @ covariances[1] @ turn.T, turn @ means[1], means[0] + SHIFT
    apart = np.stack(means) - np.mean(means, axis=0)
    together = np.mean(covariances, axis=0) + apart.T @ apart / len(means)
    return {name: eigenvalues(each) for name, each in zip((*SIDES, ALL), (*covariances, together), strict=True)}


def cube_tables(seed: int = 0, points: int = POINTS) -> dict[str, pd.DataFrame]:
    """Return cubes: for each and for all, the share of variance that k components hold, measured and exact."""
    drawn = cubes(seed, points)
    exact = exact_spectra(seed)
    frames = []
    for name, cloud in {**drawn, ALL: np.concatenate(list(drawn.values()))}.items():
        measured = shares(eigenvalues(np.cov(cloud.T, bias=True)))[1]
        frame = {"cube": name, "n": len(cloud), "components": np.arange(1, DIM + 1), "cumulative": measured}
        frames.append(pd.DataFrame({**frame, "exact": shares(exact[name])[1]}))
    return {"cubes": pd.concat(frames, ignore_index=True)}


def _cube(rng: np.random.Generator, sides: int, points: int) -> Array:
    cloud = np.zeros((points, DIM))
    cloud[:, :sides] = rng.random((points, sides))
    return cloud
