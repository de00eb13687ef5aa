"""Places read back from keys, against the places themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.hashing import mix, unmix
from theodolite.sources.rows import locate_rows
from theodolite.studies.sample_export.export import PositionDecoder

SHA = "13d310ad3242a9d8400ace68111ef92ecb4b4b606500a47b9e250c4339814a93"
OTHER = "a" * 64


def keys(document: np.ndarray, window: np.ndarray, position: np.ndarray, sha: str = SHA) -> np.ndarray:
    none = np.zeros(len(document), dtype=np.int64)
    made = locate_rows(
        int(sha[:16], 16),
        document=document,
        window=window,
        position=position,
        unit=none,
        context=none.astype(np.uint64),
    )
    return made.key.numpy()


def facts(**settings: int) -> dict:
    return {
        "model": {"name": "m"},
        "corpus": {"sha256": SHA, "documents": 1000, "read": 2000},
        "settings": settings,
    }


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4))
def test_unmixing_undoes_mixing(parts: list[int]) -> None:
    assert unmix(mix(*parts), parts[-1]) == mix(*parts[:-1])
    assert int(unmix(mix(*parts), mix(*parts[:-1]))) == parts[-1]


def test_every_place_is_read_back() -> None:
    random = np.random.default_rng(0)
    document, window, position = random.integers(0, [[2000], [20], [512]], size=(3, 700))
    found = PositionDecoder(facts(max_tokens=512))(keys(document, window, position))
    assert found["document"].tolist() == document.tolist()
    assert found["window"].tolist() == window.tolist()
    assert found["position"].tolist() == position.tolist()


def test_windows_of_unknown_length_are_searched_further() -> None:
    document, window, position = np.array([[3, 4], [0, 1], [7, 12_543]])
    found = PositionDecoder(facts())(keys(document, window, position))
    assert found["position"].tolist() == [7, 12_543]


def test_merged_surveys_have_several_corpora() -> None:
    zero, five = np.zeros(1, dtype=np.int64), np.full(1, 5)
    survey_facts = facts(max_tokens=64)
    parts = [{"sha256": sha, "documents": 10, "read": 10} for sha in (OTHER, SHA)]
    survey_facts["corpus"] = {"sha256": "b" * 64, "documents": 20, "read": 20, "parts": parts}
    key = np.concatenate([keys(five, zero, five), keys(five, zero, five + 1, sha=OTHER)])
    found = PositionDecoder(survey_facts)(key)
    assert found["document"].tolist() == [5, 5]
    assert found["position"].tolist() == [5, 6]


def test_what_has_no_place_is_null() -> None:
    key = np.random.default_rng(0).integers(0, 2**62, 50)
    where = PositionDecoder(facts(max_tokens=64))
    found = where(key)
    assert found.isna().all(axis=None)
    assert where(key).equals(found)  # looked for once
    assert len(where(key[:0])) == 0


@pytest.mark.parametrize("again", [False, True])
def test_plain_vectors_are_rows_of_their_file(again: bool) -> None:
    rows = np.array([0, 17, 999])
    where = PositionDecoder(facts() | {"model": None})
    key = keys(rows, np.zeros(3, dtype=np.int64), np.ones(3, dtype=np.int64))
    found = where(key) if not again else (where(key[:1]), where(key))[1]
    assert found["document"].tolist() == rows.tolist()
    assert found[["window", "position"]].isna().all(axis=None)
