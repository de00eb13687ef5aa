"""Tables of positions and projections: against definitions, for planted tables and for models without one."""

import numpy as np
import pandas as pd
import pytest
import torch
from tests.measures.laboratories.test_periodicity import drifting_helix
from tests.measures.laboratories.test_positions import planted, trained
from tests.small_models import MODELS, TOKENIZERS

from theodolite.studies.weights import positions
from theodolite.studies.weights.model_tables import ModelTables
from theodolite.studies.weights.positions import (
    first_positions,
    position_tables,
    relative_bias,
    relative_similarity,
    rotary_curves,
    tables_from_rows,
    unit_rows,
)
from theodolite.studies.weights.projections import tables_from_spaces

ROWS = planted(np.random.default_rng(0))


@pytest.fixture(scope="module")
def found():
    return tables_from_rows(ROWS)


def cosine(one, other):
    return one @ other / np.sqrt(one @ one * (other @ other))


def test_relative_similarity_is_the_mean_cosine_at_each_distance(found):
    table = found["position_relative"].set_index("lag")
    for lag in (0, 1, 40):
        expected = [cosine(ROWS[i], ROWS[i + lag]) for i in range(1, 64 - lag)]  # neither position 0 nor the tail
        assert table.loc[lag, "n"] == len(expected)
        assert table.loc[lag, "mean"] == pytest.approx(np.mean(expected), abs=1e-12)
    assert table["sinusoid"].iloc[0] == 1


def test_first_positions_are_cosines_by_pair(found):
    table = found["position_first"]
    assert sorted(table["position"].unique()) == list(range(1, 11))
    assert (table["lag"] == table["other"] - table["position"]).all()
    row = table.iloc[37]
    assert row["cosine"] == pytest.approx(cosine(ROWS[int(row["position"])], ROWS[int(row["other"])]), abs=1e-12)


def test_the_tail_is_reported_and_marked(found):
    assert found["position_tail"]["first"].tolist() == [64]
    assert found["position_rows"]["untrained"].sum() == 32
    assert len(found["position_path"]) == 63  # the path is of trained positions but the first
    none = tables_from_rows(trained(np.random.default_rng(1)))
    assert pd.isna(none["position_tail"]["first"].iloc[0])


def test_the_period_is_reported_along_the_positions():
    rows, turns = drifting_helix(np.random.default_rng(0))
    helix = tables_from_rows(np.vstack([np.ones(rows.shape[1]), rows]))
    row, periods, path = helix["position_helix"].iloc[0], helix["position_periods"], helix["position_path"]
    assert row["significant"]
    assert row["surrogates"] == 999
    assert row["turns"] == pytest.approx(turns, abs=0.3)
    assert row["steps_per_turn"] == pytest.approx(382 / turns, rel=0.02)
    assert periods["period"].tolist() == pytest.approx([16.6, 25.9], rel=0.03)
    assert periods["turns"].sum() == pytest.approx(row["turns"])
    assert str(periods["first"].iloc[1]) == row["changes"]
    assert path["phase"].iloc[-1] == row["turns"]
    assert path["local_period"].between(14, 29).all()


@pytest.mark.weights
@pytest.mark.slow
def test_the_positions_of_a_trained_model_turn_as_often_as_their_period_says():
    from theodolite.studies.text_model import load_text_model

    loaded = load_text_model("minilm-l6")
    found = position_tables(ModelTables.of(loaded.network, loaded.tokenizer))
    row = found["position_helix"].iloc[0]
    assert row["p"] <= 0.05
    assert row["low"] < row["steps_per_turn"] < row["high"]
    assert found["position_path"]["local_period"].median() == pytest.approx(row["steps_per_turn"], rel=0.05)


def test_heat_maps_hold_the_table_and_its_cosines(found):
    wide = found["position_values"].pivot(index="position", columns="coordinate", values="value").to_numpy()
    assert wide == pytest.approx(ROWS, rel=1e-6)  # float32
    cosines = found["position_cosines"].set_index(["position", "other"])["cosine"]
    assert cosines[(3, 90)] == pytest.approx(cosine(ROWS[3], ROWS[90]), abs=1e-6)


def test_large_tables_are_subsampled_for_heat_maps_only(monkeypatch):
    monkeypatch.setattr(positions, "HEAT_MAP_SIZE", 20)
    rows = np.random.default_rng(2).normal(size=(30, 8)).cumsum(axis=0)
    thinned = tables_from_rows(rows)
    assert thinned["position_cosines"]["position"].max() == 28
    assert len(thinned["position_cosines"]) == 15**2
    assert len(thinned["position_rows"]) == 30


def test_a_row_of_zeros_has_no_cosine():
    units = unit_rows(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]]))
    assert np.isnan(units[1]).all()
    table = relative_similarity(units, 2)
    assert table["n"].tolist() == [2, 0, 1]
    assert np.isnan(table["mean"].iloc[1])


