from __future__ import annotations

import numpy as np
import pytest

from theodolite.studies.probe.classifiers import make_control_splits, make_folds, make_splits


@pytest.mark.parametrize(("size", "count"), [(10, 5), (7, 3), (5, 5), (23, 4)])
def test_every_word_is_tested_once_and_every_test_set_is_balanced(size: int, count: int) -> None:
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(4), size))
    tested = []
    for train, test in make_folds(labels, count, np.random.default_rng(0)):
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(labels)
        assert len(set(np.bincount(labels[test], minlength=4))) == 1
        tested += list(test)
    assert sorted(tested) == list(range(len(labels)))


def test_control_labels_are_drawn_per_fold_and_reproducible() -> None:
    labels = np.repeat(np.arange(3), 50)
    splits, again = make_control_splits(labels, 5, 7), make_control_splits(labels, 5, 7)
    for one, two in zip(splits, again, strict=True):
        assert all((mine == theirs).all() for mine, theirs in zip(one, two, strict=True))
        assert np.bincount(one.labels).tolist() == [50, 50, 50]
        assert np.bincount(one.labels[one.test]).tolist() == [10, 10, 10]
        assert not set(one.train) & set(one.test)
        assert (one.labels == labels).mean() == pytest.approx(
            1 / 3, abs=0.15
        )  # 4 standard errors of a share of 150
    assert len({tuple(each.labels) for each in splits}) == 5


def test_the_classes_own_folds_keep_the_labels() -> None:
    labels = np.repeat(np.arange(3), 10)
    splits = make_splits(labels, 5, 0)
    assert all((each.labels == labels).all() for each in splits)
    assert sorted(np.concatenate([each.test for each in splits])) == list(range(30))
