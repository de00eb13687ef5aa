"""Contexts: chosen by hash alone, so that parts of a corpus, merged in any order, give what the whole gives."""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared import slow
from tests.small_models import make, sentences
from transformers import AutoTokenizer

import theodolite
from theodolite.sources.text.contexts import Pieces
from theodolite.surveys import text_survey
from theodolite.tables import contexts
from theodolite.tables.contexts import COLUMNS, PER_UNIT, contexts_table, keep_smallest

ROW = st.tuples(st.sampled_from("abc"), st.integers(0, 2**62))
KEYS = st.lists(ROW, unique_by=lambda pair: pair[1], max_size=60)


def table(rows: list[tuple[str, int]]) -> pd.DataFrame:
    filled = [(unit, key, 0, 0, 0, "x ", unit, " y") for unit, key in rows]
    return pd.DataFrame(filled, columns=COLUMNS).astype(contexts_table().dtypes)


def naive(rows: list[tuple[str, int]], of_all: int) -> set[tuple[str, int]]:
    """The smallest keys of each unit, and of all, by sorting."""
    ordered = sorted(rows, key=lambda pair: pair[1])
    each = {row for unit in "abc" for row in [pair for pair in ordered if pair[0] == unit][:PER_UNIT]}
    return each | set(ordered[:of_all])


@pytest.fixture(autouse=True, scope="module")
def _few_of_all() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contexts, "OF_SAMPLE", 5)
        yield


@given(KEYS, st.integers(0, 60))
def test_the_smallest_keys_are_kept_however_the_rows_are_split(rows: list[tuple[str, int]], cut: int) -> None:
    whole = keep_smallest([table(rows)])
    assert set(zip(whole["unit"], whole["key"], strict=True)) == naive(rows, contexts.OF_SAMPLE)
    parts = [keep_smallest([table(rows[cut:])]), keep_smallest([table(rows[:cut])])]
    pd.testing.assert_frame_equal(keep_smallest(parts), whole)


TEXTS = sentences(40, seed=4)
GIVEN = {"device": "cpu", "sample_size": 64, "layers": "0"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("bert", tmp_path_factory.mktemp("bert"))


@pytest.mark.parametrize("units", [slow("id"), "word"])
def test_merged_parts_have_the_contexts_of_the_whole(
    model: Path, monkeypatch: pytest.MonkeyPatch, units: str
) -> None:
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 500)
    whole = theodolite.survey(str(model), TEXTS, units=units, **GIVEN)
    parts = [theodolite.survey(str(model), TEXTS, units=units, part=f"{i}/3", **GIVEN) for i in (2, 0, 1)]
    found = whole.tables.contexts
    pd.testing.assert_frame_equal(theodolite.merge(parts).tables.contexts, found)
    n = whole.tokens.query("population == 'all'").set_index("unit")["n"]
    counts = found["unit"].value_counts()
    assert set(counts.index) == set(n.index)
    assert (counts >= np.minimum(n, PER_UNIT).reindex(counts.index)).all()
    for row in found.to_dict("records"):
        assert (row["before"] + row["text"] + row["after"]).strip()
        if units == "word":  # the text is as the model reads it, so that the unit of an uncased model is in it
            assert row["text"].replace(" ", "") == row["unit"] or "[UNK]" in row["text"]


def test_of_a_large_corpus_documents_are_chosen_by_hash(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 500)
    every = set(theodolite.survey(str(model), TEXTS, **GIVEN).tables.contexts["document"])
    monkeypatch.setattr("theodolite.sources.text.contexts.CHARACTERS_READ", sum(map(len, TEXTS)) // 3)
    whole = theodolite.survey(str(model), TEXTS, **GIVEN).tables.contexts
    assert 0 < whole["document"].nunique() < len(every)
    parts = [theodolite.survey(str(model), TEXTS, part=f"{i}/2", **GIVEN) for i in range(2)]
    pd.testing.assert_frame_equal(theodolite.merge(parts).tables.contexts, whole)


def test_text_can_be_turned_off(model: Path, tmp_path: Path) -> None:
    private = theodolite.survey(str(model), TEXTS, text=False, out=tmp_path / "private", **GIVEN)
    assert not len(private.tables.contexts)
    opened = theodolite.open(tmp_path / "private")
    assert not len(opened.tables.contexts)
    assert len(opened.tables.neighbours)
    pd.testing.assert_frame_equal(private.tokens, theodolite.survey(str(model), TEXTS, **GIVEN).tokens)


class NotVisited(dict[int, bytes]):
    """Known tokens: looked up one by one, never visited all, which took longer than reading the corpus."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("all known tokens were visited")

    def keys(self) -> KeysView[int]:
        raise AssertionError("all known tokens were visited")


def test_reading_a_context_does_not_visit_all_tokens_known_so_far(model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    pieces = Pieces(tokenizer, _known=NotVisited())
    ids = tokenizer(TEXTS[0])["input_ids"]
    assert pieces.join(ids) == pieces.join(ids[:2]) + pieces.join(ids[2:])
    assert len(pieces._known) == len(set(ids))
