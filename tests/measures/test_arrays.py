"""Measures of plain arrays equal their definitions, and their standard errors match replications."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from tests.devices import DEVICES

import theodolite
from theodolite import measures
from theodolite.errors import InputError

Array = np.ndarray[Any, Any]
FORMATS: dict[str, Callable[[Array], Any]] = {
    "float32": lambda x: x.astype(np.float32),
    "float64": lambda x: x,
    "float16": lambda x: x.astype(np.float16),
    "big-endian": lambda x: x.astype(">f4"),
    "read-only, reversed": lambda x: np.broadcast_to(x[::-1], x.shape)[::-1],
    "strided": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3],
    "column by column": lambda x: torch.tensor(x.T.copy()).T,
    "list": lambda x: x.tolist(),
    "bfloat16": lambda x: torch.tensor(x).bfloat16(),
    "requires a gradient": lambda x: torch.tensor(x, requires_grad=True),
}


def make_vectors(n: int = 400, dim: int = 6, seed: int = 0) -> tuple[Array, Array, Array]:
    """Return vectors with units and documents; a unit has its own mean, and a document shifts its vectors."""
    rng = np.random.default_rng(seed)
    units = rng.choice(8, n, p=np.arange(8, 0, -1) / 36)
    documents = np.repeat(np.arange(n // 10), 10)
    means = np.random.default_rng(99).normal(size=(8, dim)) * [3, 1, 1, 1, 1, 1]
    shifts = rng.normal(size=(n // 10, dim))
    return 2.0 + means[units] + shifts[documents] + rng.normal(size=(n, dim)), units, documents


def cosines(x: Array) -> Array:
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray((unit @ unit.T)[~np.eye(len(x), dtype=bool)])


ORACLES: dict[str, Callable[[Array], float]] = {
    "mean_cosine": lambda x: cosines(x).mean(),
    "anisotropy_svd": lambda x: np.linalg.svd(x - x.mean(0))[1][0] ** 2 / np.square(x - x.mean(0)).sum(),
    "participation_ratio": lambda x: np.trace(np.cov(x.T)) ** 2 / np.square(np.cov(x.T)).sum(),
    "stable_rank": lambda x: np.square(x).sum() / np.linalg.norm(x, 2) ** 2,
    "rogue_dimension": lambda x: x.var(0).max() / x.var(0).sum(),
}


@pytest.mark.parametrize("name", ORACLES)
def test_values_equal_their_definitions(name: str) -> None:
    x = make_vectors()[0]
    found = getattr(measures, name)(x)
    assert float(found) == pytest.approx(ORACLES[name](x), rel=1e-12)
    assert found.n == len(x)
    assert found.reason is None


def test_effective_rank_is_the_exponential_of_the_entropy() -> None:
    x = make_vectors()[0]
    share = np.linalg.eigvalsh(np.cov(x.T)) / np.trace(np.cov(x.T))
    assert measures.effective_rank(x).value == pytest.approx(np.exp(-(share * np.log(share)).sum()), rel=1e-12)


def test_the_decomposition_adds_up_and_equals_its_definition() -> None:
    x, units, _ = make_vectors()
    parts = measures.decompose(x, units)
    means = np.stack([x[units == unit].mean(0) for unit in units])
    assert parts.q.value == pytest.approx(np.square(x).sum(1).mean(), rel=1e-12)
    assert parts.m.value == pytest.approx(np.square(x.mean(0)).sum(), rel=1e-12)
    assert parts.v_within is not None
    assert parts.v_between is not None
    assert parts.v_within.value == pytest.approx(np.square(x - means).sum(1).mean(), rel=1e-12)
    assert parts.v_between.value == pytest.approx(np.square(means - x.mean(0)).sum(1).mean(), rel=1e-12)
    assert measures.decompose(x).v_within is None


def test_the_tradeoff_equals_a_fit_over_units() -> None:
    x, units, _ = make_vectors(2000)
    m = np.array([np.square(x[units == unit].mean(0)).sum() for unit in range(8)])
    v = np.array([x[units == unit].var(0).sum() for unit in range(8)])
    found = measures.tradeoff(x, units)
    assert found.slope.value == pytest.approx(np.polyfit(m, v, 1)[0], rel=1e-9)
    assert found.r2.value == pytest.approx(np.corrcoef(m, v)[0, 1] ** 2, rel=1e-9)
    assert found.q_cv.value == pytest.approx((m + v).std() / (m + v).mean(), rel=1e-9)
    assert found.slope.n == found.units == 8


def test_the_numbers_are_those_of_a_survey_of_the_array() -> None:
    x, units, _ = make_vectors(2000)
    row = theodolite.measure(x, groups=[str(unit) for unit in units]).layers.query("population == 'all'").iloc[0]
    parts, fits, dimension = measures.decompose(x, units), measures.tradeoff(x, units), measures.twonn(x)
    found = {
        "q": parts.q,
        "m": parts.m,
        "v": parts.v,
        "v_within": parts.v_within,
        "v_between": parts.v_between,
        "tradeoff_slope": fits.slope,
        "tradeoff_r2": fits.r2,
        "q_cv": fits.q_cv,
        "mean_cosine": measures.mean_cosine(x),
        "anisotropy_svd": measures.anisotropy_svd(x),
        "participation_ratio": measures.participation_ratio(x),
        "effective_rank": measures.effective_rank(x),
        "effective_rank_singular": measures.effective_rank_singular(x),
        "iso_score": measures.iso_score(x),
        "stable_rank": measures.stable_rank(x),
        "rankme": measures.rankme(x),
        "pca_dim_90": measures.pca_dimension(x, 0.9),
        "rogue_variance_share": measures.rogue_dimension(x),
        "partition_isotropy": measures.partition_isotropy(x),
        "twonn": dimension.fit,
        "twonn_ml": dimension.ml,
        "mle_dim": measures.mle_dimension(x),
        "hubness_skew": measures.hubness(x),
    }
    for column, result in found.items():
        assert result is not None
        assert float(result) == pytest.approx(row[column], rel=2e-5), column
        assert column in result.formula.columns


@pytest.mark.parametrize("kind", FORMATS)
def test_every_type_of_array_is_taken(kind: str) -> None:
    x, units, _ = make_vectors(60)
    given = FORMATS[kind](x)
    loose = {"float16": 2e-3, "bfloat16": 2e-2}.get(kind, 1e-6)
    assert float(measures.mean_cosine(given)) == pytest.approx(float(measures.mean_cosine(x)), rel=loose)
    assert float(measures.decompose(given, units).q) == pytest.approx(np.square(x).sum(1).mean(), rel=loose)
    assert float(measures.twonn(given)) > 0


FUNCTIONS = [name for name in measures.__all__ if inspect.isfunction(getattr(measures, name))]


def read_numbers(found: Any) -> list[float]:
    """Return the numbers of a result, of several results, or of an array."""
    if isinstance(found, measures.Result):
        return [found.value, found.se]
    if is_dataclass(found):
        return [number for each in fields(found) for number in read_numbers(getattr(found, each.name))]
    return [] if found is None else np.ravel(found).tolist()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_function_depends_on_the_values_only(kind: str) -> None:
    """The same numbers in another type, order or memory layout give the same result."""
    x, units, documents = make_vectors(200)
    given = FORMATS[kind](x)
    wide = (
        given.detach().double().numpy() if isinstance(given, torch.Tensor) else np.array(given, dtype=np.float64)
    )
    for name in FUNCTIONS:
        function = getattr(measures, name)
        options = {"units": units, "documents": documents}
        options = {key: value for key, value in options.items() if key in inspect.signature(function).parameters}
        found, expected = (read_numbers(function(each, **options)) for each in (given, wide))
        assert expected, name
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_rejects_bad_arrays_and_labels_by_name(name: str) -> None:
    function = getattr(measures, name)
    required = {"units": [0, 1]} if name in ("lidar", "self_similarity", "tradeoff") else {}
    with pytest.raises(InputError, match=r"^x: expected an array \(vectors, dim\), got the shape \(5,\)"):
        function(np.ones(5), **required)
    with pytest.raises(InputError, match=r"^x: 1 of 2 rows are not finite; the first is row 1"):
        function(np.array([[1.0, 2.0], [np.inf, 1.0]]), **required)
    for label in {"units", "documents"} & set(inspect.signature(function).parameters):
        with pytest.raises(InputError, match=rf"^{label}: expected one label per vector, 20 in all"):
            function(make_vectors(20)[0], **(required | {label: [1, 2, 3]}))


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_are_measured_on_their_device(device: str) -> None:
    x, units, documents = make_vectors()
    there = torch.tensor(x, device=device)
    for name in SMOOTH:
        one = getattr(measures, name)(there, documents=torch.tensor(documents, device=device))
        other = getattr(measures, name)(x, documents=documents)
        assert float(one) == pytest.approx(float(other), rel=1e-9)
        assert one.se == pytest.approx(other.se, rel=1e-6)
    assert float(measures.twonn(there)) == pytest.approx(float(measures.twonn(x)), rel=1e-9)
    assert float(measures.tradeoff(there, units).slope) == pytest.approx(float(measures.tradeoff(x, units).slope))


SMOOTH = ("mean_cosine", "anisotropy_svd", "participation_ratio", "iso_score", "effective_rank", "stable_rank")


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True])
def test_standard_errors_match_replications(clustered: bool) -> None:
    """Vectors of one document share a shift: only errors clustered by document match the replications."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(200):
        x, units, documents = make_vectors(600, seed=seed + 1)
        if not clustered:
            x = np.random.default_rng(seed).permutation(make_vectors(6000, seed=1000)[0])[:600]
        groups = documents if clustered else None
        parts = measures.decompose(x, units, documents=groups)
        plain = measures.decompose(x, units)
        results = {
            name: (getattr(measures, name)(x, documents=groups), getattr(measures, name)(x)) for name in SMOOTH
        }
        for name in ("q", "m", "v", *(("v_within", "v_between") if clustered else ())):
            results[name] = (getattr(parts, name), getattr(plain, name))
        for name, (one, other) in results.items():
            found.setdefault(name, []).append((one.value, one.se, other.se))
    for name, rows in found.items():
        values, claimed, naive = np.array(rows).T
        assert 0.8 < claimed.mean() / values.std(ddof=1) < 1.25, name
        if clustered and name in ("m", "q", "mean_cosine"):
            assert naive.mean() / values.std(ddof=1) < 0.75, name


