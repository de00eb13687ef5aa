"""Sign flips, cosines of mean differences and Holm, against the definitions written out."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import kstest

from theodolite.measures.laboratories.contrast import (
    MOST_EXACT,
    NO_DIRECTION,
    ONE_CLUSTER,
    ONE_PAIR,
    Grams,
    association,
    bootstrap_interval,
    corrected_cosine,
    cosine_of_means,
    cosine_p,
    direction_p,
    list_flips,
    list_halves,
)
from theodolite.measures.uncertainty import holm

RNG = np.random.default_rng(7)
DIM = 24
CLOSE = 1e-12  # sums of a few dozen products in float64


def grams(a: np.ndarray, b: np.ndarray) -> Grams:
    return Grams(a @ a.T, a @ b.T, b @ b.T)


def every_flip(n: int) -> np.ndarray:
    return np.array(list(product((1.0, -1.0), repeat=n)))


def naive_direction_p(d: np.ndarray) -> float:
    lengths = [np.linalg.norm((signs[:, None] * d).mean(axis=0)) for signs in every_flip(len(d))]
    return float(np.mean(np.array(lengths) >= lengths[0] - 1e-9))


def naive_along(d: np.ndarray, other: np.ndarray) -> float:
    sizes = [abs((signs[:, None] * d).mean(axis=0) @ other.mean(axis=0)) for signs in every_flip(len(d))]
    return float(np.mean(np.array(sizes) >= sizes[0] - 1e-9))


@pytest.mark.parametrize(("n", "m"), [(2, 5), (6, 7), (8, 8)])
def test_p_is_the_share_of_all_flips(n: int, m: int) -> None:
    a, b = RNG.normal(0.3, 1, (n, DIM)), RNG.normal(0.3, 1, (m, DIM))
    assert direction_p(a @ a.T, list_flips(n)) == pytest.approx(naive_direction_p(a), abs=CLOSE)
    expected = max(naive_along(a, b), naive_along(b, a))
    assert cosine_p(a @ b.T, list_flips(n), list_flips(m)) == pytest.approx(expected, abs=CLOSE)


def test_a_rogue_coordinate_does_not_break_ties() -> None:
    d = RNG.normal(size=(6, DIM))
    d[:, 3] = 3000.0  # every pair alike there: nothing can be more extreme
    assert direction_p(d @ d.T, list_flips(6)) == list_flips(6).smallest_p == 2.0**-5


def test_the_smallest_p_is_what_the_pairs_allow() -> None:
    assert [list_flips(n).smallest_p for n in (1, 2, 10)] == [1.0, 0.5, 2.0**-9]
    many = list_flips(40, seed=3)
    assert not many.exact
    assert many.smallest_p == pytest.approx(1e-4)
    assert len(list_flips(15).signs) == MOST_EXACT
    equal = np.ones((40, 40))
    assert direction_p(equal, many) == many.smallest_p  # never 0, though no drawn flip did as well
    assert np.array_equal(list_flips(40, seed=3).signs, many.signs)


def test_nothing_to_flip_is_undefined() -> None:
    assert np.isnan(direction_p(np.empty((0, 0)), list_flips(0)))
    assert np.isnan(cosine_p(np.empty((0, 3)), list_flips(0), list_flips(3)))
    assert np.isnan(direction_p(np.ones((1, 1)), list_flips(1)))  # one pair by itself has no p
    assert np.isnan(cosine_p(np.ones((1, 3)), list_flips(1), list_flips(3)))


def test_p_is_uniform_under_the_null_and_small_for_a_planted_effect() -> None:
    """Class a has no direction, b has one: p of their cosine must be uniform, whatever b does."""
    ways, null, planted = list_flips(10), [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        b = rng.normal(size=(10, DIM)) + 2.0
        a = rng.normal(size=(10, DIM))
        null.append(naive_p_of_a(a, b, ways))
        planted.append(cosine_p((a + 0.7) @ b.T, ways, ways))
    assert kstest(null, "uniform").pvalue > 0.01
    assert np.mean(np.array(null) <= 0.05) < 0.1  # 0.05, and 3 standard errors of 200
    assert np.median(planted) < 0.01


def naive_p_of_a(a: np.ndarray, b: np.ndarray, ways: object) -> float:
    """The p of class a by itself: b is treated as without scatter, so that only a is tested."""
    steady = np.repeat(b.mean(axis=0, keepdims=True), 10, axis=0)
    return cosine_p(a @ steady.T, ways, ways)  # type: ignore[arg-type]


def test_flipping_the_cosine_itself_would_never_be_significant() -> None:
    """The tempting statistic: classes that hardly vary keep their direction under flips, so its p is near 1."""
    shared = RNG.normal(size=DIM)
    a = shared + 1e-3 * RNG.normal(size=(8, DIM))
    b = shared + 1e-3 * RNG.normal(size=(8, DIM))
    middle = b.mean(axis=0)
    means = np.array([(signs[:, None] * a).mean(axis=0) for signs in every_flip(8)])
    cosines = np.abs(means @ middle) / np.linalg.norm(means, axis=1) / np.linalg.norm(middle)
    assert np.mean(cosines >= cosines[0] - 1e-3) > 0.5
    assert cosine_p(a @ b.T, list_flips(8), list_flips(8)) == list_flips(8).smallest_p


def test_the_cosine_is_that_of_the_means() -> None:
    a, b = RNG.normal(1, 1, (9, DIM)), RNG.normal(0.5, 1, (4, DIM))
    x, y = a.mean(axis=0), b.mean(axis=0)
    expected = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    assert cosine_of_means(grams(a, b)) == pytest.approx(expected, abs=CLOSE)
    assert np.isnan(cosine_of_means(grams(a, np.zeros((3, DIM)))))
    back_and_forth = np.vstack([a, -a])
    assert np.isnan(cosine_of_means(grams(back_and_forth, b)))  # a mean of 0 but for rounding


def test_the_corrected_cosine_is_free_of_scatter_and_the_plain_one_is_not() -> None:
    plain, corrected = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(8, DIM)), rng.normal(size=(8, DIM))
        a[:, 0] += 6.0
        b[:, :2] += np.array([6 * 0.6, 6 * 0.8])  # the true cosine is 0.6
        plain.append(cosine_of_means(grams(a, b)))
        corrected.append(corrected_cosine(grams(a, b)))
    assert np.mean(corrected) == pytest.approx(0.6, abs=0.01)  # its own bias, of second order, and noise
    assert np.mean(plain) < 0.57
    one = np.ones((1, DIM))
    assert np.isnan(corrected_cosine(grams(one, one)))


def test_the_interval_holds_what_it_promises() -> None:
    """Over seeds, 95% intervals contain the mean cosine of such classes in about 95% of cases."""
    found, ends = [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(10, DIM)), rng.normal(size=(10, DIM))
        a[:, 0] += 3.0
        b[:, :2] += 2.0
        found.append(cosine_of_means(grams(a, b)))
        ends.append(bootstrap_interval(grams(a, b), seed=seed, resamples=300)[:2])
    low, high = np.array(ends).T
    held = np.mean((low <= np.mean(found)) & (np.mean(found) <= high))
    assert 0.9 <= held <= 1.0


def test_an_undefined_interval_is_nan_with_a_reason() -> None:
    one, two = np.ones((1, DIM)), RNG.normal(size=(2, DIM))
    assert bootstrap_interval(grams(one, two))[2] == ONE_PAIR
    assert bootstrap_interval(grams(two, 0 * two))[2] == NO_DIRECTION
    low, high, why = bootstrap_interval(grams(np.ones((4, DIM)), np.ones((4, DIM))))
    assert why is None
    assert low == pytest.approx(1)
    assert high == pytest.approx(1)


def test_holm_by_hand() -> None:
    given = [0.04, 0.001, float("nan"), 0.02, 0.9]
    # sorted: 0.001 x 4, 0.02 x 3, 0.04 x 2, 0.9 x 1
    assert np.allclose(holm(given), [0.08, 0.004, np.nan, 0.06, 0.9], equal_nan=True)
    assert len(holm([])) == 0
    assert holm([0.6, 0.6]).tolist() == [1.0, 1.0]


def test_intervals_by_cluster_are_wider_where_pairs_of_a_cluster_agree() -> None:
    """Twelve pairs of three words: by pair, the interval would treat them as twelve independent words."""
    rng = np.random.default_rng(0)
    word = np.repeat(np.arange(3), 4)
    covered = {"pair": 0, "word": 0}
    for _ in range(60):
        shared = rng.normal(size=DIM)  # both classes share a direction of half their length
        sides = [shared + rng.normal(0, 1.5, (3, DIM))[word] + rng.normal(0, 0.1, (12, DIM)) for _ in range(2)]
        true = float(shared @ shared / (shared @ shared + 0.75 * DIM))  # of means over three words, in expectation
        by_pair = bootstrap_interval(grams(*sides))
        by_word = bootstrap_interval(grams(*sides), (word.tolist(), word.tolist()))
        assert by_word[1] - by_word[0] > 1.5 * (by_pair[1] - by_pair[0])
        covered["pair"] += by_pair[0] <= true <= by_pair[1]
        covered["word"] += by_word[0] <= true <= by_word[1]
    assert covered["word"] >= 54 > covered["pair"]
    one = ["same"] * 12
    assert bootstrap_interval(grams(*sides), (one, one))[2] == ONE_CLUSTER


def naive_scores(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> list[float]:
    def cosine(u: np.ndarray, v: np.ndarray) -> float:
        return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))

    return [float(np.mean([cosine(w, v) for v in a]) - np.mean([cosine(w, v) for v in b])) for w in x]


def test_the_association_is_that_of_weat() -> None:
    x, y, a, b = (RNG.normal(0.2 * place, 1, (4, DIM)) for place in range(4))
    found = association(x, y, a, b)
    one, other = naive_scores(x, a, b), naive_scores(y, a, b)
    assert found.effect == pytest.approx((np.mean(one) - np.mean(other)) / np.std(one + other, ddof=1), rel=1e-9)
    scores, gaps = np.array(one + other), []
    for half in combinations(range(8), 4):
        rest = [at for at in range(8) if at not in half]
        gaps.append(abs(scores[list(half)].mean() - scores[rest].mean()))
    assert found.p == pytest.approx(np.mean(np.array(gaps) >= gaps[0] - 1e-12))
    assert np.isnan(association(x[:1], y[:1], a, b).effect)
    assert np.isnan(association(x, y, a, a).p)  # all scores are 0
    assert len(list_halves(10)) == 10_000


def test_the_p_of_the_association_is_uniform_without_one() -> None:
    rng = np.random.default_rng(3)
    found = [association(*rng.normal(size=(4, 8, DIM))).p for _ in range(200)]
    assert kstest(found, "uniform").pvalue > 0.01
