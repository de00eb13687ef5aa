"""Contexts: chosen by hash alone, so that parts of a corpus, merged in any order, give what the whole gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import theodolite
from theodolite.tables.contexts import COLUMNS, OF_SAMPLE, PER_UNIT, contexts_table, keep_smallest

KEYS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2**62)), unique_by=lambda pair: pair[1], max_size=60)


def table(rows: list[tuple[str, int]]) -> pd.DataFrame:
    filled = [(unit, key, 0, 0, 0, "x ", unit, " y") for unit, key in rows]
    return pd.DataFrame(filled, columns=COLUMNS).astype(contexts_table().dtypes)


def naive(rows: list[tuple[str, int]], of_all: int) -> set[tuple[str, int]]:
    """The smallest keys of each unit, and of all, by sorting."""
    ordered = sorted(rows, key=lambda pair: pair[1])
    each = {row for unit in "abc" for row in [pair for pair in ordered if pair[0] == unit][:PER_UNIT]}
    return each | set(ordered[:of_all])


@pytest.fixture(autouse=True)
def _few_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.tables.contexts.OF_SAMPLE", 5)


@given(KEYS, st.integers(0, 60))
def test_the_smallest_keys_are_kept_however_the_rows_are_split(rows: list[tuple[str, int]], cut: int) -> None:
    import theodolite.tables.contexts as module

    whole = keep_smallest([table(rows)])
    assert set(zip(whole["unit"], whole["key"], strict=True)) == naive(rows, module.OF_SAMPLE)
    parts = [keep_smallest([table(rows[cut:])]), keep_smallest([table(rows[:cut])])]
    pd.testing.assert_frame_equal(keep_smallest(parts), whole)


TEXTS = [
    "The cat sat on the mat, and the dog looked at the cat.",
    "A naïve café in Zürich: “déjà vu”, said the dog.",
    "=1+1 <script>alert(1)</script> the end",
    "Nobody saw the cat in the garden that day.",
] * 3


@pytest.fixture(scope="module")
def whole(tiny_bert: Path) -> theodolite.Survey:
    return theodolite.survey(tiny_bert, TEXTS)


def test_occurrences_are_in_the_documents(whole: theodolite.Survey) -> None:
    found = whole.tables.contexts
    assert set(found["unit"]) == set(whole.units["unit"])
    for row in found.to_dict("records"):
        around = (row["before"] + row["text"] + row["after"]).replace(" ", "")
        read = TEXTS[row["document"]].lower().replace(" ", "")
        if not row["text"].startswith("["):
            assert row["text"].strip()
            assert around in read or "[UNK]" in around or not read.isascii()


def test_text_can_be_turned_off(tiny_bert: Path, whole: theodolite.Survey, tmp_path: Path) -> None:
    private = theodolite.survey(tiny_bert, TEXTS, text=False, out=tmp_path / "private")
    assert not len(private.tables.contexts)
    assert not len(theodolite.open(tmp_path / "private").tables.contexts)
    pd.testing.assert_frame_equal(private.tokens, whole.tokens)


def test_the_sample_is_among_the_contexts(whole: theodolite.Survey) -> None:
    assert OF_SAMPLE > 5  # what the fixture sets
    positions = whole.state.positions
    n = whole.tokens.query("layer == 0 and population == 'all'").set_index("unit")["n"]
    counts = whole.tables.contexts["unit"].value_counts()
    assert positions == n.sum()
    assert (counts >= np.minimum(n, PER_UNIT).reindex(counts.index)).all()