def test_hubness_depends_on_the_metric() -> None:
    """Long vectors are hubs by dot product and nowhere near by distance."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 12)) * rng.lognormal(sigma=1.0, size=(600, 1))
    skew = {metric: float(measures.hubness(x, metric=metric)) for metric in ("euclidean", "cosine", "dot")}
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for metric, products in (("cosine", unit @ unit.T), ("dot", x @ x.T)):
        np.fill_diagonal(products, -np.inf)
        counts = np.bincount(np.argsort(-products)[:, :10].ravel(), minlength=600)
        expected = ((counts - 10) ** 3).mean() / counts.std() ** 3
        assert skew[metric] == pytest.approx(expected, rel=1e-9)
    assert skew["dot"] > 2 * skew["cosine"]


def test_undefined_values_have_a_reason() -> None:
    same = np.ones((12, 3))
    assert measures.anisotropy_svd(same).reason == "all vectors are equal"
    assert np.isnan(float(measures.iso_score(same)))
    assert measures.mean_cosine(np.zeros((5, 3))).reason == "fewer than two vectors of the sample have a direction"
    assert "distinct vectors" in str(measures.twonn(same).fit.reason)
    assert "units occur 10 to 100,000 times" in str(measures.tradeoff(same, np.arange(12)).slope.reason)
    assert "undefined: all vectors are equal" in repr(measures.participation_ratio(same))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones(5), r"x: expected an array \(vectors, dim\), got the shape \(5,\)"),
        (np.empty((0, 4)), r"got the shape \(0, 4\)"),
        (np.ones((3, 4), dtype=np.uint8), r"expected floating-point numbers, got uint8\. .*packed bits"),
        (np.array([["a", "b"]]), r"expected an array of numbers"),
        ([[1.0, 2.0], [3.0]], r"x: expected an array \(vectors, dim\); its rows differ in length"),
        ("abc", r"got str"),
        (
            sparse.csr_matrix(np.eye(3)),
            r"expected a dense array \(vectors, dim\), got csr_matrix\. Give x\.toarray",
        ),
        (None, r"got NoneType"),
        (np.array([[1.0, 2.0], [np.nan, 1.0]]), r"1 of 2 rows are not finite; the first is row 1"),
    ],
)
def test_bad_arrays_are_rejected(x: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        measures.mean_cosine(x)


def test_bad_options_are_rejected() -> None:
    x = make_vectors(20)[0]
    with pytest.raises(InputError, match=r"units: expected one label per vector, 20 in all, got the shape \(3,\)"):
        measures.decompose(x, units=[1, 2, 3])
    with pytest.raises(InputError, match=r"metric: expected one of euclidean, cosine, dot, got 'l1'"):
        measures.hubness(x, metric="l1")
    for k in (50, 2.5, "a", True):
        with pytest.raises(InputError, match=rf"k: expected an integer from 1 to 32, got {k!r}"):
            measures.hubness(x, k=k)  # type: ignore[arg-type]
    for share in (95, 1.5, 0, -1):
        with pytest.raises(InputError, match=r"share: expected a fraction .* for 95% give 0\.95"):
            measures.pca_dimension(x, share)
    for pairs in (1, -5, "a"):
        with pytest.raises(InputError, match=r"pairs: expected an integer of at least 2"):
            measures.sampled_cosine(x, pairs)  # type: ignore[arg-type]


def test_labels_of_any_kind() -> None:
    x = make_vectors(40)[0]
    labels = [None, "a", 3, float("nan")] * 10
    parts = measures.decompose(x, labels)
    assert parts.v_within is not None
    codes = np.tile(np.arange(4), 10)
    other = measures.decompose(x, torch.tensor(codes)).v_within
    assert other is not None
    assert parts.v_within.value == pytest.approx(other.value)


def test_a_large_offset_loses_no_digits() -> None:
    x = make_vectors(300)[0]
    assert float(measures.decompose(x + 3000).v) == pytest.approx(float(measures.decompose(x).v), rel=1e-9)
    assert float(measures.participation_ratio(x + 3000)) == pytest.approx(float(measures.participation_ratio(x)))


def test_importing_theodolite_is_enough_and_light() -> None:
    program = (
        "import sys, theodolite\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'twonn' in dir(theodolite.measures)\n"
        "assert 'torch' not in sys.modules\n"
        "assert float(theodolite.measures.mean_cosine([[1.0, 0.0], [0.0, 1.0]])) == 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
