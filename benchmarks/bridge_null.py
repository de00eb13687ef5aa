"""The CKA of `theodolite bridge` if nothing is shared, and whether its error is that of other documents.

    python -m benchmarks.bridge_null

The first positions of documents run through the model once, at three layers. Then, for pairs of layers:

--permutations  the positions of one side are permuted: all of them; or documents, and the positions of each, so
                that what positions of one document share stays together
--splits        the documents are split into random halves, whose CKA should differ by their two errors
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from benchmarks.check_alarms import LAYERS, States, read_documents, read_states
from benchmarks.results import Row
from benchmarks.runner import run_from_command_line
from theodolite.studies.bridge.positions import GROUPS
from theodolite.studies.bridge.spaces import Space, SpaceSums, cka_rows
from theodolite.studies.text_model import load_text_model

X, Y = Space(0, 0), Space(1, 0)
PAIRS = ((LAYERS[0], LAYERS[-1]), (LAYERS[1], LAYERS[-1]))


def measure(x: Tensor, y: Tensor) -> dict[str, Any]:
    """Return the row of the CKA table of documents in ten groups. (documents, positions, dim) each"""
    sums = SpaceSums(dict.fromkeys([(X, Y), (X, X), (Y, Y)], GROUPS))
    group = (torch.arange(len(x)) % GROUPS).repeat_interleave(x.shape[1])
    sums.update({X: x.flatten(0, 1), Y: y.flatten(0, 1)}, group)
    return cka_rows(sums, [(X, Y)])[0]


def cut_documents(states: States, positions: int) -> dict[int, Tensor]:
    """Return the first positions of the documents that have as many. (documents, positions, dim) by layer"""
    order = np.lexsort((states.position, states.document))
    long = np.bincount(states.document, minlength=states.documents) >= positions
    kept = order[(states.position[order] < positions) & long[states.document[order]]]
    return {layer: x[torch.from_numpy(kept)].unflatten(0, (-1, positions)) for layer, x in states.layers.items()}


def permute(x: Tensor, y: Tensor, what: str, count: int) -> dict[str, float]:
    """Return the mean and spread of the CKA over permutations of the positions or documents of y."""
    found = []
    for seed in range(count):
        random = torch.Generator().manual_seed(seed)
        moved = y.flatten(0, 1)[torch.randperm(y.shape[0] * y.shape[1], generator=random)].view_as(y)
        if what == "documents":
            within = torch.rand(y.shape[:2], generator=random).argsort(1)[:, :, None]
            moved = y.take_along_dim(within, 1)[torch.randperm(len(y), generator=random)]
        found.append(measure(x, moved))
    cka, se = (np.array([row[name] for row in found]) for name in ("cka", "cka_se"))
    limit = stats.t.ppf(0.975, GROUPS - 1)
    return {
        "mean": float(cka.mean()),
        "spread": float(cka.std(ddof=1)),
        "largest": float(cka.max()),
        "mean_se": float(se.mean()),
        "beyond_error": float((np.abs(cka) > limit * se).mean()),
        "biased_mean": float(np.mean([row["cka_biased"] for row in found])),
    }


def split(x: Tensor, y: Tensor, count: int) -> dict[str, float]:
    """Return the spread of the differences of two halves of the documents, in units of their errors."""
    apart: list[float] = []
    for seed in range(count):
        order: NDArray[np.int64] = np.random.default_rng(seed).permutation(len(x))
        halves = [measure(x[part], y[part]) for part in (order[: len(x) // 2], order[len(x) // 2 :])]
        one, other = halves
        apart.append((one["cka"] - other["cka"]) / np.hypot(one["cka_se"], other["cka_se"]))
    limit = stats.t.ppf(0.975, 2 * (GROUPS - 1))
    return {"spread": float(np.std(apart)), "beyond_error": float((np.abs(apart) > limit).mean())}


def run(
    *,
    quick: bool = False,
    documents: int = 400,
    words: int = 24,
    positions: int = 24,
    permutations: int = 100,
    splits: int = 100,
    model: str = "minilm-l6",
    corpus: str = "chitchat",
) -> dict[str, Any]:
    """Measure permutations and half-splits for two pairs of layers."""
    if quick:
        documents, words, positions, permutations, splits = 40, 12, 8, 3, 3
    states = cut_documents(
        read_states(load_text_model(model), read_documents(corpus, documents, words)), positions
    )
    rows, found = [], {}
    for a, b in PAIRS:
        x, y = states[a], states[b]
        whole = measure(x, y)
        found[f"layers {a} and {b}"] = numbers = {
            "documents": len(x),
            "cka": whole["cka"],
            "cka_se": whole["cka_se"],
            "positions permuted": permute(x, y, "positions", permutations),
            "documents permuted": permute(x, y, "documents", permutations),
            "halves": split(x, y, splits),
        }
        for what in ("positions permuted", "documents permuted", "halves"):
            share = numbers[what]["beyond_error"]
            rows.append(Row(f"{what}, layers {a} and {b}: beyond the 95% interval", share, 0.05, "").to_dict())
    return {"rows": rows, **found}


if __name__ == "__main__":
    run_from_command_line(
        run, __doc__, documents=400, words=24, positions=24, permutations=100, splits=100
    )  # fmt: skip
