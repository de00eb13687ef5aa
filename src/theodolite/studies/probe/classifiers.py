"""The three small classifiers of the thesis, and their cross-validation on the classes and on shuffled labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import TheodoliteError
from theodolite.measures.laboratories.probing import fold_interval, selectivity

Vectors = NDArray[np.float64]
HIDDEN_UNITS = 64  # of the hidden layer
BOOSTING_ROUNDS = 100  # one tree per class in each


@dataclass(frozen=True, eq=False)
class FittedProbe:
    """A trained probe."""

    pipeline: Any
    converged: bool

    def predict(self, x: Vectors) -> NDArray[np.int64]:
        """Return the class of every row. (words, dim) -> (words,)"""
        return np.asarray(self.pipeline.predict(x), dtype=np.int64)

    def confidence(self, x: Vectors) -> Vectors:
        """Return the probability of every class for every row. (words, dim) -> (words, classes)"""
        return np.asarray(self.pipeline.predict_proba(x), dtype=np.float64)


def fit_probe(probe: str, x: Vectors, labels: NDArray[np.int64], seed: int) -> FittedProbe:
    """Train a probe; features are standardised by the mean and standard deviation of these words only."""
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
    return FittedProbe(pipeline, not early)


def _no_hidden_layer(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)  # multinomial, default penalty; deterministic, so no seed


def _one_hidden_layer(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((HIDDEN_UNITS,), max_iter=500, random_state=seed)


def _boosted_trees(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Lists are short and vectors long: small leaves, coarse bins, and a tenth of the coordinates for each split.
    # On planted classes this is six times as fast as all coordinates, and more accurate. No early stopping.
    return HistGradientBoostingClassifier(
        max_iter=BOOSTING_ROUNDS,
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
    """Fit in one thread: fits are small, and another order of summation would give another probe."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        yield


def check_sklearn() -> None:
    """Raise if scikit-learn is not installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise TheodoliteError(
            "theodolite probe requires scikit-learn; run `pip install 'theodolite[laboratories]'`."
        ) from None


Index = NDArray[np.int64]


def make_folds(labels: Index, count: int, rng: np.random.Generator) -> Iterator[tuple[Index, Index]]:
    """Yield the training and test rows of each fold; every class is shuffled and split evenly over the folds.

    Classes of equal size give exactly balanced test sets, even if `count` does not divide it. labels: (words,)

    >>> [test.tolist() for _, test in make_folds(np.array([0, 0, 1, 1]), 2, np.random.default_rng(0))]
    [[0, 2], [1, 3]]
    """
    fold = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        fold[members] = np.arange(len(members)) % count
    for number in range(count):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


Labels = NDArray[np.int64]
CLASSES, CONTROL = "classes", "control"


class Split(NamedTuple):
    """The labels of all words, and the rows of the training and test words."""

    labels: Labels
    train: Labels
    test: Labels


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The result of one task: accuracy per fold, confusion matrix, and class probabilities of displayed words."""

    accuracy: list[float]  # on test words
    training_accuracy: list[float]
    test_size: int
    training_size: int
    unconverged: int
    confusion: NDArray[np.int64]  # (classes, classes): true class, predicted class
    confidence: NDArray[np.float64]  # (folds, shown, classes)


def cross_validate(
    probe: str, x: Vectors, splits: Sequence[Split], shown: Vectors, *, seed: int
) -> CrossValidation:
    """Train a probe without each fold in turn and test it on that fold. x: (words, dim), shown: (shown, dim)"""
    classes = int(splits[0].labels.max()) + 1
    confusion = np.zeros((classes, classes), dtype=np.int64)
    accuracy, training_accuracy, confidence, unconverged = [], [], [], 0
    sizes = []
    for labels, train, test in splits:
        fitted = fit_probe(probe, x[train], labels[train], seed)
        predicted = fitted.predict(x[test])
        np.add.at(confusion, (labels[test], predicted), 1)
        accuracy.append(float((predicted == labels[test]).mean()))
        training_accuracy.append(float((fitted.predict(x[train]) == labels[train]).mean()))
        confidence.append(fitted.confidence(shown) if len(shown) else np.empty((0, classes)))
        unconverged += not fitted.converged
        sizes.append((len(test), len(train)))
    test_size, training_size = (int(size) for size in np.mean(sizes, axis=0))
    return CrossValidation(
        accuracy, training_accuracy, test_size, training_size, unconverged, confusion, np.stack(confidence)
    )


def make_splits(labels: Labels, count: int, seed: int) -> list[Split]:
    """Return the folds with the true labels."""
    return [Split(labels, train, test) for train, test in make_folds(labels, count, np.random.default_rng(seed))]


def make_control_splits(labels: Labels, count: int, seed: int) -> list[Split]:
    """Return the folds of the control task: in each fold, the labels are shuffled again.

    With a single shuffle for all folds, the scores of clustered words would vary together, and fall below chance,
    since the labels held out of a cluster are those that are missing from it in training.
    """
    found = []
    for number in range(count):
        rng = np.random.default_rng([seed, 1 + number])
        shuffled = rng.permutation(labels)
        train, test = list(make_folds(shuffled, count, rng))[number]
        found.append(Split(shuffled, train, test))
    return found


def summarise(real: CrossValidation, control: CrossValidation, classes: int) -> dict[str, Any]:
    """Return the row of a probe: accuracy, control and selectivity with intervals, and the guessing baseline."""
    sizes = (real.test_size, real.training_size)
    row: dict[str, Any] = {}
    for name, found in (
        ("accuracy", fold_interval(real.accuracy, *sizes)),
        ("control", fold_interval(control.accuracy, *sizes)),
        ("selectivity", selectivity(real.accuracy, control.accuracy, *sizes)),
    ):
        row |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
    row["baseline"] = 1 / classes  # test sets are balanced, so there is no majority class
    row |= {
        "fit": float(np.mean(real.training_accuracy)),
        "control_fit": float(np.mean(control.training_accuracy)),
    }
    return row | {"unconverged": real.unconverged + control.unconverged}


def make_fold_rows(task: str, scored: CrossValidation) -> list[dict[str, Any]]:
    """Return one row per fold."""
    pairs = zip(scored.accuracy, scored.training_accuracy, strict=True)
    return [
        {"task": task, "fold": number, "accuracy": accuracy, "fit": training_accuracy}
        for number, (accuracy, training_accuracy) in enumerate(pairs)
    ]


def make_confusion_rows(scored: CrossValidation, classes: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row per true and predicted class, over all folds."""
    return [
        {"label": true, "predicted": predicted, "words": int(scored.confusion[i, j])}
        for i, true in enumerate(classes)
        for j, predicted in enumerate(classes)
    ]
