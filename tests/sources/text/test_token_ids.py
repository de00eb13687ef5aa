"""Tokens without a row in the embedding table are named before the model runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.small_models import load, sentences

from theodolite.errors import InputError
from theodolite.surveys.api import survey

DOCUMENTS = sentences(20)


@pytest.fixture
def short(small_model: Any, tmp_path: Path) -> Path:
    """A model whose embedding table has fewer rows than its tokenizer has tokens."""
    shutil.copytree(small_model("bert"), tmp_path / "model")
    model, tokenizer = load(tmp_path / "model")
    used = sorted({token for text in DOCUMENTS for token in tokenizer(text)["input_ids"]})
    model.resize_token_embeddings(used[-1])  # one row too few for the last of these tokens
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("units", ["id", "word"])
def test_a_token_beyond_the_table_is_named(short: Path, units: str) -> None:
    with (
        pytest.warns(UserWarning, match=r"more ids than the \d+ rows of the embedding table of .*/model: a text"),
        pytest.raises(
            InputError, match=r"gives '\S+' the id \d+, but the embedding table of the model has \d+ rows"
        ),
    ):
        survey(short, DOCUMENTS, units=units)


def test_tokens_that_do_not_occur_do_no_harm(short: Path) -> None:
    _, tokenizer = load(short)
    with pytest.warns(UserWarning, match="more ids than"):
        rows = survey(short, ["the"], layers="0").layers
    assert len(tokenizer) > rows["types"].max()
