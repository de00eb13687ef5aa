"""Flattening: t-SNE and UMAP with everything that they draw by lot fixed, so that a picture can be made again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import TheodoliteError

Array = NDArray[np.float64]
FEWEST = 8
"""Points below which neither method has neighbours to speak of."""
PERPLEXITY, NEIGHBOURS, APART = 30, 15, 0.1


def tsne(points: Array, seed: int = 0, *, perplexity: int = PERPLEXITY) -> Array:
    """Return points in the plane by t-SNE, begun from their principal components. (n, dim) -> (n, 2)

    The same bit for bit on one machine. A perplexity that n cannot have is lowered to (n - 1) / 3.
    """
    _check(points)
    manifold = _import("sklearn.manifold", "t-SNE")
    method = manifold.TSNE(
        perplexity=min(float(perplexity), (len(points) - 1) / 3), init="pca", random_state=seed, n_jobs=1
    )
    return _flat(method.fit_transform, points)


def umap(points: Array, seed: int = 0, *, neighbours: int = NEIGHBOURS, apart: float = APART) -> Array:
    """Return points in the plane by UMAP. (n, dim) -> (n, 2)

    The same bit for bit on one machine. A neighbourhood larger than all others is lowered to n - 1.
    """
    _check(points)
    method = _import("umap", "UMAP").UMAP(
        n_neighbors=min(neighbours, len(points) - 1), min_dist=apart, random_state=seed, n_jobs=1
    )
    return _flat(method.fit_transform, points)


METHODS: dict[str, Callable[..., Array]] = {"t-SNE": tsne, "UMAP": umap}


def _flat(fit: Callable[[Any], Any], points: Array) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on speed and on graphs in several pieces, which a picture shows
        return np.asarray(fit(np.ascontiguousarray(points, dtype=np.float32)), dtype=np.float64)


def _check(points: Array) -> None:
    if len(points) < FEWEST or not np.isfinite(points).all():
        raise TheodoliteError(f"t-SNE and UMAP want at least {FEWEST} finite points; {len(points)} came.")


def _import(module: str, name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise TheodoliteError(f"{name} needs {error.name}: pip install 'theodolite[laboratories]'.") from error
