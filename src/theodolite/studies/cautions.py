"""Shapes of known geometry and what projections show of them: the Hopf link, three cubes, sinusoidal encodings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.measures.laboratories.linking_number import linking_number
from theodolite.measures.laboratories.positions import sinusoidal, sinusoidal_as_printed
from theodolite.measures.projection import principal_components
from theodolite.measures.spectrum import eigenvalues, shares
from theodolite.studies.embeddings_2d import embed_tsne, embed_umap
from theodolite.studies.laboratory import Findings, check_laboratory_folder, make_facts

Array = NDArray[np.float64]
HOPF_POINTS = 200
HOPF_RADIUS = 0.9
PERPLEXITIES, NEIGHBOURS = (5, 30, 100), (5, 15, 100)
CUBE_DIM, CUBE_POINTS = 10, 2000
SIDES = {"7-cube, shifted": 7, "8-cube, rotated": 8, "9-cube": 9}
SHIFT = 2.0
ALL = "all three"
SINUSOID_POSITIONS, SINUSOID_DIM = 128, 512
LABORATORY = "cautions"


def cautions(
    *, out: str | Path | None = None, seed: int = 0, overwrite: bool = False, listener: Listener | None = None
) -> Findings:
    """Generate the Hopf link, the three cubes and the sinusoidal encodings, and project them. Requires no model.

    Tables: hopf, hopf_facts, hopf_shares, cubes, sinusoid, sinusoid_cosines.
    """
    if not 0 <= seed < 2**32:
        raise InputError(f"--seed must be between 0 and 2^32 - 1 (got {seed}).")
    check_laboratory_folder(out, LABORATORY, overwrite=overwrite)
    say = (listener or Listener()).say
    say("projecting the Hopf link by PCA, t-SNE and UMAP")
    tables = hopf_tables(seed)
    say("generating the cubes and the sinusoidal encodings")
    tables |= cube_tables(seed) | sinusoid_tables()
    return Findings(make_facts(LABORATORY, None, seed=seed), tables).save_if_asked(out, overwrite=overwrite)


def hopf_link(points: int = HOPF_POINTS, radius: float = HOPF_RADIUS) -> Array:
    """Return two linked circles: the unit circle in the x-y plane and one about (1, 0, 0) in the x-z plane.

    With radius r of the second circle the variances along x, y and z are (1 + r^2)/4 + 1/4, 1/4 and r^2/4. With
    r = 1 the second principal direction would be undefined. (2 points, 3)
    """
    angle = 2 * np.pi * np.arange(points) / points
    cos, sin, zero = np.cos(angle), np.sin(angle), np.zeros(points)
    first = np.stack([cos, sin, zero], axis=1)
    second = np.stack([1 + radius * cos, zero, radius * sin], axis=1)
    return np.concatenate([first, second])


def hopf_variances(radius: float = HOPF_RADIUS) -> Array:
    """Return the variances along the principal directions, largest first, in closed form.

    >>> hopf_variances(1.0).tolist()
    [0.75, 0.25, 0.25]
    """
    return np.sort([(1 + radius**2) / 4 + 1 / 4, 1 / 4, radius**2 / 4])[::-1]


def hopf_tables(seed: int = 0, points: int = HOPF_POINTS) -> dict[str, pd.DataFrame]:
    """Return hopf (the points and every projection), hopf_facts (each projection measured) and hopf_shares."""
    link = hopf_link(points)
    label = np.repeat(["first circle", "second circle"], points)
    flat = {("PCA", 0): principal_components(link, 2).points}
    flat |= {("t-SNE", value): embed_tsne(link, seed, perplexity=value) for value in PERPLEXITIES}
    flat |= {("UMAP", value): embed_umap(link, seed, neighbours=value) for value in NEIGHBOURS}
    frames = [_frame("space", 0, label, link)]
    frames += [_frame(method, setting, label, xy) for (method, setting), xy in flat.items()]
    facts = [_facts("space", 0, link, points) | {"linking_number": linking_number(link[:points], link[points:])}]
    facts += [_facts(method, setting, xy, points) for (method, setting), xy in flat.items()]
    shares = pd.DataFrame(
        {
            "component": [1, 2, 3],
            "share": principal_components(link, 3).shares,
            "exact": hopf_variances() / hopf_variances().sum(),
        }
    )
    fact_table = pd.DataFrame(facts).assign(seed=seed, n=2 * points)
    return {"hopf": pd.concat(frames, ignore_index=True), "hopf_facts": fact_table, "hopf_shares": shares}


def _frame(method: str, setting: int, label: NDArray[np.str_], points: Array) -> pd.DataFrame:
    z = points[:, 2] if points.shape[1] > 2 else np.nan
    return pd.DataFrame(
        {"method": method, "setting": setting, "circle": label, "x": points[:, 0], "y": points[:, 1], "z": z}
    )


def _facts(method: str, setting: int, points: Array, half: int) -> dict[str, object]:
    """Return the gap between the circles and the roundness of each.

    gap: the smallest distance between the circles over their mean radius. roundness: the smallest distance of a
    point from the mean of its circle over the largest; 1 for a circle, 0 for a line segment.
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


