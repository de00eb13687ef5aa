"""One probe on one set of vectors: cross-validated on the classes and on shuffled labels, then shown words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.probing import fold_interval, selectivity
from theodolite.studies.probe.classifiers import Vectors, fit
from theodolite.studies.probe.folds import folds

Labels = NDArray[np.int64]
CLASSES, CONTROL = "classes", "control"


class Split(NamedTuple):
    """The labels of all words, and which of them are trained on and tested."""

    labels: Labels
    train: Labels
    test: Labels


@dataclass(frozen=True, eq=False)
class Scored:
    """What came of one task: by fold, the accuracy, that on the training words, and the shown words' classes."""

    accuracy: list[float]
    trained: list[float]
    tested: int
    of: int
    unconverged: int
    confusion: NDArray[np.int64]  # (classes, classes): true class, predicted class
    confidence: NDArray[np.float64]  # (folds, shown, classes)


def cross_validated(probe: str, x: Vectors, splits: Sequence[Split], shown: Vectors, *, seed: int) -> Scored:
    """Train without each fold in turn and try the probe on it. x: (words, dim), shown: (shown, dim)"""
    classes = int(splits[0].labels.max()) + 1
    confusion = np.zeros((classes, classes), dtype=np.int64)
    accuracy, trained, confidence, unconverged = [], [], [], 0
    sizes = []
    for labels, train, test in splits:
        fitted = fit(probe, x[train], labels[train], seed)
        said = fitted.predicted(x[test])
        np.add.at(confusion, (labels[test], said), 1)
        accuracy.append(float((said == labels[test]).mean()))
        trained.append(float((fitted.predicted(x[train]) == labels[train]).mean()))
        confidence.append(fitted.confidence(shown) if len(shown) else np.empty((0, classes)))
        unconverged += not fitted.converged
        sizes.append((len(test), len(train)))
    tested, of = np.mean(sizes, axis=0)
    return Scored(accuracy, trained, int(tested), int(of), unconverged, confusion, np.stack(confidence))


def real_splits(labels: Labels, count: int, seed: int) -> list[Split]:
    """Return the folds of the classes as they are."""
    return [Split(labels, train, test) for train, test in folds(labels, count, np.random.default_rng(seed))]


def control_splits(labels: Labels, count: int, seed: int) -> list[Split]:
    """Return the folds of the control task: in each, the same labels are dealt out to the words afresh.

    One shuffle for all folds would be one draw: where words lie in clusters, its scores go up and down together,
    and below chance, since what is held out of a cluster is what is missing there in training.
    """
    found = []
    for number in range(count):
        rng = np.random.default_rng([seed, 1 + number])
        dealt = rng.permutation(labels)
        train, test = list(folds(dealt, count, rng))[number]
        found.append(Split(dealt, train, test))
    return found


def summary(real: Scored, control: Scored, classes: int) -> dict[str, Any]:
    """Return a probe's row: accuracy, control and selectivity with intervals, and what guessing gives."""
    sizes = (real.tested, real.of)
    row: dict[str, Any] = {}
    for name, found in (
        ("accuracy", fold_interval(real.accuracy, *sizes)),
        ("control", fold_interval(control.accuracy, *sizes)),
        ("selectivity", selectivity(real.accuracy, control.accuracy, *sizes)),
    ):
        row |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
    row["baseline"] = 1 / classes  # test sets are balanced: the majority's class is any class
    row |= {"fit": float(np.mean(real.trained)), "control_fit": float(np.mean(control.trained))}
    return row | {"unconverged": real.unconverged + control.unconverged}


def fold_rows(task: str, scored: Scored) -> list[dict[str, Any]]:
    """Return a row a fold."""
    return [
        {"task": task, "fold": number, "accuracy": accuracy, "fit": trained}
        for number, (accuracy, trained) in enumerate(zip(scored.accuracy, scored.trained, strict=True))
    ]


def confusion_rows(scored: Scored, classes: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for every true and predicted class, over all folds."""
    return [
        {"label": true, "predicted": said, "words": int(scored.confusion[i, j])}
        for i, true in enumerate(classes)
        for j, said in enumerate(classes)
    ]
