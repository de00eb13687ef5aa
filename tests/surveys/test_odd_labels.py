"""Labels that UTF-8 cannot encode: groups of vectors, and folders of pictures whose names are invalid text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import theodolite
from theodolite.state.state import State
from theodolite.tables.tables import make_tables

VECTORS = np.random.default_rng(5).normal(1.0, 1.0, (90, 6))
LABELS = ["a", "b\udc80", "ü"] * 30
SHOWN = {"a": "a", "b\udc80": "b\\udc80", "ü": "ü"}
EXACT = 1e-9
"""Relative: float64 sums of 30 vectors about a centre near them."""


def test_groups_are_written_and_read_again(tmp_path: Path) -> None:
    made = theodolite.measure(VECTORS, groups=LABELS, out=tmp_path / "out")
    again = theodolite.open(tmp_path / "out")
    assert set(made.units["unit"]) == set(made.units["text"]) == set(SHOWN.values())
    for table in ("layers", "tokens", "units"):
        pd.testing.assert_frame_equal(getattr(made, table), getattr(again, table), check_exact=True)
    again.save(tmp_path / "again")
    assert theodolite.open(tmp_path / "again").facts["files"] == again.facts["files"]


def test_their_numbers_are_those_of_their_vectors() -> None:
    tokens = theodolite.measure(VECTORS, groups=LABELS).tokens
    rows = tokens[tokens["population"] == "all"].set_index("unit")
    for label, shown in SHOWN.items():
        mine = VECTORS[[each == label for each in LABELS]]
        assert rows.loc[shown, "n"] == len(mine)
        assert rows.loc[shown, "v"] == pytest.approx(mine.var(0).sum(), rel=EXACT)


def test_a_label_that_is_spelled_like_one_is_another_group() -> None:
    labels = ["b\udc80", "b\\udc80"] * 45
    rows = theodolite.measure(VECTORS, groups=labels).tokens.query("population == 'all'")
    want = [VECTORS[start::2].var(0).sum() for start in (0, 1)]
    assert sorted(rows["v"]) == pytest.approx(sorted(want), rel=EXACT)


def test_one_in_memory_merges_with_one_that_was_opened(tmp_path: Path) -> None:
    one = theodolite.measure(VECTORS[:45], groups=LABELS[:45])
    theodolite.measure(VECTORS[45:], groups=LABELS[45:], out=tmp_path / "other")
    merged = theodolite.merge([one, tmp_path / "other"], out=tmp_path / "merged")
    counts = merged.tokens[merged.tokens["population"] == "all"].set_index("unit")["n"]
    assert counts.to_dict() == dict.fromkeys(SHOWN.values(), 30)


def test_labels_of_pictures_too(tmp_path: Path) -> None:
    """Units that are numbered as they are met keep their own spelling in the state, and are shown by the other."""
    made = theodolite.measure(VECTORS, groups=LABELS)
    units = made.state.units
    code = units.code("b\\udc80")
    assert code is not None
    units.kind = "label"
    units.replace(code, units.known[code]._replace(key="b\udc80", text="b\udc80"))
    tables = make_tables(made.state, made.layer_objects(), ["all"])
    assert set(tables.tokens["unit"]) == set(tables.units["text"]) == set(SHOWN.values())
    made.state.save(tmp_path)
    frames = {index: fold.frame for index, fold in made.state.folds.items()}
    assert State.load(tmp_path, frames, type(units)("label")).units.known[code].key == "b\udc80"
