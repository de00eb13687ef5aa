"""The token matrices against the definition: for each layer, population and unit the row of the table."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.report.conftest import HOSTILE, SPECIAL

from theodolite.escaping import show_token
from theodolite.report import Tables
from theodolite.report.payload.pack import unpack
from theodolite.report.payload.tokens import order_units, pack_tokens, pack_units

Make = Callable[..., Tables]
# Three bytes a number: half of the last of 15 bits.
SHORT = 2.0**-16


def naive(tables: Tables, name: str) -> dict[tuple[str, int, Any], float]:
    return {
        (row["population"], row["layer"], row["unit"]): row[name]
        for row in tables.tokens.astype({"unit": object}).to_dict("records")
    }


def listed(tables: Tables) -> list[Any]:
    """The units, most frequent first, by sorting the table."""
    most: dict[Any, float] = {}
    for unit, n in zip(tables.tokens["unit"], tables.tokens["n"], strict=True):
        most[unit] = max(most.get(unit, 0), n)
    return sorted(most, key=lambda unit: -most[unit])


def shuffled(tables: Tables, share: float = 1.0) -> Tables:
    """The same table with its rows in any order, and some of them gone."""
    return replace(tables, tokens=tables.tokens.sample(frac=share, random_state=1).reset_index(drop=True))


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_matrices_are_the_table(make_tables: Make, share: float) -> None:
    tables = shuffled(make_tables(layers=4, units=60), share)
    found, order = pack_tokens(tables), listed(tables)
    assert list(found) == ["all", "without-first", "without-massive"]
    for name in ("m", "v"):
        expected_values = naive(tables, name)
        for population, columns in found.items():
            matrix = unpack(columns[name]).reshape(4, len(order))
            for layer, row in enumerate(matrix):
                for unit, value in zip(order, row, strict=True):
                    expected = expected_values.get((population, layer, unit), math.nan)
                    assert value == pytest.approx(expected, rel=SHORT, nan_ok=True)


def test_n_is_the_largest_count_over_populations(make_tables: Make) -> None:
    tables = make_tables(layers=3, units=30)
    changed = tables.tokens.assign(n=[random.Random(i).randrange(1, 10**6) for i in range(len(tables.tokens))])
    tables = replace(tables, tokens=changed)
    order, expected_values = listed(tables), naive(tables, "n")
    for population, columns in pack_tokens(tables).items():
        assert unpack(columns["n"]).tolist() == [
            max(expected_values[population, layer, unit] for layer in range(3)) for unit in order
        ]


def test_texts_are_aligned_with_their_numbers(make_tables: Make) -> None:
    tables = shuffled(make_tables(layers=2, units=40))
    texts = dict(zip(tables.units["unit"], tables.units["text"], strict=True))
    found = pack_units(tables)
    assert found["text"] == [show_token(texts[unit]) for unit in listed(tables)]
    assert unpack(found["special"]).tolist() == [texts[unit] in SPECIAL for unit in listed(tables)]
    assert len([text for text in found["text"] if text in map(show_token, HOSTILE)]) == len(HOSTILE)


def test_units_without_a_text_are_spelled_and_invalid_flags_are_false(make_tables: Make) -> None:
    tables = make_tables(layers=1, units=3)
    tokens_ = tables.tokens.assign(unit=["Ġnew", "▁old", "bare"] * 3)
    odd = pd.DataFrame({"unit": ["Ġnew"], "text": [None], "special": pd.array([pd.NA], dtype="boolean")})
    found = pack_units(replace(tables, tokens=tokens_, units=odd))
    assert sorted(found["text"]) == ["bare", "␣new", "␣old"]
    assert unpack(found["special"]).tolist() == [0, 0, 0]
    assert pack_units(replace(tables, tokens=tokens_, units=pd.DataFrame()))["text"] == found["text"]


@pytest.mark.parametrize("value", [np.nan, None, pd.NA, math.inf])
def test_nan_and_infinity_do_not_fail(make_tables: Make, value: Any) -> None:
    tables = make_tables(layers=2, units=6)
    odd = tables.tokens.astype({"m": object, "v": object})
    odd.loc[odd["layer"] == 1, ["m", "v"]] = value
    found = pack_tokens(replace(tables, tokens=odd))
    matrix = unpack(found["all"]["m"]).reshape(2, 6)
    assert np.isfinite(matrix[0]).all()
    assert not np.isfinite(matrix[1]).any()


def test_rows_of_unknown_layers_are_omitted(make_tables: Make) -> None:
    tables = make_tables(layers=2, units=6)
    more = pd.concat([tables.tokens, tables.tokens.assign(layer=9)], ignore_index=True)
    assert pack_tokens(replace(tables, tokens=more)) == pack_tokens(tables)


def test_nothing_to_show(tables: Tables) -> None:
    for empty in (pd.DataFrame(), tables.tokens.iloc[:0], tables.tokens.drop(columns="m")):
        assert pack_tokens(replace(tables, tokens=empty)) == {}
        assert pack_units(replace(tables, tokens=empty))["text"] == []


def test_massive_vectors_are_excluded_per_layer(make_tables: Make) -> None:
    """One n per unit would be wrong if a population loses vectors at some layers only."""
    tables = make_tables(layers=4, units=30)
    frame = tables.tokens.copy()
    chosen = (frame["population"] == "without-massive") & (frame["layer"] == 2) & (frame["n"] > 5)
    frame.loc[chosen, "n"] -= 3
    found = pack_tokens(replace(tables, tokens=frame))
    assert "fewer" not in found["all"]
    listed, most = order_units(tables), unpack(found["without-massive"]["n"])
    layer, place, n = (unpack(each) for each in found["without-massive"]["fewer"])
    assert chosen.sum() > 0
    assert len(n) == chosen.sum()
    for row in frame[chosen].to_dict("records"):
        at = listed.index(row["unit"])
        where = (layer == 2) & (place == at)
        assert n[where] == row["n"]
        assert most[at] == row["n"] + 3
