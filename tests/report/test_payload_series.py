from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from theodolite.errors import InputError
from theodolite.report.payload.pack import unpack
from theodolite.report.payload.series import build_series_payload
from theodolite.report.tables import Steps

STEPS, LAYERS = (0, 10, 1000), ("embeddings", "block 1", "block 2", "final norm")
SHORT = 2.0**-16  # three bytes keep 16 bits of the mantissa
SINGLE = 2.0**-23


def series(name: str = "tiny", **changes: float) -> Steps:
    rng = np.random.default_rng(3)
    rows = [
        {
            "step": step,
            "layer": layer,
            "layer_name": words,
            "population": population,
            "dim": 8,
            "mean_cosine": rng.uniform(),
            "mean_cosine_se": 0.01 * (layer + 1),
            "effective_rank": rng.uniform(1, 8),
            "twonn": np.nan if layer == 1 and step == 10 else rng.uniform(2, 5),
            "undefined": json.dumps({"mev": "no unit occurs twice"}),
        }
        for step in STEPS
        for population in ("all", "without-massive")
        for layer, words in enumerate(LAYERS)
    ]
    return Steps(name, {"model": {"name": name}}, pd.DataFrame(rows).assign(**changes))


def at(made: Steps, column: str, population: str = "all") -> np.ndarray:
    """(steps, layers), by definition"""
    rows = made.table[made.table["population"] == population]
    return np.array(
        [[rows[(rows["step"] == s) & (rows["layer"] == i)][column].item() for i in range(4)] for s in STEPS]
    )


def test_a_measure_is_a_matrix_of_steps_by_layers():
    made = series()
    data = build_series_payload(made)
    assert data["steps"] == list(STEPS)
    assert [layer["name"] for layer in data["layers"]] == list(LAYERS)
    found = unpack(data["profiles"]["all"]["columns"]["mean_cosine"]).reshape(3, 4)
    np.testing.assert_allclose(found, at(made, "mean_cosine"), rtol=SHORT)


def test_rows_in_any_order_and_missing_rows_keep_the_matrix_aligned():
    made = series()
    shuffled = made.table.sample(frac=1, random_state=0)
    lacking = shuffled[~((shuffled["step"] == 10) & (shuffled["layer"] == 2))]
    data = build_series_payload(Steps("tiny", {}, lacking))
    found = unpack(data["profiles"]["all"]["columns"]["mean_cosine"]).reshape(3, 4)
    expected = at(made, "mean_cosine")
    expected[1, 2] = np.nan
    np.testing.assert_allclose(found, expected, rtol=SHORT)


def test_means_are_over_the_layers_that_are_defined_at_every_step():
    made = series()
    payload = build_series_payload(made)["averages"]["all"]
    cosines = at(made, "mean_cosine")
    np.testing.assert_allclose(
        unpack(payload["blocks"]["mean_cosine"]["mean"]), cosines[:, 1:3].mean(1), rtol=2 * SINGLE
    )
    np.testing.assert_allclose(
        unpack(payload["with-embeddings"]["mean_cosine"]["mean"]), cosines[:, :3].mean(1), rtol=2 * SINGLE
    )
    np.testing.assert_allclose(unpack(payload["blocks"]["mean_cosine"]["se"]), 0.025, rtol=2 * SINGLE)
    assert "se" not in payload["blocks"]["effective_rank"]
    # TwoNN of block 1 is undefined at step 10: a mean over the blocks defined at each step would jump there.
    twonn = at(made, "twonn")
    assert payload["blocks"]["twonn"]["over"] == 1
    np.testing.assert_allclose(unpack(payload["blocks"]["twonn"]["mean"]), twonn[:, 2], rtol=2 * SINGLE)
    assert not np.allclose(np.nanmean(twonn[:, 1:3], axis=1)[0], twonn[0, 2])


def test_attention_is_averaged_over_blocks():
    made = series()
    rows = [
        {
            "step": step,
            "layer": layer,
            "layer_name": f"block {layer}",
            "population": "all",
            "documents": 5,
            "attention_max": 0.1 * layer + 0.001 * step,
            "attention_max_se": 0.02,
        }
        for step in (0, 10)
        for layer in (1, 2)
    ]
    payload = build_series_payload(Steps("tiny", {}, made.table, pd.DataFrame(rows)))["attention"]["all"]
    assert (payload["steps"], payload["documents"]) == ([0, 10], 5)
    np.testing.assert_allclose(unpack(payload["measures"]["attention_max"]["mean"]), [0.15, 0.16], rtol=2 * SINGLE)
    assert build_series_payload(made)["attention"] == {}


def test_batches_of_the_training_are_averaged_over_blocks():
    """They end windows, so that the first step has none; a missing layer is not averaged."""
    made = series()
    batches = made.table[made.table["step"] > 0].drop(columns="twonn").assign(passes=3)
    data = build_series_payload(Steps("tiny", {}, made.table, batches=batches))["batches"]
    assert data["steps"] == [10, 1000]
    (means,) = data["averages"]["all"].values()
    expected = at(made, "mean_cosine")[1:, 1:3].mean(1)
    np.testing.assert_allclose(unpack(means["mean_cosine"]["mean"]), expected, rtol=2 * SINGLE)
    assert "twonn" not in means
    lacking = batches[~((batches["step"] == 10) & (batches["layer"] == 2))]
    data = build_series_payload(Steps("tiny", {}, made.table, batches=lacking))["batches"]
    (means,) = data["averages"]["all"].values()
    assert means["mean_cosine"]["over"] == 1
    assert build_series_payload(made)["batches"] == {}


def test_undefined_columns_are_omitted_with_their_reason():
    data = build_series_payload(series(mev=np.nan, hubness_skew=np.inf))
    payload = data["profiles"]["all"]
    assert not {"mev", "hubness_skew"} & set(payload["columns"])
    assert payload["reasons"] == {"mev": "no unit occurs twice"}
    assert "mev" not in data["averages"]["all"]["blocks"]
    json.dumps(data, allow_nan=False)


def test_a_name_is_data():
    assert build_series_payload(series("<b>\u202e"))["name"] == "<b>U+202E"


def test_one_step_is_a_series_too():
    made = series()
    data = build_series_payload(Steps("tiny", {}, made.table[made.table["step"] == 10]))
    assert data["steps"] == [10]
    assert unpack(data["profiles"]["all"]["columns"]["mean_cosine"]).shape == (4,)


def test_tables_without_steps_are_rejected():
    with pytest.raises(InputError, match=r"expected the columns step, layer and population; 'tiny' lacks step"):
        Steps.of(Steps("tiny", {}, series().table.drop(columns="step")))
    with pytest.raises(InputError, match=r"expected name, facts and table; missing: table"):
        Steps.of({"name": "tiny", "facts": {}})
