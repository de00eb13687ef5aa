"""TwoNN against the definition in float64, against closed forms and against the figures of other tools."""

from collections.abc import Callable, Iterator
from dataclasses import astuple
from math import isnan, log, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from tests.shared import slow
from torch import Tensor

from theodolite.errors import TheodoliteError
from theodolite.measures import duplicates as duplicates_module
from theodolite.measures.duplicates import distinct
from theodolite.measures.intrinsic_dimension import (
    SCALES,
    TwoNN,
    gride,
    relative_sd,
    scale_jump,
    twonn,
    twonn_from_distances,
)
from theodolite.measures.neighbours import neighbourhood, two_nearest

EXACT = 1e-9
"""On mu, relative. Two float64 distances of 768 terms each err by about 1e-13 at worst; a wrong neighbour by
1e-3 in these clouds. Any tolerance between separates the two."""


def brute_force(vectors: Tensor) -> Tensor:
    """The distances to the nearest and second nearest other vector: coordinates subtracted in float64."""
    vectors = vectors.double()
    distances = torch.from_numpy(cdist(vectors, vectors))
    return distances.fill_diagonal_(torch.inf).topk(2, largest=False).values


def by_definition(vectors: Tensor) -> tuple[float, float, float]:
    """keep90, ml and keep20 of distinct vectors, written out."""
    log_mu = sorted(log(second / first) for first, second in brute_force(vectors).tolist())
    n = len(log_mu)

    def slope(kept: int) -> float:
        points = [(x, -log(1 - i / n)) for i, x in enumerate(log_mu[:kept], 1)]
        return sum(x * y for x, y in points) / sum(x * x for x, _ in points)

    return slope(9 * n // 10), (n - 1) / sum(log_mu), slope(n // 5)


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def cloud(n: int = 2100, d: int = 10, dim: int = 64, seed: int = 0) -> Tensor:
    """A Gaussian of dimension d turned into dim coordinates, float32; 2100 rows are more than a block."""
    axes: Tensor = torch.linalg.qr(torch.randn(dim, d, generator=random(99)))[0]
    return torch.randn(n, d, generator=random(seed)) @ axes.T


def with_offset() -> Tensor:
    vectors = cloud()
    vectors[:, 7] += 3000
    return vectors


def with_massive() -> Tensor:
    vectors = cloud()
    vectors[::20] *= 150
    return vectors


def with_massive_alike() -> Tensor:
    """One vector in twenty far out in one direction, as first positions are: distances 1% of the norms."""
    vectors = cloud()
    vectors[::20] += 150 * vectors[0].norm() / sqrt(vectors.shape[1])
    return vectors


def clusters(spread: float) -> Tensor:
    """Distances of `spread` inside clusters at radius 100: 1e-3 escapes float32 products, 1e-7 float64 ones."""
    centres = torch.nn.functional.normalize(torch.randn(40, 64, generator=random(1)), dim=1).double() * 100
    inside = torch.randn(40, 50, 64, generator=random(2)).double() * (spread / sqrt(128))
    return (centres[:, None] + inside).flatten(0, 1)


def distinct_rows(vectors: Tensor) -> Tensor:
    rows: Tensor = torch.unique(vectors, dim=0)
    return rows


HARD: dict[str, Callable[[], Tensor]] = {
    "plain": cloud,
    "an offset coordinate at 3,000": with_offset,
    "5% of norm 150": with_massive,
    "5% of norm 150, alike": with_massive_alike,
    "bfloat16, many ties": lambda: distinct_rows(cloud(d=3, dim=3).bfloat16()),
    "float16": lambda: distinct_rows(cloud().half()),
    "clusters far apart": lambda: clusters(1e-3),
    "clusters far apart, float32": lambda: distinct_rows(clusters(1e-3).float()),
    "clusters farther apart": lambda: clusters(1e-7),
    "one dimension": lambda: distinct_rows(cloud(d=1)),
    "a lattice": lambda: torch.cartesian_prod(*[torch.arange(7.0)] * 4),
    "huge": lambda: cloud() * 1e36,
    "small": lambda: cloud() * 1e-36,
    "one vector far beyond": lambda: torch.cat([cloud(), torch.full((1, 64), 1e21)]),
    "few": lambda: cloud(12),
}


@pytest.fixture(params=HARD)
def hard(request: pytest.FixtureRequest) -> Tensor:
    return HARD[request.param]()


def mu_error(nearest: Tensor, expected: Tensor) -> float:
    mu, true_mu = nearest[:, 1] / nearest[:, 0], expected[:, 1] / expected[:, 0]
    return float((mu / true_mu - 1).abs().nan_to_num(1).max())


class TestDistances:
    def test_equal_brute_force(self, hard: Tensor) -> None:
        nearest, expected = two_nearest(hard), brute_force(hard)
        torch.testing.assert_close(nearest, expected, rtol=EXACT, atol=0)
        assert mu_error(nearest, expected) < EXACT

    @pytest.fixture
    def coarse_products(self) -> Iterator[None]:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium")
        yield
        torch.set_float32_matmul_precision(before)

    @pytest.mark.usefixtures("coarse_products")
    def test_equal_brute_force_when_torch_may_multiply_in_bfloat16(self) -> None:
        assert mu_error(two_nearest(cloud()), brute_force(cloud())) < EXACT

    @pytest.mark.parametrize(
        "name", ["an offset coordinate at 3,000", "5% of norm 150, alike", "clusters far apart"]
    )
    @pytest.mark.parametrize("centre", [False, True])
    def test_plain_float32_is_wrong(self, name: str, centre: bool) -> None:
        vectors = HARD[name]()
        single = (vectors - vectors.mean(0) if centre else vectors).float()
        distances = torch.cdist(single, single, compute_mode="use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
        nearest = distances.topk(2, largest=False).values.double()
        assert mu_error(nearest, brute_force(vectors)) > EXACT

    def test_duplicates_are_at_distance_0(self) -> None:
        vectors = cloud(300)
        nearest = two_nearest(torch.cat([vectors, vectors[:30]]))
        assert (nearest[:30, 0] == 0).all()
        torch.testing.assert_close(nearest, brute_force(torch.cat([vectors, vectors[:30]])), rtol=EXACT, atol=0)

    def test_the_input_is_not_changed(self) -> None:
        vectors = cloud(50)
        before = vectors.clone()
        two_nearest(vectors)
        assert torch.equal(vectors, before)

    @given(
        n=st.integers(10, 60),
        dim=st.integers(1, 6),
        levels=st.integers(2, 1000),
        exponents=st.lists(st.integers(-60, 60), min_size=1, max_size=3),
        dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
        seed=st.integers(0, 2**31),
    )
    def test_any_cloud(
        self, n: int, dim: int, levels: int, exponents: list[int], dtype: torch.dtype, seed: int
    ) -> None:
        """Grids with ties, whose rows differ in scale by up to 2^120."""
        scales = torch.tensor(exponents).double().exp2()
        grid = torch.randint(-levels, levels, (n, dim), generator=random(seed)).double()
        vectors = distinct_rows((grid * scales[torch.arange(n) % len(scales), None]).to(dtype))
        if len(vectors) >= 3:
            torch.testing.assert_close(two_nearest(vectors), brute_force(vectors), rtol=EXACT, atol=0)


class TestDuplicates:
    def test_equal_rows_and_signed_zeros(self) -> None:
        rows = torch.tensor([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            assert distinct(rows.to(dtype)).tolist() == [0, 1, 3]

    def test_contexts_before_rows(self) -> None:
        rows = torch.tensor([[1.0], [1.001], [2.0], [1.0], [3.0]])
        assert distinct(rows, torch.tensor([5, 5, 6, 7, 8])).tolist() == [0, 2, 4]

    def test_no_rows(self) -> None:
        assert distinct(torch.empty(0, 3)).tolist() == []

    def test_narrow_floats_in_wide_ones_do_not_collide(self) -> None:
        """The low bits of such rows are empty; hashed unfolded, 356 of these 20,000 rows would collide."""
        rows = torch.randn(20_000, 4, generator=random()).bfloat16().double()
        assert len(set(duplicates_module._hashes(rows).tolist())) == len(set(map(tuple, rows.tolist())))

    @pytest.mark.parametrize("every_hash", [0, 1])
    def test_a_hash_that_collides_changes_nothing(self, monkeypatch: pytest.MonkeyPatch, every_hash: int) -> None:
        rows = torch.randint(0, 3, (300, 4), generator=random()).float()
        expected = distinct(rows).tolist()
        monkeypatch.setattr(duplicates_module, "_weights", lambda dim: torch.full((dim,), every_hash))
        assert distinct(rows).tolist() == expected

    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30))
    def test_against_a_set(self, rows: list[tuple[int, int, int]]) -> None:
        contexts: set[int] = set()
        vectors: set[tuple[int, int]] = set()
        kept = []
        for number, (x, y, context) in enumerate(rows):
            if context not in contexts and (x, y) not in vectors:
                kept.append(number)
            if context not in contexts:
                vectors.add((x, y))
            contexts.add(context)
        table = torch.tensor(rows)
        assert distinct(table[:, :2].float(), table[:, 2]).tolist() == kept

    def test_ten_percent_repeated_are_dropped_and_counted(self) -> None:
        vectors = cloud()
        estimate = twonn(torch.cat([vectors, vectors[:210]]))
        assert (estimate.n, estimate.duplicates) == (2100, 210)
        assert estimate.keep90 == pytest.approx(twonn(vectors).keep90, rel=1e-12)

    def test_dropping_infinite_ratios_is_wrong(self) -> None:
        """The tempting way with repeats; what they repeat loses its ratio, and so do their neighbours."""
        vectors = cloud()
        first, second = brute_force(torch.cat([vectors, vectors[:210]])).unbind(1)
        kept = first > 0
        ml = float((kept.sum() - 1) / (second[kept] / first[kept]).log().sum())
        right = twonn(vectors)
        assert abs(ml - right.ml) > 4 * right.ml_se

    def test_keeping_equal_contexts_is_wrong(self) -> None:
        vectors = cloud()
        right = twonn(vectors)
        rounded = torch.cat([vectors, vectors[:210] + 1e-6])
        assert abs(twonn_from_distances(two_nearest(rounded)).ml - right.ml) > 4 * right.ml_se
        assert twonn(rounded).ml == pytest.approx(right.ml)  # they are near-duplicates too

    def test_equal_contexts_are_dropped_and_counted(self) -> None:
        vectors = cloud()
        rounded = torch.cat([vectors, vectors[:210] + 1e-6])
        contexts = torch.cat([torch.arange(2100), torch.arange(210)])
        assert astuple(twonn(rounded, contexts=contexts)) == (*astuple(twonn(vectors))[:6], 210, None)


PRINTED = {
    "cube": (1.01, 1.95, 4.76, 8.57, 15.62, 31.18),
    "gaussian": (0.97, 2.02, 5.02, 9.51, 17.47, 32.96),
    "sphere": (1.00, 1.98, 4.94, 9.47, 16.60, 33.05),
}
"""Of other tools, for dimensions 1, 2, 5, 10, 20 and 50."""


class TestEstimates:
    @pytest.mark.parametrize("n", [10, 97, 1000])
    def test_the_definition(self, n: int) -> None:
        vectors = cloud(n)
        estimate = twonn(vectors)
        keep90, ml, keep20 = by_definition(vectors)
        assert estimate.keep90 == pytest.approx(keep90, rel=EXACT)
        assert estimate.ml == pytest.approx(ml, rel=EXACT)
        assert estimate.keep20 == pytest.approx(keep20, rel=EXACT)

    def test_ratios_drawn_from_the_law(self) -> None:
        """mu = U^(-1/d): ml is unbiased and every spread is what its standard error says.

        400 repetitions give a mean to 1/20 and a spread to 1/28 of the standard error; both are allowed four such.
        The fits are biased of order 1/n, a tenth of their error at n = 1,000.
        """
        from theodolite.measures.intrinsic_dimension import _estimates

        d, n, repetitions = 7.0, 1000, 400
        uniform = torch.rand(repetitions, n, dtype=torch.float64, generator=random())
        made = [_estimates(row) for row in -uniform.log() / d]
        for values, constant, bias in [
            ([e.ml for e in made], 1.0, 0.0),
            ([e.keep90 for e in made], relative_sd(0.9), 0.1),
            ([e.keep20 for e in made], relative_sd(0.2), 0.2),
        ]:
            sample, error = torch.tensor(values), d * constant / sqrt(n)
            assert abs(float(sample.mean()) - d) < (4 / sqrt(repetitions) + bias) * error
            assert float(sample.std()) == pytest.approx(error, rel=4 / sqrt(2 * repetitions))
        assert made[0].se == pytest.approx(made[0].keep90 * 1.0762 / sqrt(n), rel=1e-4)
        assert made[0].ml_se == pytest.approx(made[0].ml / sqrt(n - 2))

    def test_relative_sd_equals_a_published_simulation(self) -> None:
        """3.4% and 7.7% at n = 1,000, as printed; and 1, that of maximum likelihood, is out of a fit's reach."""
        assert relative_sd(0.9) / sqrt(1000) == pytest.approx(0.034, abs=5e-4)
        assert relative_sd(0.2) / sqrt(1000) == pytest.approx(0.077, abs=1e-3)
        assert all(relative_sd(keep / 100) > 1 for keep in range(1, 100))

    @pytest.mark.parametrize(
        ("shape", "d", "printed"),
        [
            (shape, d, printed) if d in (2, 20) else slow(shape, d, printed)
            for shape, each in PRINTED.items()
            for d, printed in zip((1, 2, 5, 10, 20, 50), each, strict=True)
        ],
    )
    def test_shapes_measured_with_other_tools(self, shape: str, d: int, printed: float) -> None:
        """Means of 5 seeds, n = 2,500, theirs and ours of different draws.

        Each mean errs by 1.076/sqrt(5 * 2500), about 1.0%, times 1.3 for neighbours that are shared: 1.3%. The
        difference of two such: 1.8%. Three of that, since 18 are compared: 5.4%.
        """
        made = [twonn(points(shape, d, seed)).keep90 for seed in range(5)]
        assert sum(made) / 5 == pytest.approx(printed, rel=0.054)


def points(shape: str, d: int, seed: int) -> Tensor:
    if shape == "cube":
        return torch.rand(2500, d, generator=random(seed), dtype=torch.float64)
    normal = torch.randn(2500, d + (shape == "sphere"), generator=random(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(normal, dim=1) if shape == "sphere" else normal


class TestInvariance:
    def estimates(self, vectors: Tensor) -> tuple[float, ...]:
        e = twonn(vectors)
        return e.keep90, e.ml, e.keep20, e.se, e.ml_se

    def test_order(self) -> None:
        vectors = cloud()
        shuffled = vectors[torch.randperm(len(vectors), generator=random())]
        assert self.estimates(shuffled) == pytest.approx(self.estimates(vectors), rel=1e-12)

    @pytest.mark.parametrize("factor", [2.0**-40, 1e-3, 1e6, 1e140])
    def test_scale(self, factor: float) -> None:
        vectors = cloud(500).double()
        assert self.estimates(vectors * factor) == pytest.approx(self.estimates(vectors), rel=EXACT)

    def test_rotation_and_shift(self) -> None:
        """Float64 rotations move distances by 1e-15; log mu as small as 1e-6 turns that into 1e-9."""
        vectors = cloud(500).double()
        axes = torch.linalg.qr(torch.randn(64, 64, generator=random(), dtype=torch.float64))[0]
        assert self.estimates(vectors @ axes + 10) == pytest.approx(self.estimates(vectors), rel=EXACT)


class TestUndefined:
    def nan(self, estimate: TwoNN) -> list[bool]:
        return [
            isnan(value) for value in (estimate.keep90, estimate.se, estimate.ml, estimate.ml_se, estimate.keep20)
        ]

    @pytest.mark.parametrize("n", [0, 1, 2, 9])
    def test_too_few(self, n: int) -> None:
        estimate = twonn(cloud(9)[torch.arange(20) % n] if n else torch.empty(0, 4))
        assert all(self.nan(estimate))
        assert (estimate.n, estimate.duplicates) == (n, 20 - n if n else 0)
        assert estimate.reason == f"{n} distinct vectors, and TwoNN needs at least 10"

    @pytest.mark.parametrize("factor", [1.0, 0.1])
    def test_every_ratio_1(self, factor: float) -> None:
        axes = torch.linalg.qr(torch.randn(30, 30, generator=random(), dtype=torch.float64))[0]
        estimate = twonn(axes * factor)  # a simplex, equal to rounding alone
        assert all(self.nan(estimate))
        assert estimate.reason == "every vector has its two nearest neighbours at the same distance"

    def test_the_lowest_ratios_1(self) -> None:
        lattice = torch.cat([torch.arange(40.0), 1000 + torch.arange(12.0).square()])[:, None]
        estimate = twonn(lattice)
        assert self.nan(estimate) == [False, False, False, False, True]
        assert estimate.reason == "every mu that keep20 would fit is 1"

    def test_distances_that_vanish(self) -> None:
        vectors = torch.cat([torch.eye(12), torch.eye(12) * 1.5]).double() * 1e-170
        vectors[0, 0] = 1
        estimate = twonn(vectors)
        assert all(self.nan(estimate))
        assert estimate.reason == "distances that are too small or too large for float64"


class TestErrors:
    def test_values_that_are_not_finite(self) -> None:
        vectors = cloud(20)
        vectors[3, 1], vectors[4, 2] = torch.nan, torch.inf
        with pytest.raises(TheodoliteError, match="vectors must be finite, but 2 of 20 rows are not"):
            twonn(vectors)

    @pytest.mark.parametrize("vectors", [torch.zeros(5), torch.zeros(5, 2, dtype=torch.int64)])
    def test_shape_and_type(self, vectors: Tensor) -> None:
        with pytest.raises(
            TheodoliteError, match=r"vectors must be \(vectors, dim\) of a floating type \(got \(5"
        ):
            twonn(vectors)

    def test_contexts(self) -> None:
        with pytest.raises(
            TheodoliteError, match=r"contexts must hold one integer per vector, \(20,\) \(got \(19,\)\)"
        ):
            twonn(cloud(20), contexts=torch.arange(19))


def plant_near_duplicates(dim: int, noise: float, share: float = 0.1) -> torch.Tensor:
    """Return 2,000 points of this dimension in 32 coordinates, a share of them repeated with relative noise."""
    generator = torch.Generator().manual_seed(dim)
    x = torch.randn(2000, dim, generator=generator, dtype=torch.float64)
    x = x @ torch.randn(dim, 32, generator=generator, dtype=torch.float64)
    count = int(2000 * share)
    shift = torch.randn(count, 32, generator=generator, dtype=torch.float64)
    x[:count] = x[count : 2 * count]
    x[:count] += noise * shift * x[:count].norm(dim=1, keepdim=True) / 32**0.5
    return x


@pytest.mark.parametrize("dim", [2, 5, 10, 30])
def test_near_duplicates_are_dropped_and_counted(dim: int) -> None:
    x = plant_near_duplicates(dim, 1e-6)
    found, clean = twonn(x), twonn(x[200:])
    assert (found.n, found.duplicates) == (1800, 200)
    assert found.keep90 == pytest.approx(clean.keep90, rel=0.1)
    kept = two_nearest(x)  # the tempting way: only exact duplicates are dropped
    assert twonn_from_distances(kept).keep90 < 0.3
    near = neighbourhood(x)
    assert (len(near), near.duplicates, near.near) == (1800, 200, 200)
    assert float((near.distances[:, 1] / near.distances[:, 0]).max()) < 1e3


def test_sets_of_near_duplicates_leave_one() -> None:
    x = plant_near_duplicates(6, 1e-6)[200:]
    noise = torch.randn(8, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x = torch.cat([x, x[:1] + 1e-7 * noise])
    near = neighbourhood(x)
    assert (near.duplicates, near.near) == (8, 8)


@pytest.mark.parametrize("dim", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("shape", ["normal", "uniform", "heavy", "clusters"])
def test_random_points_have_no_near_duplicates(dim: int, shape: str) -> None:
    """Also not those of two clusters, one a million times as dense as the other."""
    generator = torch.Generator().manual_seed(dim)
    x = torch.randn(1500, dim, generator=generator, dtype=torch.float64)
    if shape == "uniform":
        x = torch.rand(1500, dim, generator=generator, dtype=torch.float64)
    if shape == "heavy":
        x *= torch.rand(1500, 1, generator=generator, dtype=torch.float64).reciprocal()
    if shape == "clusters":
        x[:700] *= 1e-6
    assert neighbourhood(x).near == 0
    assert twonn(x).n == 1500


def test_the_dimension_jumps_between_scales_where_pairs_are_close() -> None:
    """At a noise of 2% pairs are no near-duplicates any more, but still decide TwoNN: the curve shows it."""

    def jump(x: torch.Tensor) -> float:
        near = neighbourhood(x)
        assert near.near == 0
        return scale_jump([gride(near.distances, scale) for scale in SCALES]).value

    assert jump(plant_near_duplicates(10, 0.02, share=0.3)) > 2
    for dim in (2, 10, 30):
        assert jump(plant_near_duplicates(dim, 1e-6)[200:]) < 1.2
    assert scale_jump([]).reason == "too few distinct vectors for two scales"