@pytest.mark.parametrize("rows", [np.ones((1, 8)), np.ones((2, 8)), np.full((40, 8), np.nan)])
def test_degenerate_tables_have_a_reason(rows):
    found = tables_from_rows(rows)
    assert found["position_helix"]["reason"].iloc[0]
    assert np.isnan(found["position_helix"]["period"].iloc[0])
    assert len(first_positions(unit_rows(rows))) == len(found["position_first"])


def small(family):
    torch.manual_seed(0)
    tokenizer = TOKENIZERS[family]()
    return ModelTables.of(MODELS[family](len(tokenizer)).eval(), tokenizer)


def test_a_random_model_has_an_untrained_table():
    found = position_tables(small("bert"))
    assert found["position_tail"]["first"].tolist() == [0]


def test_a_model_with_rope_has_a_similarity_curve():
    tables = small("llama")
    found = position_tables(tables)
    assert list(found) == ["position_rotary"]
    config = tables.model.config
    width = config.hidden_size // config.num_attention_heads
    theta = 10000.0 ** (-np.arange(0, width, 2) / width)
    expected = np.cos(7 * theta).mean()
    curve = found["position_rotary"].set_index("distance")["similarity"]
    assert curve[0] == 1
    assert curve[7] == pytest.approx(expected, abs=1e-6)  # the model holds its frequencies in float32


def test_frequencies_come_from_the_config_where_no_buffer_holds_them():
    class Bare(torch.nn.Module):
        config = type("Config", (), {"rotary_dim": 4, "hidden_size": 16, "num_attention_heads": 2})()

    curve = rotary_curves(Bare()).set_index("distance")["similarity"]
    assert curve[1] == pytest.approx((np.cos(1) + np.cos(0.01)) / 2)


def test_t5_has_its_bias_by_distance():
    from transformers import T5Config, T5Model

    torch.manual_seed(0)
    model = T5Model(T5Config(vocab_size=50, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=3)).eval()
    table = relative_bias(model, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    names = table["table"].unique()
    assert len(names) == 2  # encoder and decoder
    attention = model.encoder.block[0].layer[0].SelfAttention
    expected = attention.compute_bias(9, 9)[0]  # (heads, query, key)
    encoder = table[table["table"] == names[0]].set_index(["head", "distance"])["bias"]
    for query, key in ((0, 8), (8, 0), (4, 4), (2, 5)):
        assert encoder[(1, key - query)] == pytest.approx(float(expected[1, query, key]), abs=1e-7)
    decoder = table[table["table"] == names[1]]
    assert decoder["distance"].max() == 0  # nothing looks ahead


@pytest.mark.slow
def test_projections_are_repeatable_and_report_their_settings():
    rng = np.random.default_rng(3)
    spaces = {"words": rng.normal(size=(90, 64)), "positions": ROWS}
    one, two = (tables_from_spaces(spaces, seed=5, sample=30) for _ in range(2))
    for name, table in one.items():
        pd.testing.assert_frame_equal(table, two[name])  # bit for bit
    facts = one["projection_facts"].query("table == 'projections' and method == 't-SNE'").set_index("space")
    assert facts["n"].tolist() == [30, 30]
    assert facts["of"].tolist() == [90, 96]
    assert set(one["projections"]["method"]) == {"PCA", "t-SNE", "UMAP"}
    assert set(one["position_projections"]["rows"]) == {"all", "trained"}


@pytest.mark.slow
def test_pca_and_dimension_curves_are_those_of_all_rows():
    rng = np.random.default_rng(4)
    spaces = {"words": rng.normal(size=(50, 6)) * [5, 3, 1, 1, 1, 1], "positions": rng.normal(size=(3, 6))}
    found = tables_from_spaces(spaces, sample=7)
    every = np.concatenate(list(spaces.values()))
    _, scales, axes = np.linalg.svd(every - every.mean(axis=0))
    drawn = found["projections"].query("method == 'PCA' and space == 'words'")
    expected = (spaces["words"][drawn["row"]] - every.mean(axis=0)) @ axes[:2].T
    assert np.abs(drawn[["x", "y"]].to_numpy()) == pytest.approx(np.abs(expected), abs=1e-9)  # up to sign
    facts = found["projection_facts"].iloc[0]
    assert facts["share_1"] == pytest.approx(scales[0] ** 2 / (scales**2).sum())
    curve = found["dimension_curves"].query("space == 'words'")["cumulative"].to_numpy()
    wanted_values = np.sort(np.linalg.eigvalsh(np.cov(spaces["words"].T)))[::-1]
    assert curve == pytest.approx(np.cumsum(wanted_values) / wanted_values.sum())
    assert "too few" in found["projection_facts"].query("table == 'position_projections'")["reason"].iloc[-1]


def test_tables_of_other_widths_are_not_projected_together():
    rng = np.random.default_rng(5)
    found = tables_from_spaces({"words": rng.normal(size=(5, 6)), "positions": rng.normal(size=(5, 4))})
    assert set(found["projections"]["space"]) == {"words"}
    assert "4 dimensions, those of words 6" in str(found["projection_facts"]["reason"].tolist())
