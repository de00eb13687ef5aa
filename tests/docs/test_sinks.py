"""The sink study: its numbers and errors against naive definitions, and its page against its tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from manual.sinks.page import IMAGES, MAKE, PAGE, TABLES, format_interval, page, read
from manual.sinks.populations import (
    DELIMITER,
    FIRST,
    MEASURES,
    POPULATIONS,
    SINK,
    add_up,
    leave_one_out,
    list_norms,
    list_rows,
    list_shapes,
    measure_populations,
)
from manual.sinks.reading import measure_survey
from manual.sinks.second_pass import measure_corpus
from numpy.typing import NDArray
from tests.small_models import load, sentences

import theodolite
from theodolite.batch import GROUPS

Array = NDArray[np.float64]


def naive(x: Array) -> Array:
    """The measures by their definitions: all pairs, and the singular values of the centred vectors."""
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = units @ units.T
    pairs = cosines[~np.eye(len(x), dtype=bool)].mean()
    variances = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2
    shares = variances / variances.sum()
    rank = np.exp(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
    return np.array([pairs, shares.max(), rank, (x**2).sum(axis=1).mean()])


def layer(seed: int, rows: int = 400, dim: int = 5) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    """Vectors with long ones at the first positions, all kinds of position, and groups of documents."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(GROUPS), rows // GROUPS)
    first = np.arange(rows) % 10 == 0
    sink = first | (rng.random(rows) < 0.02)
    kind = FIRST * first + SINK * sink + DELIMITER * (rng.random(rows) < 0.2)
    x = rng.normal(size=(rows, dim)) + rng.normal(size=(GROUPS, dim))[group] + 1.0
    x[sink] += 300.0 * rng.normal(size=dim)
    return x, kind, group


def test_numbers_and_errors_are_those_of_the_definition() -> None:
    x, kind, group = layer(0)
    sums = add_up(x, kind, group)
    rows = {row["population"]: row for row in list_rows(sums, *measure_populations(sums))}
    without = {}
    for name, excluded in POPULATIONS.items():
        kept = (kind & excluded) == 0
        without[name] = np.stack([naive(x[kept & (group != one)]) for one in range(GROUPS)])
        expected, errors = naive(x[kept]), jackknife(without[name])
        assert rows[name]["n"] == kept.sum()
        for place, measure in enumerate(MEASURES):
            assert rows[name][measure] == pytest.approx(expected[place], rel=1e-9)
            assert rows[name][f"{measure}_se"] == pytest.approx(errors[place], rel=1e-6)
    for name in list(POPULATIONS)[1:]:
        errors = jackknife(without[name] - without["all"])
        for place, measure in enumerate(MEASURES):
            apart = rows[name][measure] - rows["all"][measure]
            assert rows[name][f"{measure}_difference"] == pytest.approx(apart, rel=1e-9)
            assert rows[name][f"{measure}_difference_se"] == pytest.approx(errors[place], rel=1e-6)


def jackknife(values: Array) -> Array:
    g = len(values)
    return np.asarray(np.sqrt((g - 1) / g * ((values - values.mean(axis=0)) ** 2).sum(axis=0)))


def test_the_error_of_a_difference_is_its_spread_over_corpora_and_unpaired_errors_are_not() -> None:
    apart, paired, unpaired = [], [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        group, first = np.repeat(np.arange(GROUPS), 30), np.arange(GROUPS * 30) % 10 == 0
        x = 2.0 + rng.normal(size=(len(group), 4)) + (1.5 * rng.normal(size=(GROUPS, 4)))[group]
        sums = add_up(x, FIRST * first, group)
        row = {one["population"]: one for one in list_rows(sums, *measure_populations(sums))}
        apart.append(row["without-first"]["mean_cosine_difference"])
        paired.append(row["without-first"]["mean_cosine_difference_se"])
        unpaired.append(np.hypot(row["all"]["mean_cosine_se"], row["without-first"]["mean_cosine_se"]))
    spread = np.std(apart, ddof=1)  # known to 5%
    assert 0.75 < np.sqrt(np.mean(np.square(np.array(paired, dtype=float)))) / spread < 1.35
    assert np.mean(unpaired) > 5 * spread


def test_leaving_out_adds_and_does_not_subtract() -> None:
    parts = np.array([1.0, 1e17, 3.0, 5.0])
    assert [float(one) for one in leave_one_out(parts)][1] == 9.0
    assert parts.sum() - parts[1] != 9.0


def test_the_bell_and_the_growth_are_differences_of_layers_with_the_same_documents() -> None:
    layers = [layer(seed)[0] * scale for seed, scale in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0))]
    _, kind, group = layer(1)
    measured = [measure_populations(add_up(x, kind, group)) for x in layers]
    shapes = list(list_shapes(*zip(*measured, strict=True)))
    kept = (kind & POPULATIONS["rest"]) == 0
    curve = [naive(x[kept])[1] for x in layers]
    peak, end = 1 + int(np.argmax(curve[1:3])), 0 if curve[0] > curve[3] else 3
    (bell,) = (one for one in shapes if (one["population"], one["shape"]) == ("rest", "bell"))
    assert (bell["layer"], bell["value"]) == (peak, pytest.approx(curve[peak] - curve[end]))
    by_group = [
        naive(layers[peak][kept & (group != g)]) - naive(layers[end][kept & (group != g)]) for g in range(20)
    ]
    assert bell["se"] == pytest.approx(jackknife(np.stack(by_group))[1], rel=1e-6)
    (growth,) = (one for one in shapes if (one["population"], one["shape"]) == ("all", "growth"))
    assert growth["value"] == pytest.approx(np.log10(naive(layers[3])[3] / naive(layers[1])[3]))


