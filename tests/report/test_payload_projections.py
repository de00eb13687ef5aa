"""The sample on its planes, as the page's script reads it: every point against its row of the table."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from theodolite.escaping import show_token
from theodolite.report import Tables
from theodolite.report.payload.layers import pack_by_layer, pack_scales, pack_spectra
from theodolite.report.payload.pack import pack_signed, unpack
from theodolite.report.payload.sample import limit_points
from theodolite.report.payload.sample import pack_projections as pack
from theodolite.report.payload.tokens import order_units, pack_units
from theodolite.report.sections import select_sections

Make = Callable[..., Tables]
# Three bytes a number: half of the last of 15 bits.
SHORT = 2.0**-16
POINTS = 40


def pack_projections(tables: Tables) -> dict[str, Any]:
    return pack(tables, {unit: place for place, unit in enumerate(order_units(tables))})


@pytest.fixture
def drawn(make_tables: Make) -> Tables:
    tables = make_tables(layers=3, units=60)
    return replace(tables, projections=planes(tables, ["all", "without-massive"]))


def planes(tables: Tables, populations: list[str]) -> pd.DataFrame:
    """Points anywhere: the same vectors at every layer, the first of them gone at the last one."""
    rng = np.random.default_rng(7)
    names = [*tables.units["unit"].iloc[: POINTS - 1], "never seen"]
    parts = []
    for population in populations:
        for layer in range(3):
            x, y, norm = rng.normal(size=(3, POINTS)) * 10.0 ** rng.integers(-3, 4)
            frame = pd.DataFrame({"row": np.arange(POINTS) + 5, "unit": pd.Series(names, dtype=object)})
            frame = frame.assign(layer=layer, population=population, x=x, y=y, norm=norm, share=0.1 * (layer + 1))
            parts.append(frame.iloc[1:] if layer == 2 else frame)
    return pd.concat(parts, ignore_index=True)


def read(layers: list[dict[str, Any] | None], at: int, name: str) -> np.ndarray:
    """A column as the script finds it: here, or at the nearest layer before that has it."""
    return next(unpack(layer[name]) for layer in reversed(layers[: at + 1]) if layer and name in layer)


def test_points_are_the_table(drawn: Tables) -> None:
    texts = pack_units(drawn)["text"]
    found = pack_projections(drawn)
    assert list(found) == ["all", "without-massive"]
    words = {row["unit"]: show_token(row["text"]) for row in drawn.units.to_dict("records")}
    table = drawn.projections
    for population, layers in found.items():
        for at in range(3):
            mine = table[(table["population"] == population) & (table["layer"] == at)]
            for name in ("x", "y", "norm"):
                assert unpack(layers[at][name]) == pytest.approx(mine[name].to_numpy(), rel=SHORT)
            assert read(layers, at, "row").tolist() == mine["row"].tolist()
            places = read(layers, at, "unit")
            assert [texts[place] if place >= 0 else None for place in places] == [
                words.get(unit) for unit in mine["unit"]
            ]
            # A unit that the page does not hold is known to be one.
            assert places[(mine["unit"] == "never seen").to_numpy()].tolist() == [-2]
            assert layers[at]["share"] == pytest.approx(0.1 * (at + 1))


def test_repeated_values_are_stored_once(drawn: Tables) -> None:
    layers = pack_projections(drawn)["all"]
    both = {"row", "unit"}
    assert [both & set(layer) for layer in layers] == [both, set(), both]


def test_missing_columns_and_rows_without_units(drawn: Tables) -> None:
    bare = replace(drawn, projections=drawn.projections[["layer", "population", "x", "y"]])
    layer = pack_projections(bare)["all"][0]
    assert layer["share"] is None
    assert "norm" not in layer
    assert unpack(layer["unit"]).tolist() == [-1] * POINTS
    assert unpack(layer["row"]).tolist() == list(range(POINTS))
    frames = drawn.projections.assign(unit=None, share=np.nan)
    layer = pack_projections(replace(drawn, projections=frames))["all"][0]
    assert layer["share"] is None
    assert unpack(layer["unit"]).tolist() == [-1] * POINTS


def test_a_layer_without_points_is_none(drawn: Tables) -> None:
    rows = drawn.projections[drawn.projections["layer"] != 1]
    layers = pack_projections(replace(drawn, projections=rows))["all"]
    assert [layer is None for layer in layers] == [False, True, False]
    assert pack_projections(replace(drawn, projections=pd.DataFrame())) == {}


def test_signed_numbers_are_packed() -> None:
    assert unpack(pack_signed([-1, 0, 25_000])).tolist() == [-1, 0, 25_000]


def test_curves_are_the_tables(make_tables: Make) -> None:
    tables = make_tables(layers=2, units=30)
    share = np.linspace(1, 0, 300) / np.linspace(1, 0, 300).sum()
    spectrum = pd.DataFrame({"layer": 1, "population": "all", "rank": range(1, 301), "share": share})
    scale = pd.DataFrame({"layer": 1, "population": "all", "scale": [4, 1, 2], "dimension": [5.0, 3.0, 4.0]})
    tables = replace(tables, spectra=spectrum.assign(cumulative=share.cumsum()), scales=scale)
    none, found = pack_spectra(tables)["all"]
    rank = unpack(found["rank"])
    # Fewer points than ranks, each where it was: the first and the last are always among them.
    assert none is None
    assert (rank[0], rank[-1]) == (1, 300)
    assert len(rank) <= 160
    assert unpack(found["share"]) == pytest.approx(share[rank - 1], rel=1e-6)
    assert unpack(found["cumulative"]) == pytest.approx(share.cumsum()[rank - 1], rel=1e-6)
    curve = pack_scales(tables)["all"][1]
    assert unpack(curve["scale"]).tolist() == [1, 2, 4]
    assert unpack(curve["dimension"]).tolist() == [3, 4, 5]
    assert np.isnan(unpack(curve["se"])).all()
    assert pack_by_layer(tables, pd.DataFrame({"layer": [0]}), {"x"}, lambda part: part) == {}


def test_parts_are_packed_with_their_data(make_tables: Make, drawn: Tables) -> None:
    def keys(tables: Tables) -> list[str]:
        return [part.key for part in select_sections([tables])]

    whole = keys(drawn)
    order = [key for key in whole if key in ("profiles", "decomposition", "norms", "spectra", "projection")]
    assert order == ["profiles", "decomposition", "norms", "projection"]
    old = replace(drawn, layers=drawn.layers[["layer", "population", "mean_cosine"]], projections=pd.DataFrame())
    assert not {"decomposition", "norms", "spectra", "projection"} & set(keys(old))
    undefined = replace(drawn, layers=drawn.layers.assign(norm_p50=np.nan))
    assert "norms" not in keys(undefined)


def test_of_a_sample_that_is_cut_the_population_like_without_sinks_is_omitted(drawn: Tables) -> None:
    table = drawn.projections
    more = table[table["population"] == "all"]
    tables = replace(drawn, projections=pd.concat([table, more.assign(population="without-sinks")]))
    rows = len(tables.projections)
    assert limit_points(tables, rows) is tables.projections
    cut = limit_points(tables, rows // 2)
    assert set(cut["population"]) == set(tables.projections["population"]) - {"without-massive"}
    assert set(limit_points(drawn, len(table) // 2)["population"]) == set(table["population"])
