"""The bootstrap over units of what everything is made of, against a loop over the resamples."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.oracles import wide

from theodolite.measures import resampling
from theodolite.measures.resampling import ERRORS, PARTS, SHARES, draw_counts, unit_errors

Array = NDArray[np.float64]
ROUNDING = 1e-8
"""Relative: float64 sums about the mean of everything; where a unit is 150 times as long as the rest, V_B without
it is 1e-4 of what its sums hold, and the spread of that some percent."""
BOOTSTRAP = 0.15
"""Relative: 200 resamples know a spread to 5%, a mean over 20 surveys to 1%; the bootstrap of 300 units is itself
biased by some percent, and the spread over 200 surveys known to 5%."""


class Made:
    """Units with counts, means and variances, as sums about a centre."""

    def __init__(self, units: int, dim: int = 6, seed: int = 0, offset: float = 0.0, longer: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        self.n = rng.geometric(0.1, size=units)
        self.mean = rng.normal(1, 1, (units, dim))
        self.mean[:, 0] += offset
        self.mean[0] *= longer
        self.v = rng.gamma(4, 1, units)
        self.centre = np.zeros(dim)
        self.centre[0] = offset

    @property
    def total(self) -> Array:
        return (self.mean - self.centre) * self.n[:, None]

    def errors(self, *sets: NDArray[np.bool_], **options: int) -> list[dict[str, float]]:
        masks = np.stack(sets) if sets else np.ones((1, len(self.n)), dtype=bool)
        return unit_errors(self.n, self.total, self.v, self.centre, masks, **options)

    def parts(self, drawn: NDArray[np.int64]) -> dict[str, float]:
        """Q, M, V, V_W and V_B of the units drawn, and ratios, by definition; each counts as often as drawn."""
        n, mean, v = wide(self.n[drawn]), wide(self.mean[drawn]), wide(self.v[drawn])
        share = n / n.sum()
        middle = (share[:, None] * mean).sum(axis=0)
        m, within = (middle**2).sum(), (share * v).sum()
        between = (share * ((mean - middle) ** 2).sum(axis=1)).sum()
        found = dict(zip(PARTS, (m + within + between, m, within + between, within, between), strict=True))
        with np.errstate(invalid="ignore"):
            ratios = {name: found[above] / found[below] for name, (above, below) in SHARES.items()}
        return {name: float(number) for name, number in (found | ratios).items()}


def counted(units: int, **options: int) -> NDArray[np.int64]:
    return np.concatenate([counts for _, counts in draw_counts(units, **options)], axis=1)


def looped(made: Made, inside: NDArray[np.bool_], counts: NDArray[np.int64]) -> dict[str, float]:
    """Standard errors from one resample after another."""
    rows = []
    for row in counts:
        drawn = np.repeat(np.arange(len(row)), row)
        drawn = drawn[inside[drawn]]
        if len(drawn):
            rows.append(made.parts(drawn))
    return {f"{name}_se": float(np.std([row[name] for row in rows], ddof=1)) for name in rows[0]}


@pytest.mark.parametrize("block", [1, 7, 64, 2048])
@pytest.mark.parametrize(("offset", "longer"), [(0.0, 1.0), (3000.0, 1.0), (3000.0, 150.0)])
def test_the_matrix_products_are_the_resamples(
    monkeypatch: pytest.MonkeyPatch, block: int, offset: float, longer: float
) -> None:
    monkeypatch.setattr(resampling, "BLOCK", block)
    made = Made(70, offset=offset, longer=longer)
    special = np.arange(70) < 2
    often = made.n >= 10
    sets = [np.ones(70, dtype=bool), often, often & ~special, ~special]
    for inside, errors in zip(sets, made.errors(*sets, resamples=40), strict=True):
        assert tuple(errors) == ERRORS
        assert errors == pytest.approx(looped(made, inside, counted(70, resamples=40)), rel=ROUNDING, abs=1e-12)


def test_sums_about_zero_would_lose_what_is_between_units() -> None:
    """The tempting way, E|mu_t|^2 - |mu|^2 in float32: where one coordinate is at 3,000 nothing is left of V_B."""
    made = Made(70, offset=3000.0)
    counts = counted(70, resamples=40)
    weights = (counts * made.n).astype(np.float32)
    mean = made.mean.astype(np.float32)
    n = weights.sum(axis=1)
    naive = weights @ (mean**2).sum(axis=1) / n - ((weights @ mean / n[:, None]) ** 2).sum(axis=1)
    truth = looped(made, np.ones(70, dtype=bool), counts)["v_between_se"]
    assert abs(naive.std(ddof=1) / truth - 1) > 0.05
    assert made.errors(resamples=40)[0]["v_between_se"] == pytest.approx(truth, rel=ROUNDING)


@pytest.mark.parametrize("block", [5, 2048])
def test_draws_are_those_with_replacement(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """As many as there are units; a count is binomial, and two counts are correlated by -1/(units - 1)."""
    monkeypatch.setattr(resampling, "BLOCK", block)
    counts = counted(12, resamples=40_000)
    assert (counts.sum(axis=1) == 12).all()
    near = 4 / np.sqrt(40_000)  # four standard errors of a mean of numbers of spread 1
    assert counts.mean(axis=0) == pytest.approx(np.ones(12), abs=near)
    assert counts.var(axis=0) == pytest.approx(np.full(12, 11 / 12), abs=2 * near)
    apart = np.corrcoef(counts.T)[~np.eye(12, dtype=bool)]
    assert apart == pytest.approx(np.full(132, -1 / 11), abs=1.2 * near)


def test_errors_equal_the_spread_over_other_units() -> None:
    every = [Made(300, seed=seed) for seed in range(200)]
    parts = [made.parts(np.arange(300)) for made in every]
    found = [made.errors()[0] for made in every[:20]]
    for name in (*PARTS, *SHARES):
        spread = np.std([part[name] for part in parts])
        assert np.mean([errors[f"{name}_se"] for errors in found]) == pytest.approx(spread, rel=BOOTSTRAP), name


def test_a_subset_has_the_errors_of_resampling_it_only() -> None:
    """Drawn from all units, a set's resample has some more or fewer units: of 300, that is one part in 600."""
    made = Made(600, seed=4)
    inside = np.arange(600) % 2 == 0
    (within_all,) = made.errors(inside, resamples=2000)
    alone = Made(600, seed=4)
    alone.n, alone.mean, alone.v = made.n[inside], made.mean[inside], made.v[inside]
    (by_itself,) = alone.errors(resamples=2000)
    assert within_all == pytest.approx(by_itself, rel=0.08)  # 2,000 resamples know a spread to 1.6%, both to 2.2%


def test_draws_depend_on_the_order() -> None:
    made, shuffled = Made(50), Made(50)
    mixed = np.random.default_rng(1).permutation(50)
    shuffled.n, shuffled.mean, shuffled.v = made.n[mixed], made.mean[mixed], made.v[mixed]
    first = made.errors(order=np.argsort(made.v))[0]
    assert shuffled.errors(order=np.argsort(shuffled.v))[0] == pytest.approx(first, rel=ROUNDING)
    assert shuffled.errors()[0] != pytest.approx(made.errors()[0], rel=0.01)
    assert made.errors()[0] == made.errors()[0]


def test_values_without_spread_are_undefined_or_zero() -> None:
    nobody, one = np.zeros(9, dtype=bool), np.arange(9) == 3
    made = Made(9)
    empty, alone = made.errors(nobody, one)
    assert np.isnan(list(empty.values())).all()
    assert alone == pytest.approx(dict.fromkeys(ERRORS, 0.0), abs=1e-12)
    made.v[:], made.mean[:], made.centre[:] = 0, 0, 0
    zero = made.errors()[0]
    assert [zero[f"{part}_se"] for part in PARTS] == [0.0] * 5
    assert np.isnan([zero[f"{share}_se"] for share in SHARES]).all()
