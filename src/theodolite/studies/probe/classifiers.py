"""The three probes of the thesis: no hidden layer, one hidden layer, boosted trees."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import TheodoliteError

Vectors = NDArray[np.float64]
HIDDEN = 64  # units of the hidden layer
ROUNDS = 100  # of boosting, each a tree a class


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained probe."""

    pipeline: Any
    converged: bool

    def predicted(self, x: Vectors) -> NDArray[np.int64]:
        """Return the class of every row. (words, dim) -> (words,)"""
        return np.asarray(self.pipeline.predict(x), dtype=np.int64)

    def confidence(self, x: Vectors) -> Vectors:
        """Return the probability of every class for every row. (words, dim) -> (words, classes)"""
        return np.asarray(self.pipeline.predict_proba(x), dtype=np.float64)


def fit(probe: str, x: Vectors, labels: NDArray[np.int64], seed: int) -> Fitted:
    """Train a probe; mean and spread that standardise the features are those of these words alone."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), PROBES[probe](seed))
    with warnings.catch_warnings(record=True) as caught, one_thread():
        warnings.simplefilter("always")
        pipeline.fit(x, labels)
    early = [each for each in caught if issubclass(each.category, ConvergenceWarning)]
    for other in (each for each in caught if each not in early):
        warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return Fitted(pipeline, not early)


def _no_hidden_layer(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)  # multinomial, with scikit-learn's own penalty; nothing is drawn


def _one_hidden_layer(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((HIDDEN,), max_iter=500, random_state=seed)


def _boosted_trees(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Lists are short and vectors long: small leaves, coarse bins, and a tenth of the coordinates for each split;
    # on planted classes six times as fast as all of them, and right more often. No words are set aside to stop by.
    return HistGradientBoostingClassifier(
        max_iter=ROUNDS,
        min_samples_leaf=5,
        max_bins=32,
        max_features=0.1,
        early_stopping=False,
        random_state=seed,
    )


PROBES: dict[str, Callable[[int], Any]] = {
    "no hidden layer": _no_hidden_layer,
    "one hidden layer": _one_hidden_layer,
    "boosted trees": _boosted_trees,
}


@contextmanager
def one_thread() -> Iterator[None]:
    """Fit in one thread: fits are small, and sums in another order would end in another probe."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        yield


def needs_sklearn() -> None:
    """Refuse to start without scikit-learn."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise TheodoliteError(
            "theodolite probe needs scikit-learn; `pip install 'theodolite[laboratories]'` brings it."
        ) from None