def test_norms_are_by_sort_of_position() -> None:
    norms, kind = np.array([9.0, 2.0, 50.0, 1.0, 3.0]), np.array([FIRST, 0, SINK, DELIMITER, 0])
    rows = {row["sort"]: row for row in list_norms(norms, kind, norms > 10, np.ones(5))}
    assert [rows[sort]["n"] for sort in ("first", "other sinks", "delimiters", "others")] == [1, 1, 1, 2]
    assert (rows["other sinks"]["massive"], rows["first"]["massive"]) == (1, 0)
    assert rows["others"]["norm_p50"] == 2.5


def test_a_weighted_row_counts_as_several() -> None:
    x, kind, group = layer(5)
    weight = np.random.default_rng(0).integers(1, 4, size=len(x)).astype(float)
    sums = add_up(x, kind, group, weight)
    repeated = np.repeat(np.arange(len(x)), weight.astype(int))
    expected = naive(x[repeated])
    found = measure_populations(sums)[0]["all"]
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-9)
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    pairs = np.outer(weight, weight) * ~np.eye(len(x), dtype=bool)  # of different rows: a copy is no pair
    assert found[0] == pytest.approx((pairs * (units @ units.T)).sum() / pairs.sum())


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_survey_and_a_second_pass_agree_and_have_the_errors_of_the_survey(
    family: str, small_model: Callable[[str], Path], tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(sentences(60)) + "\n", "utf-8")
    survey = theodolite.survey(str(small_model(family)), str(corpus), units="surface", out=tmp_path / "survey")
    passed = measure_corpus(tmp_path / "survey", str(corpus), 60)
    sampled = measure_survey(tmp_path / "survey")  # the sample has every position of so few
    for population in ("all", "without-first", "without-sinks"):
        theirs = survey.layers[survey.layers["population"] == population].set_index("layer")
        for found in (passed, sampled):
            ours = found.populations[found.populations["population"] == population].set_index("layer")
            assert ours["n"].tolist() == theirs["n"].tolist()
            for column in MEASURES:  # a scatter matrix of the survey is float32 within a batch
                np.testing.assert_allclose(ours[column], theirs[column], rtol=2e-4)
    both = [found.populations[found.populations["population"] == "rest"] for found in (passed, sampled)]
    for column in MEASURES:
        np.testing.assert_allclose(*(found[column] for found in both), rtol=1e-6)
    of_all = passed.populations[passed.populations["population"] == "all"]
    exact = survey.layers.loc[survey.layers["population"] == "all", "mean_cosine_se"]
    np.testing.assert_allclose(of_all["mean_cosine_se"], exact, rtol=1e-3)
    assert sampled.norms.equals(passed.norms) or np.allclose(sampled.norms["n"], passed.norms["n"])
    assert (sampled.norms.groupby("layer")["n"].sum() == survey.layers["n"].max()).all()


def test_copies_of_the_first_token_have_its_state(small_model: Callable[[str], Path]) -> None:
    model, _ = load(small_model("llama"))
    with torch.no_grad():
        states = model(torch.tensor([[5, 5, 5, 7, 5]]), output_hidden_states=True).hidden_states
    for state in states:
        torch.testing.assert_close(state[0, 1:3], state[0, :1].expand(2, -1), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(states[-1][0, 4], states[-1][0, 0], rtol=1e-3)  # after another token it is different


def test_an_interval_has_the_decimals_of_its_half_width() -> None:
    assert format_interval(0.123456, 0.0102) == "0.12 ± 0.02"
    assert format_interval(float("nan"), 0.1) == "–"
    assert format_interval(-0.0312, 0.002) == "\u22120.031 ± 0.004"


def test_the_page_has_every_table_and_figure_and_is_current() -> None:
    text = PAGE.read_text("utf-8")
    assert page() == text, "docs/sinks.md is old: `make docs-renew` renews it"
    assert all(text.count(f"<!-- table: {name} -->") == 1 for name in MAKE)
    from manual.sinks.figures import FIGURES

    for name in FIGURES:
        assert f"(images/{name}.png)" in text
        assert (IMAGES / f"{name}.png").stat().st_size < 100_000


def test_the_tables_are_complete() -> None:
    table = read("populations")
    assert set(table["population"]) == set(POPULATIONS)
    assert len(table) == table[["model", "corpus", "layer"]].drop_duplicates().shape[0] * len(POPULATIONS)
    assert all(path.is_file() for path in TABLES.values())
    assert (table["anisotropy_svd"].between(0, 1)).all()
    decoders = table[table["causal"]]
    assert decoders["corpus"].nunique() >= 2, "the study is on at least two corpora"
