"""Few wide vectors as narrow ones: n points of any width lie in n - 1 dimensions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def narrowed(vectors: Tensor, *, centred: bool = True) -> Tensor:
    """Return (n, n) float64 coordinates with the distances of the vectors (n, dim), whatever their width.

    They are principal coordinates, from the products of the vectors with each other; equal vectors get equal ones.
    Centred, distances are as good as they can be; not centred, angles are kept too. Cost: n^2 dim + n^3.

    >>> points = narrowed(torch.tensor([[0.0, 3, 0, 0, 9], [4, 0, 0, 0, 9], [0, 3, 0, 0, 9]]))
    >>> round(float((points[0] - points[1]).norm()), 9), bool((points[0] == points[2]).all())
    (5.0, True)
    """
    known: dict[bytes, int] = {}
    of_row = [known.setdefault(row.tobytes(), len(known)) for row in vectors.numpy()]
    rows = np.unique(of_row, return_index=True)[1]
    x = vectors.numpy()[rows].astype(np.float64)
    if centred:
        x -= x.mean(axis=0)
    values, axes = np.linalg.eigh(x @ x.T)
    points = np.zeros((len(rows), len(vectors)))
    points[:, : len(rows)] = axes * np.sqrt(np.maximum(values, 0.0))
    return torch.from_numpy(points[of_row])