def cubes(seed: int = 0, points: int = CUBE_POINTS) -> dict[str, Array]:
    """Return uniform samples of the thesis' three cubes in ten dimensions, by name. (points, 10) each

    The cubes have 7, 8 and 9 dimensions. The first is shifted by (2, ..., 2), the second is rotated at random. The
    PCA of each shows its dimension; the PCA of all three together does not.
    """
    rng = np.random.default_rng(seed)
    first, second, third = (_cube(rng, sides, points) for sides in SIDES.values())
    return dict(zip(SIDES, (first + SHIFT, second @ rotation(seed).T, third), strict=True))


def rotation(seed: int = 0) -> Array:
    """Return a rotation of ten dimensions samples from the uniform distribution. (10, 10)"""
    rng = np.random.default_rng([seed, 1])
    matrix, triangle = np.linalg.qr(rng.standard_normal((CUBE_DIM, CUBE_DIM)))
    matrix = matrix * np.sign(np.diag(triangle))
    if np.linalg.det(matrix) < 0:
        matrix[:, 0] *= -1
    return np.asarray(matrix)


def exact_spectra(seed: int = 0) -> dict[str, Array]:
    """Return the eigenvalues of the covariances in closed form: a side of length 1 has variance 1/12.

    The covariance of all three is the mean of their covariances plus the covariance of their means. (10,) each
    """
    covariances = [np.diag((np.arange(CUBE_DIM) < sides) / 12) for sides in SIDES.values()]
    means = [np.where(np.arange(CUBE_DIM) < sides, 0.5, 0.0) for sides in SIDES.values()]
    matrix = rotation(seed)
    covariances[1], means[1], means[0] = matrix @ covariances[1] @ matrix.T, matrix @ means[1], means[0] + SHIFT
    deviations = np.stack(means) - np.mean(means, axis=0)
    joint = np.mean(covariances, axis=0) + deviations.T @ deviations / len(means)
    names, matrices = (*SIDES, ALL), (*covariances, joint)
    return {name: eigenvalues(covariance) for name, covariance in zip(names, matrices, strict=True)}


def cube_tables(seed: int = 0, points: int = CUBE_POINTS) -> dict[str, pd.DataFrame]:
    """Return the table cubes: the cumulative share of variance by component, measured and exact."""
    samples = cubes(seed, points)
    exact = exact_spectra(seed)
    frames = []
    for name, cloud in {**samples, ALL: np.concatenate(list(samples.values()))}.items():
        measured = shares(eigenvalues(np.cov(cloud.T, bias=True)))[1]
        frame = {"cube": name, "n": len(cloud), "components": np.arange(1, CUBE_DIM + 1), "cumulative": measured}
        frames.append(pd.DataFrame({**frame, "exact": shares(exact[name])[1]}))
    return {"cubes": pd.concat(frames, ignore_index=True)}


def _cube(rng: np.random.Generator, sides: int, points: int) -> Array:
    cloud = np.zeros((points, CUBE_DIM))
    cloud[:, :sides] = rng.random((points, sides))
    return cloud


def sinusoid_tables(positions: int = SINUSOID_POSITIONS, dim: int = SINUSOID_DIM) -> dict[str, pd.DataFrame]:
    """Return sinusoid (values) and sinusoid_cosines, with the exponents of Vaswani et al. and of the thesis."""
    encodings = {"": sinusoidal(positions, dim), "_2k": sinusoidal_as_printed(positions, dim)}
    position, coordinate = np.indices((positions, dim))
    values = {"position": position.ravel(), "coordinate": coordinate.ravel()}
    first, second = np.indices((positions, positions))
    cosines = {"position": first.ravel(), "other": second.ravel()}
    return {
        "sinusoid": pd.DataFrame(
            values | {f"value{name}": encoding.ravel() for name, encoding in encodings.items()}
        ),
        "sinusoid_cosines": pd.DataFrame(
            cosines | {f"cosine{name}": _cosines(encoding) for name, encoding in encodings.items()}
        ),
    }


def _cosines(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray((units @ units.T).ravel())
