"""Clouds on a plane: principal components, t-SNE and UMAP, seeded."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError, TheodoliteError, nearest
from theodolite.measures.projection import principal

Array = NDArray[np.float64]
METHODS = ("pca", "tsne", "umap")


def check_methods(methods: str) -> list[str]:
    """Return the methods that "pca,tsne" names; "none" is none of them.

    >>> check_methods("pca, umap"), check_methods("none")
    (['pca', 'umap'], [])
    """
    wanted = [name.strip() for name in methods.split(",") if name.strip()]
    if wanted == ["none"]:
        return []
    for name in wanted:
        if name not in METHODS:
            raise InputError(
                f"--projections {name!r} is not one of {', '.join(METHODS)}, none.{nearest(name, list(METHODS))}"
            )
    if set(wanted) - {"pca"}:
        _installed(wanted)
    return wanted


def project(x: Array, method: str, *, seed: int = 0) -> tuple[Array, list[float]]:
    """Return x and y of every vector; for pca also the axes' shares of the variance. x: (n, dim) -> (n, 2)"""
    if method == "pca":
        found = principal(x, 2)
        return found.points, found.shares.tolist()
    centred = (x - x.mean(axis=0)).astype(np.float32)
    with warnings.catch_warnings():  # both advise on threads and on small n, which is settled here
        warnings.simplefilter("ignore")
        if method == "tsne":
            from sklearn.manifold import TSNE

            reach = min(30.0, (len(x) - 1) / 3)
            made = TSNE(2, perplexity=reach, init="pca", random_state=seed, n_jobs=1).fit_transform(centred)
        else:
            from umap import UMAP

            near = min(15, len(x) - 1)
            made = UMAP(n_neighbors=near, random_state=seed, n_jobs=1).fit_transform(centred)
    return np.asarray(made, dtype=np.float64), []


def _installed(wanted: list[str]) -> None:
    from importlib.util import find_spec

    for method, module in (("tsne", "sklearn"), ("umap", "umap")):
        if method in wanted and find_spec(module) is None:
            raise TheodoliteError(
                f"--projections {method} needs a library that is not installed: "
                "pip install 'theodolite[laboratories]', or --projections pca."
            )
