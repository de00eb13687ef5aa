"""The sink study: its numbers and errors against naive definitions, and its page against its tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from manual.sinks import writes
from manual.sinks.numbers import curves, find_late, list_numbers
from manual.sinks.page import IMAGES, PAGE, TEXT, page
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
from manual.sinks.reading import anchor, find_places, is_delimiter, measure_survey, read_layer
from manual.sinks.tables import MAKE, TABLES, format_interval, read
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
def test_a_survey_is_measured_by_the_definitions_and_has_its_own_errors(
    family: str, small_model: Callable[[str], Path], tmp_path: Path
) -> None:
    corpus, folder = tmp_path / "corpus.txt", tmp_path / "survey"
    corpus.write_text("\n".join(sentences(60)) + "\n", "utf-8")
    survey = theodolite.survey(str(small_model(family)), str(corpus), units="surface", out=folder)
    found = measure_survey(folder)  # the sample has every position of so few
    delimiter = {unit.row for unit in survey.units.itertuples() if is_delimiter(unit.text, special=unit.special)}
    for layer, of_layer in found.populations.groupby("layer"):
        rows = read_layer(folder, int(layer), survey.layers)
        excluded = {"first": rows.cell % 2 == 1, "delimiters": np.isin(rows.unit, list(delimiter))}
        excluded["sinks"] = rows.cell >= 2
        excluded |= {"all": rows.cell < 0, "rest": np.any(list(excluded.values()), axis=0)}
        for row in of_layer.to_dict("records"):
            kept = ~excluded[row["population"].removeprefix("without-")]
            assert row["n"] == kept.sum()
            # a scatter matrix of the survey is float32 within a batch
            np.testing.assert_allclose(
                [row[name] for name in MEASURES], naive(rows.vectors[kept].astype(np.float64)), rtol=3e-4
            )
    of_all = found.populations[found.populations["population"] == "all"].set_index("layer")
    exact = survey.layers[survey.layers["population"] == "all"].set_index("layer")
    for layer in exact.index[:2]:
        rows = read_layer(folder, layer, survey.layers)
        group = find_places(survey.facts).loc[rows.key, "group"].to_numpy()
        left = [rows.vectors[group != one].astype(np.float64) for one in range(GROUPS)]
        errors = jackknife(np.stack([naive(part) for part in left]))
        assert exact.loc[layer, "mean_cosine_se"] == pytest.approx(errors[0], rel=1e-3)
        found_errors = [of_all.loc[layer, f"{name}_se"] for name in MEASURES]
        np.testing.assert_allclose(found_errors, errors, rtol=1e-3)
    assert (found.norms.groupby("layer")["n"].sum() == survey.layers["n"].max()).all()


def test_a_sample_adds_differences_to_the_numbers_of_the_survey() -> None:
    names = ("all", "without-first", "without-sinks")
    exact = pd.DataFrame({measure: [10.0, 20.0, 30.0] for measure in MEASURES}, index=names)
    sample = dict(zip(POPULATIONS, (np.full(4, one) for one in (1.0, 2.0, 3.0, 1.5, 3.25)), strict=True))
    found = {name: float(values[0]) for name, values in anchor(sample, exact).items()}
    expected = {
        "all": 10.0,
        "without-first": 20.0,
        "without-sinks": 30.0,
        "without-delimiters": 10.5,
        "rest": 30.25,
    }
    assert found == expected


def test_what_parts_of_a_block_write_adds_up_to_the_change_of_length(
    small_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, corpus = str(small_model("llama")), sentences(8)
    theodolite.survey(model, corpus, streams=["residual", "attn", "mlp"], out=tmp_path)
    layers = theodolite.open(tmp_path).layers
    monkeypatch.setattr(writes, "find_sinks", lambda cell: cell >= 0)  # the model has none
    table = writes.measure_writes(tmp_path)
    for block, part in table[table["sort"] == "first"].groupby("layer"):
        lengths = []
        for layer in (block - 1, block):
            rows = read_layer(tmp_path, int(layer), layers)
            first = rows.cell % 2 == 1
            norms = np.linalg.norm(rows.vectors[first].astype(np.float64), axis=1)
            lengths.append(norms[np.argsort(rows.key[first])])
        one = part.set_index("part")
        assert (one["n"] == first.sum()).all()
        np.testing.assert_allclose(one["norm_after"], np.median(lengths[1]), rtol=1e-6)
        assert one.loc["rest", ["change_min", "change_max"]].abs().max() < 1e-5 * lengths[1].max()  # float32
        # each part is one-signed or not; their sum is bounded by the sums of the extremes
        parts = one.loc[["attn", "mlp"]]
        change = lengths[1] - lengths[0]
        assert parts["change_min"].sum() - 1e-4 <= change.min()
        assert change.max() <= parts["change_max"].sum() + 1e-4


def test_a_write_along_the_state_counts_in_full_and_one_across_hardly() -> None:
    before = np.array([[10.0, 0.0]])
    for write, least, most in (([5.0, 0.0], 5.0, 5.0), ([0.0, 1.0], 0.0, 0.06), ([-4.0, 0.0], -4.0, -4.0)):
        (change,) = writes.change_of_norm(before, before + write, np.array([write]))
        assert least - 1e-12 <= change <= most + 1e-12
    rng = np.random.default_rng(0)
    states, parts = rng.normal(size=(50, 6)), rng.normal(size=(3, 50, 6))
    after = states + parts.sum(axis=0)
    total = sum(writes.change_of_norm(states, after, part) for part in parts)
    np.testing.assert_allclose(total, np.linalg.norm(after, axis=1) - np.linalg.norm(states, axis=1), atol=1e-12)


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


def test_the_page_has_every_table_number_and_figure_and_is_current() -> None:
    text, source = PAGE.read_text("utf-8"), TEXT.read_text("utf-8")
    assert page() == text, "docs/sinks.md is old: `make docs-renew` renews it"
    assert all(source.count(f"{{table: {name}}}") == 1 for name in MAKE)
    assert [name for name in list_numbers() if f"{{{name}}}" not in source] == []
    from manual.sinks.figures import FIGURES

    for name in FIGURES:
        assert f"(images/{name}.png)" in text
        assert (IMAGES / f"{name}.png").stat().st_size < 100_000


def test_the_statements_of_the_text_follow_from_the_tables() -> None:
    first, last = find_late()
    whole, without = (curves("anisotropy_svd", name) for name in ("all", "without-sinks"))
    assert without.shape[1] >= 2, "the study is on at least two corpora"
    assert (whole.loc[first:last].min() > whole.iloc[[0, -1]].max()).all()  # a bell of all positions
    assert (without.loc[first:last].max() < without.iloc[[0, -1]].min()).all()  # below both ends without sinks
    norms = read("norms")
    assert norms.loc[~norms["causal"], "massive"].sum() == 0  # text encoders have no massive position
    assert norms.loc[norms["causal"] & (norms["layer"] == first - 1), "massive"].sum() == 0
    late = norms[norms["causal"] & (norms["layer"] == first)].set_index("sort")
    assert (late.loc[["first"], "massive"] == late.loc[["first"], "n"]).all()  # all first positions are
    others = int(late.loc[["other sinks"], "massive"].sum())
    assert list_numbers()["late_others_count"] == str(others)  # and a few others
    assert 0 < others < 0.1 * late.loc[["first"], "n"].sum()
    table = read("populations")
    change = table.loc[table["causal"] & (table["population"] == "without-sinks"), "mean_cosine_difference"]
    assert change.abs().max() < 0.01
    wrote = read("writes")
    by_part = wrote[(wrote["sort"] == "first") & (wrote["layer"] == first)].set_index("part")["change_p50"]
    assert by_part["mlp"] > 100 * abs(by_part["attn"])  # the MLP writes them


def test_the_tables_are_complete() -> None:
    table = read("populations")
    assert set(table["population"]) == set(POPULATIONS)
    assert len(table) == table[["model", "corpus", "layer"]].drop_duplicates().shape[0] * len(POPULATIONS)
    assert all(path.is_file() for path in TABLES.values())
    assert (table["anisotropy_svd"].between(0, 1)).all()
