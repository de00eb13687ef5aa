"""Called from Python, functions print nothing: no progress bar of transformers appears between other output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.small_models import sentences
from transformers.utils import logging

import theodolite


@pytest.fixture
def model(small_model: Callable[[str], Path]) -> Iterator[Path]:
    """Give a model, with the progress bars of transformers enabled as they are in a new process."""
    folder = small_model("bert")
    before = logging.is_progress_bar_enabled()
    logging.enable_progress_bar()
    yield folder
    assert logging.is_progress_bar_enabled()  # for the user's own models
    if not before:
        logging.disable_progress_bar()


@pytest.mark.parametrize("verb", ["survey", "weights", "block", "batches"])
def test_no_bar_while_a_model_is_loaded(
    verb: str, model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "survey"
    if verb == "weights":
        theodolite.weights(model, projections=False)
    elif verb == "block":
        theodolite.block(model, sequences=2, length=8, norms=(0.0, 1.0), directions=1, spread_sequences=2)
    else:
        theodolite.survey(model, sentences(40), out=folder, sample_size=64)
    if verb == "batches":
        theodolite.batches(folder, size=256, count=1, corpus=sentences(40))
    assert capfd.readouterr() == ("", "")
