"""Projections of vectors to two dimensions: PCA, t-SNE and UMAP with fixed seeds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError, TheodoliteError, nearest
from theodolite.measures.projection import principal_components

Array = NDArray[np.float64]
METHODS = ("pca", "tsne", "umap")
FEWEST = 4
"""Points that t-SNE and UMAP require."""
PERPLEXITY, NEIGHBOURS, MIN_DISTANCE = 30, 15, 0.1


def embed_tsne(points: Array, seed: int = 0, *, perplexity: int = PERPLEXITY) -> Array:
    """Embed points in two dimensions by t-SNE, initialised with their principal components. (n, dim) -> (n, 2)

    Results are identical between runs on one machine. The perplexity is at most (n - 1) / 3.
    """
    _check(points)
    manifold = _import("sklearn.manifold", "t-SNE")
    method = manifold.TSNE(
        perplexity=min(float(perplexity), (len(points) - 1) / 3), init="pca", random_state=seed, n_jobs=1
    )
    return _fit(method.fit_transform, points)


def embed_umap(points: Array, seed: int = 0, *, neighbours: int = NEIGHBOURS) -> Array:
    """Embed points in two dimensions by UMAP. (n, dim) -> (n, 2)

    Results are identical between runs on one machine. The number of neighbours is at most n - 1.
    """
    _check(points)
    method = _import("umap", "UMAP").UMAP(
        n_neighbors=min(neighbours, len(points) - 1), min_dist=MIN_DISTANCE, random_state=seed, n_jobs=1
    )
    return _fit(method.fit_transform, points)


EMBEDDINGS: dict[str, Callable[..., Array]] = {"t-SNE": embed_tsne, "UMAP": embed_umap}


def parse_methods(methods: str) -> list[str]:
    """Return the methods in a string such as "pca,tsne"; an empty list for "none".

    >>> parse_methods("pca, umap"), parse_methods("none")
    (['pca', 'umap'], [])
    """
    names = [name.strip() for name in methods.split(",") if name.strip()]
    if names == ["none"]:
        return []
    for name in names:
        if name not in METHODS:
            raise InputError(
                f"--projections {name!r} is not one of {', '.join(METHODS)}, none.{nearest(name, list(METHODS))}"
            )
        check_installed(name, "--projections")
    return names


def check_installed(method: str, option: str) -> None:
    """Raise if the library that a method requires is not installed; `option` is the flag that chose the method."""
    from importlib.util import find_spec

    module = {"tsne": "sklearn", "umap": "umap"}.get(method)
    if module is not None and find_spec(module) is None:
        raise TheodoliteError(
            f"{option} {method} requires a library that is not installed. Run pip install "
            f"'theodolite[laboratories]', or use {option} pca."
        )


def project_2d(x: Array, method: str, *, seed: int = 0) -> tuple[Array, list[float]]:
    """Return the coordinates of vectors by a method; for pca also the axes' shares of the variance.

    x: (n, dim) -> (n, 2)
    """
    if method == "pca":
        projection = principal_components(x, 2)
        return projection.points, projection.shares.tolist()
    embed = embed_tsne if method == "tsne" else embed_umap
    return embed(x - x.mean(axis=0), seed), []


def _fit(fit_transform: Callable[[Any], Any], points: Array) -> Array:
    import torch

    threads = torch.get_num_threads()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # both libraries warn about threads and small or disconnected data
            return np.asarray(fit_transform(np.ascontiguousarray(points, dtype=np.float32)), dtype=np.float64)
    finally:
        torch.set_num_threads(threads)  # UMAP's compiler numba sets it to the number of cores


def _check(points: Array) -> None:
    if len(points) < FEWEST or not np.isfinite(points).all():
        raise TheodoliteError(
            f"t-SNE and UMAP require at least {FEWEST} points, all of them finite (got {len(points)} points)."
        )


def _import(module: str, name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise TheodoliteError(f"{name} requires {error.name}: pip install 'theodolite[laboratories]'.") from error
