"""Figures of streams: what is plotted, and the errors for surveys without streams."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from tests.small_models import make, sentences

import theodolite
from theodolite.errors import InputError
from theodolite.exhibits.registry import find
from theodolite.exhibits.registry import make as make_plate
from theodolite.studies.choice import Choice
from theodolite.studies.reading import read_report_tables, read_survey_data
from theodolite.studies.sample_export.keys import export_keys

TEXTS = sentences(40, seed=3)
STREAMS = ("residual", "q/heads", "k/heads", "k", "attn", "mlp")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def folder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("streams") / "out"
    given = {"device": "cpu", "sample_size": 64, "text": False}
    theodolite.survey(str(model), TEXTS, streams=STREAMS, attention=True, out=out, **given)
    return out


def draw(name: str, folder: Path) -> tuple[pd.DataFrame, Figure]:
    found = find(name)
    plate = make_plate(found, [read_survey_data(folder, found.reads)], Choice())
    figure = Figure()
    plate.draw(figure)
    return plate.data, figure


def test_heads(folder: Path) -> None:
    data, figure = draw("streams/heads", folder)
    layers = pd.read_parquet(folder / "layers.parquet").set_index(["layer_name", "population"])
    row = data[(data["stream"] == "k") & (data["number"] == 2) & (data["head"] == 1)].iloc[0]
    assert row["mean_cosine"] == layers.loc[("block 2/k/head 1", "all"), "mean_cosine"]
    images = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    assert [image.shape for image in images[:4]] == [(2, 4), (2, 2), (2, 4), (2, 2)]
    assert images[3][1, 1] == pytest.approx(row["mean_cosine"])


def test_sinks(folder: Path) -> None:
    data, figure = draw("streams/sinks", folder)
    table = pd.read_parquet(folder / "attention.parquet")
    expected = table[table["population"] == "all"]["first_mass"].to_numpy().reshape(2, 4)
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), expected)
    assert len(data) == 8


def test_writes(folder: Path) -> None:
    data, figure = draw("streams/writes", folder)
    q = pd.read_parquet(folder / "layers.parquet").query("population == 'all'").set_index("layer_name")["q"]
    line = figure.axes[0].lines[0]
    expected = [q["block 1/attn"] / q["embeddings"], q["block 2/attn"] / q["block 1"]]
    assert line.get_ydata() == pytest.approx(expected)
    assert set(data["stream"]) == {"attn", "mlp"}


def test_figures_by_layer_and_the_report_show_the_residual_stream(folder: Path) -> None:
    data = read_survey_data(folder)
    assert list(data.layer_names.values()) == ["embeddings", "block 1", "block 2", "final norm"]
    assert set(data.layers["layer"]) == set(data.tokens["layer"]) == {0, 1, 2, 3}
    report = read_report_tables(folder)
    assert set(report["layers"]["layer"]) == set(report["projections"]["layer"]) == {0, 1, 2, 3}
    made = theodolite.load(folder).plot("mean_cosine", caption=False)
    assert max(len(line.get_xdata()) for line in made.axes[0].lines) == 4


@pytest.mark.parametrize("name", ["heads", "sinks", "writes"])
def test_a_survey_without_streams_is_told_the_command(name: str, model: Path, tmp_path: Path) -> None:
    theodolite.survey(str(model), TEXTS[:9], device="cpu", sample_size=8, text=False, out=tmp_path / "plain")
    with pytest.raises(InputError, match="--attention" if name == "sinks" else "--streams residual,"):
        draw(f"streams/{name}", tmp_path / "plain")


class TestKeys:
    """theodolite export --to keys."""

    def test_means_and_scales_are_those_of_all_keys(self, folder: Path, tmp_path: Path) -> None:
        from safetensors.numpy import load_file

        errors = export_keys(folder, tmp_path / "keys.safetensors")
        found = load_file(tmp_path / "keys.safetensors")
        assert set(found) == {f"block {n}/k.{part}" for n in (1, 2) for part in ("mean", "scale")}
        coordinates = pd.read_parquet(folder / "coordinates.parquet")
        layers = pd.read_parquet(folder / "layers.parquet").query("population == 'all'").set_index("layer_name")
        own = coordinates[(coordinates["layer"] == layers.loc["block 2/k", "layer"])].query("population == 'all'")
        assert found["block 2/k.mean"].shape[0] == 2
        np.testing.assert_allclose(found["block 2/k.mean"].ravel(), own["mu_i"], rtol=1e-6)
        np.testing.assert_allclose(
            np.square(found["block 2/k.scale"]).sum(), layers.loc["block 2/k", "v"], rtol=1e-5
        )
        # A head is a layer of its own, too: the squared norm of its mean is M.
        for head in (0, 1):
            m = np.square(found["block 2/k.mean"][head]).sum()
            assert m == pytest.approx(layers.loc[f"block 2/k/head {head}", "m"], rel=1e-5)
        assert (errors[["error_plain", "error_centred", "error_scaled"]] < 0.05).all(axis=None)

    def test_errors(self, folder: Path, model: Path, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"written to a \.safetensors file"):
            export_keys(folder, tmp_path / "keys.npz")
        with pytest.raises(InputError, match="--limit has no effect on --to keys"):
            theodolite.export(folder, to="keys", out=tmp_path / "k.safetensors", limit=3)
        theodolite.survey(str(model), TEXTS[:9], device="cpu", sample_size=8, text=False, out=tmp_path / "plain")
        with pytest.raises(InputError, match=r"has no keys; to have them, run `theodolite survey .* --streams"):
            export_keys(tmp_path / "plain", tmp_path / "k.safetensors")
