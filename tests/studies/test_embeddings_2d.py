"""The libraries of t-SNE and UMAP leave the settings of others alone."""

from __future__ import annotations

import numpy as np
import torch

from theodolite.studies.embeddings_2d import Array, _fit


def test_the_number_of_threads_is_restored() -> None:
    """UMAP's compiler sets it to the number of cores: a small model then takes a hundred times as long."""
    before = torch.get_num_threads()

    def fit(points: Array) -> Array:
        torch.set_num_threads(before + 1)
        return points[:, :2]

    assert _fit(fit, np.ones((4, 3))).shape == (4, 2)
    assert torch.get_num_threads() == before
