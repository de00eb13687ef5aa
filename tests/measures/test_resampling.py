"""The jackknife over groups of documents, against vectors that are all kept, and against other corpora."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from theodolite.batch import GROUPS
from theodolite.measures.resampling import (
    MIN_GROUPS,
    NUMBERS,
    SHARES,
    GroupSums,
    UnitGroupSums,
    delete_groups,
    group_error,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
EXACT = 1e-9
"""Relative: float64 sums, of which a twentieth is taken away."""
WITHIN = 1.5
"""A standard error must be within this factor of the spread over other corpora."""


@dataclass(frozen=True)
class Corpus:
    """Vectors with their units and the groups of their documents."""

    x: Array
    unit: Ints
    group: Ints

    def without(self, group: int) -> Corpus:
        kept = self.group != group
        return Corpus(self.x[kept], self.unit[kept], self.group[kept])

    def only(self, units: Ints) -> Corpus:
        kept = np.isin(self.unit, units)
        return Corpus(self.x[kept], self.unit[kept], self.group[kept])

    def numbers(self) -> dict[str, float]:
        """Q, M, V, V_W, V_B and their ratios by definition."""
        middle = self.x.mean(axis=0)
        codes, row = np.unique(self.unit, return_inverse=True)
        means = np.zeros((len(codes), self.x.shape[1]))
        np.add.at(means, row, self.x)
        means /= np.bincount(row)[:, None]
        q, m = np.square(self.x).sum(axis=1).mean(), np.square(middle).sum()
        v = np.square(self.x - middle).sum(axis=1).mean()
        within = np.square(self.x - means[row]).sum(axis=1).mean()
        between = np.square(means[row] - middle).sum(axis=1).mean()
        found = {"q": q, "m": m, "v": v, "v_within": within, "v_between": between}
        return found | {name: found[above] / found[below] for name, (above, below) in SHARES.items()}

    def estimates(self, *sets: Ints, frequent: int = 96, device: bool = False) -> Array:
        """Return what `delete_groups` makes of the sums of the corpus; sets are of codes."""
        codes, row = np.unique(self.unit, return_inverse=True)
        centre = np.median(self.x, axis=0)
        y = self.x - centre
        pair = row * GROUPS + self.group
        n = np.bincount(pair, minlength=len(codes) * GROUPS).reshape(len(codes), GROUPS)
        total = np.zeros((len(codes) * GROUPS, y.shape[1]))
        np.add.at(total, pair, y)
        total = total.reshape(len(codes), GROUPS, -1)
        squares = np.bincount(pair, np.square(y).sum(axis=1), minlength=n.size).reshape(n.shape)
        means = total.sum(axis=1) / n.sum(axis=1)[:, None]
        v = squares.sum(axis=1) / n.sum(axis=1) - np.square(means).sum(axis=1)
        held = n.sum(axis=0) > 0
        top = np.sort(np.argsort(-n.sum(axis=1), kind="stable")[:frequent])
        by_unit = total.sum(axis=1)
        masks = [np.isin(codes, units) for units in sets] or [np.ones(len(codes), dtype=bool)]
        return delete_groups(
            n.sum(axis=1),
            torch.from_numpy(by_unit) if device else by_unit,
            squares.sum(axis=1),
            v,
            centre,
            np.stack(masks),
            GroupSums(n.sum(axis=0)[held], total.sum(axis=0)[held], squares.sum(axis=0)[held]),
            UnitGroupSums(n[:, held], top, total[top][:, held], squares[top][:, held]),
        )

    def errors(self, **options: int) -> dict[str, float]:
        return dict(zip(NUMBERS, group_error(self.estimates(**options)[0]).tolist(), strict=True))


def speak(seed: int, documents: int = 200, words: int = 60, depth: float = 0.0) -> Corpus:
    """Return documents of Zipf units with topics: each prefers some units, and shifts and scales all vectors.

    `depth` makes another layer of the same documents, in which topics count more.
    """
    units, dim, topics = 3000, 24, 12
    world = np.random.default_rng(0)
    rank = 1 / np.arange(1, units + 1)
    means = world.normal(size=(units, dim)) * 1.5
    shift = world.normal(size=(topics, dim)) * (0.8 + depth)
    prefers = np.where(world.random((topics, units)) < 0.1, 6.0, 1.0) * rank
    prefers /= prefers.sum(axis=1, keepdims=True)
    rng, noise = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    x, unit, group = [], [], []
    for document in range(documents):
        topic = rng.integers(topics)
        count = int(rng.geometric(1 / words))
        drawn = rng.choice(units, size=count, p=prefers[topic])
        scale = np.exp(rng.normal() * 0.2)
        x.append((means[drawn] + noise.normal(size=(count, dim))) * scale + shift[topic])
        unit.append(drawn)
        group.append(np.full(count, document % GROUPS))
    return Corpus(np.concatenate(x) + 1.0, np.concatenate(unit), np.concatenate(group))


@pytest.fixture(scope="module")
def corpora() -> list[Corpus]:
    return [speak(seed) for seed in range(1, 61)]


def bootstrap_units(corpus: Corpus, resamples: int = 100) -> dict[str, float]:
    """The tempting way: draw units with replacement, each with all its vectors."""
    rng = np.random.default_rng(0)
    codes, row = np.unique(corpus.unit, return_inverse=True)
    n = np.bincount(row)
    total = np.zeros((len(codes), corpus.x.shape[1]))
    np.add.at(total, row, corpus.x)
    squares = np.bincount(row, np.square(corpus.x).sum(axis=1))
    explained = np.square(total).sum(axis=1) / n
    times = rng.multinomial(len(codes), np.full(len(codes), 1 / len(codes)), size=resamples)
    count = times @ n
    m = np.square(times @ total / count[:, None]).sum(axis=1)
    q, within = times @ squares / count, times @ (squares - explained) / count
    found = {"q": q, "m": m, "v": q - m, "v_within": within, "v_between": q - m - within}
    found |= {name: found[above] / found[below] for name, (above, below) in SHARES.items()}
    return {name: float(values.std(ddof=1)) for name, values in found.items()}


def test_numbers_without_a_group_are_those_of_the_other_documents() -> None:
    """Exactly, if the sums of every unit are kept by group; also over sets of units."""
    corpus = speak(1, documents=40, words=20)
    known = np.unique(corpus.unit)
    some = known[known % 3 > 0]
    estimates = corpus.estimates(known, some, frequent=len(known))
    for of_set, units in zip(estimates, (known, some), strict=True):
        for group, found in enumerate(of_set):
            truth = corpus.only(units).without(group).numbers()
            assert dict(zip(NUMBERS, found, strict=True)) == pytest.approx(truth, rel=EXACT)


def test_q_m_and_v_of_all_units_need_no_sums_by_unit() -> None:
    corpus = speak(2, documents=40, words=20)
    for group, found in enumerate(corpus.estimates(frequent=0)[0]):
        truth = corpus.without(group).numbers()
        for name in ("q", "m", "v", "m_of_q"):
            assert found[NUMBERS.index(name)] == pytest.approx(truth[name], rel=EXACT)


def test_a_unit_of_one_group_takes_its_spread_with_it() -> None:
    """Units that are documents: without a group, nothing of them is left."""
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(40), 9)
    corpus = Corpus(rng.normal(size=(360, 5)) + unit[:, None] % 4, unit, unit % GROUPS)
    for group, found in enumerate(corpus.estimates(frequent=0)[0]):
        assert dict(zip(NUMBERS, found, strict=True)) == pytest.approx(corpus.without(group).numbers(), rel=EXACT)


def test_sums_on_a_device_give_the_same() -> None:
    corpus = speak(3, documents=60, words=20)
    sets = np.unique(corpus.unit), np.arange(50)
    assert corpus.estimates(*sets, device=True) == pytest.approx(corpus.estimates(*sets), rel=EXACT)


@pytest.mark.slow
def test_errors_are_within_a_factor_of_the_spread_over_corpora(corpora: list[Corpus]) -> None:
    """And a bootstrap over units is not: it takes "the" for a chance draw."""
    made = [corpus.numbers() for corpus in corpora]
    claimed = [corpus.errors() for corpus in corpora[:20]]
    drawn = [bootstrap_units(corpus) for corpus in corpora[:3]]
    ratios, wrong = {}, {}
    for name in NUMBERS:
        spread = np.std([numbers[name] for numbers in made], ddof=1)
        ratios[name] = np.sqrt(np.mean([np.square(errors[name]) for errors in claimed])) / spread
        wrong[name] = np.mean([errors[name] for errors in drawn]) / spread
    assert all(1 / WITHIN < ratio < WITHIN for ratio in ratios.values()), ratios
    assert max(wrong.values()) > 3, wrong


@pytest.mark.slow
def test_errors_of_differences_between_layers_are_paired(corpora: list[Corpus]) -> None:
    """The same documents at two layers: their numbers vary together, so that their difference varies less."""
    deeper = [speak(seed, depth=0.3) for seed in range(1, 61)]
    pairs = list(zip(corpora, deeper, strict=True))
    values = [[list(each.numbers().values()) for each in pair] for pair in pairs]
    apart = np.diff(values, axis=1)[:, 0]
    claimed = [group_error(b.estimates()[0] - a.estimates()[0]) for a, b in pairs[:20]]
    ratio = np.sqrt(np.mean(np.square(claimed), axis=0)) / apart.std(axis=0, ddof=1)
    assert (ratio > 1 / WITHIN).all(), dict(zip(NUMBERS, ratio, strict=True))
    assert (ratio < WITHIN).all(), dict(zip(NUMBERS, ratio, strict=True))
    unpaired = [np.hypot(*(list(each.errors().values()) for each in pair)) for pair in pairs[:5]]
    assert (np.mean(unpaired, axis=0) / apart.std(axis=0, ddof=1)).max() > 2


def test_few_groups_have_no_error() -> None:
    values = np.random.default_rng(0).normal(size=(MIN_GROUPS, 3))
    assert np.isfinite(group_error(values)).all()
    assert np.isnan(group_error(values[1:])).all()


def test_a_repeated_document_changes_little() -> None:
    """A copy of one document of 200 counts as one more document."""
    corpus = speak(4)
    copy = corpus.group == 3
    first = copy & (np.cumsum(copy) <= 60)
    twice = Corpus(*(np.concatenate([part, part[first]]) for part in (corpus.x, corpus.unit, corpus.group)))
    before, after = corpus.errors(), twice.errors()
    assert all(0.7 < after[name] / before[name] < 1.4 for name in NUMBERS)


def test_a_massive_vector_of_a_unit_outside_a_set_does_not_widen_its_errors() -> None:
    corpus = speak(5)
    codes, counts = np.unique(corpus.unit, return_counts=True)
    often = codes[counts >= 10]
    rare = np.flatnonzero(corpus.unit == codes[counts == 3][0])[0]
    x = corpus.x.copy()
    x[rare] *= 1000
    before, after = (
        group_error(each.estimates(often)[0]) for each in (corpus, Corpus(x, corpus.unit, corpus.group))
    )
    assert after == pytest.approx(before, rel=0.25)
