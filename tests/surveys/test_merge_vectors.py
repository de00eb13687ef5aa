"""Plain vectors, measured in two halves and merged: vectors that belong to no units have no units to agree on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import theodolite


def test_halves_of_a_file_merge_into_the_complete_survey(tmp_path: Path) -> None:
    vectors = np.random.default_rng(3).normal(2.0, 1.0, (400, 12)).astype(np.float32)
    for name, part in {"whole": vectors, "one": vectors[:150], "other": vectors[150:]}.items():
        theodolite.measure(part, out=tmp_path / name)
    merged = theodolite.merge([tmp_path / "one", tmp_path / "other"], out=tmp_path / "merged").layers
    whole = theodolite.open(tmp_path / "whole").layers
    for column in ("n", "q", "m", "v", "mean_cosine", "effective_rank", "anisotropy_svd"):
        ours, theirs = (frame.loc[frame["population"] == "all", column].iloc[0] for frame in (merged, whole))
        # Another pilot, another centre: moved to one in float64.
        assert np.isclose(ours, theirs, rtol=1e-5), column
