"""Surveys of encoder-decoders from a saved folder, as a user makes them: whole, again, and opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.encoder_decoders import saved
from tests.small_models import sentences

import theodolite


@pytest.mark.parametrize("name", ["T5", "Marian", "MBart", "ByT5"])
def test_both_stacks_are_surveyed(name: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join([*sentences(40, seed=3, longest=10), "x", "naïve 東京"]), encoding="utf-8")
    model = saved(name, tmp_path / "model")
    made = theodolite.survey(model, corpus, out=tmp_path / "s", max_tokens=48)
    rows = made.layers[made.layers["population"] == "all"]
    assert {name.split()[0] for name in rows["layer_name"]} == {"encoder", "decoder"}
    assert rows["n"].nunique() == 1  # as many positions are fed to the decoder as are read
    assert np.isfinite(rows["q"]).all()
    # Embeddings of the decoder are those of its tokens (and positions): T5's vary within a unit not at all.
    if name in ("T5", "ByT5"):
        embeddings = rows[rows["layer_name"].str.endswith("embeddings")]
        assert (embeddings["v_within"] <= 1e-9 * embeddings["v"]).all()
    again = theodolite.survey(model, corpus, out=tmp_path / "s", max_tokens=48, resume=True)
    opened = theodolite.open(tmp_path / "s")
    assert again.layers.equals(opened.layers)
    start = {"T5": "<pad>", "Marian": "<pad>", "MBart": "</s>", "ByT5": "<pad>"}[name]
    units = opened.units.set_index("unit")
    assert bool(units.loc[start, "special"])
