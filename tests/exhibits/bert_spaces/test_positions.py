"""The exhibits of positions: drawn for tables with and without a tail, and for models without a table."""

import numpy as np
import pandas as pd
import pytest
from tests.measures.laboratories.test_periodicity import drifting_helix
from tests.measures.laboratories.test_positions import planted, trained

from theodolite.errors import InputError
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose
from theodolite.studies.laboratory import make_facts
from theodolite.studies.survey_data import SurveyData
from theodolite.studies.weights import projections
from theodolite.studies.weights.positions import relative_bias, tables_from_rows

FIGURES = ("fig11", "fig13", "fig15", "fig16", "fig17", "fig18", "fig19")


def weighed(name, tables, positions=True):
    facts = make_facts("weights", {"name": name}, seed=0)
    roles = {"words": {"name": "w", "shape": [40, 64]}, "positions": {"name": "p", "shape": [96, 64]}}
    facts["found"] = {"tables": roles if positions else {"words": roles["words"]}, "untrained_from": None}
    return SurveyData(facts, tables)


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        flat = {
            name: lambda points, seed: points[:, :2] for name in ("t-SNE", "UMAP")
        }  # these are tested elsewhere
        patch.setattr(projections, "EMBEDDINGS", flat)
        found = []
        for name, rows in (("with $tail", planted(rng)), ("without", trained(rng))):
            spaces = {"words": rng.normal(size=(40, 64)), "positions": rows}
            found.append(weighed(name, tables_from_rows(rows) | projections.tables_from_spaces(spaces, sample=90)))
    return found


@pytest.fixture(scope="module")
def rotary():
    distance = np.arange(20)
    curve = pd.DataFrame({"frequencies": "rotary_emb.inv_freq", "planes": 4, "distance": distance})
    return weighed("turning", {"position_rotary": curve.assign(similarity=np.cos(distance))}, positions=False)


@pytest.mark.parametrize("figure", FIGURES)
def test_each_is_drawn_for_one_model_and_for_two(figure, models):
    for surveys in (models[:1], models):
        plate = make(find(f"bert-spaces/{figure}"), surveys)
        compose(plate).canvas.draw()
        assert len(plate.data)


def test_captions_report_the_tail_and_the_period(models):
    caption = make(find("bert-spaces/fig13"), models).caption
    assert "positions 64 to 95 look untrained" in caption
    assert "without: no untrained positions" in caption
    assert "period" in make(find("bert-spaces/fig19"), models).caption


def test_fig18_joins_consecutive_positions(models):
    plate = make(find("bert-spaces/fig18"), models[1:])
    axes = [ax for ax in compose(plate).axes if ax.get_title()]
    points = plate.data[plate.data["method"] == "t-SNE"].sort_values("row")
    (line,) = axes[0].lines
    assert line.get_xdata() == pytest.approx(points["x"].to_numpy())


def test_fig19_looks_across_the_axis_and_draws_the_local_period():
    rows, _ = drifting_helix(np.random.default_rng(0))
    tables = tables_from_rows(np.vstack([np.ones(rows.shape[1]), rows]))
    plate = make(find("bert-spaces/fig19"), [weighed("winding", tables)])
    solid, _, local = (ax for ax in compose(plate).axes if ax.get_label() != "<colorbar>")
    points = tables["position_path"][["pc1", "pc2", "pc3"]].to_numpy()
    axis = (points[-50:].mean(axis=0) - points[:50].mean(axis=0)) / np.ptp(points, axis=0)
    seen = np.radians(solid.azim)
    across = axis[:2] @ [np.cos(seen), np.sin(seen)] / np.linalg.norm(axis[:2])
    assert abs(across) < 0.3  # the camera looks at right angles to the axis, which is curved
    assert local.lines[0].get_ydata() == pytest.approx(tables["position_path"]["local_period"].to_numpy())
    assert "The period changes: 16." in plate.caption
    old = weighed("old", {name: table for name, table in tables.items() if name != "position_periods"})
    with pytest.raises(InputError, match="made by an older version; repeat it with `theodolite weights old"):
        make(find("bert-spaces/fig19"), [old])


def test_a_model_without_a_table_has_a_curve_or_a_note(models, rotary):
    plate = make(find("bert-spaces/fig17"), [rotary])
    compose(plate).canvas.draw()
    assert "rotary frequencies" in plate.caption
    compose(make(find("bert-spaces/fig17"), [models[0], rotary])).canvas.draw()
    with pytest.raises(InputError, match="turning has none"):
        make(find("bert-spaces/fig19"), [rotary])
    assert "turning (no table of positions)" in make(find("bert-spaces/fig13"), [models[0], rotary]).caption


def test_a_bias_is_drawn_by_head():
    from transformers import T5Config, T5Model

    model = T5Model(T5Config(vocab_size=50, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=3))
    table = relative_bias(model, "")
    plate = make(find("bert-spaces/fig17"), [weighed("t5", {"position_bias": table}, positions=False)])
    compose(plate).canvas.draw()
    assert "bias" in plate.caption
    bare = table.assign(distance=pd.array([None] * len(table), dtype="Int64"))
    compose(
        make(find("bert-spaces/fig17"), [weighed("t5", {"position_bias": bare}, positions=False)])
    ).canvas.draw()
