"""Do tests of two stores keep their error rate, and what do they find? Splits of one store, and planted shifts.

    python -m benchmarks.two_stores --splits 1000 --repeats 60
    python -m benchmarks.two_stores --splits 300 --repeats 60 --documents 1000 --rows-each 1

Documents have a centre of their own, about which their rows spread. A store is divided at random by documents; the
share of splits in which a test has p <= 0.05 should be 5%, and that in which any adjusted p has at most 5%. The
same is counted with every row as a document, and with the MMD of alibi-detect, which permutes rows: both must
fail if documents have several rows. Then the second half is shifted, and the share of repetitions that find it is
counted. With one row each, rows are independent, and the detections of both can be compared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.results import Row
from benchmarks.runner import run_from_command_line
from theodolite.stores.compare import compare_stores
from theodolite.stores.reader import ArrayReader

Array = NDArray[np.float64]
DIM = 64
PEER = {"alibi-detect": "0.13.0", "toml": "0.10.2", "dill": "0.4.1", "catalogue": "2.0.10"}


def draw_store(documents: int, rows_each: int, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Return rows with axes of unequal length, half of their variance between documents; and their documents."""
    rng = np.random.default_rng(seed)
    document = np.repeat(np.arange(documents), rows_each)
    rows = rng.standard_normal((documents, DIM))[document] + rng.standard_normal((len(document), DIM))
    return 0.5 + rows * np.linspace(1, 0.2, DIM), document


def plant_shifts(rows_each: int) -> dict[str, Callable[[Array], Array]]:
    """Return the changes of the second half of a store by name."""
    rng = np.random.default_rng(7)
    direction = rng.standard_normal(DIM)
    direction /= np.linalg.norm(direction)
    turn = np.linalg.qr(np.eye(DIM) + 0.05 * rng.standard_normal((DIM, DIM)))[0]
    turn = turn * np.sign(np.diag(turn))

    def add_cluster(x: Array) -> Array:
        few = np.arange(len(x)) // rows_each % 10 == 0  # one document of ten
        return np.where(few[:, None], 4 * direction + 0.5 * x, x)

    def raise_coordinate(x: Array) -> Array:
        return x + 0.6 * (np.arange(DIM) == 40)

    return {
        "mean": lambda x: x + 0.6 * direction,
        "rotation": lambda x: x @ turn,
        "scale": lambda x: 1.1 * x,
        "new cluster": add_cluster,
        "one coordinate": raise_coordinate,
    }


def split(documents: int, rows_each: int, seed: int) -> list[tuple[Array, NDArray[np.int64]]]:
    """Return two halves of a store, divided by documents at random."""
    x, document = draw_store(documents, rows_each, 0)
    second = np.random.default_rng(seed).permutation(documents)[document] % 2 == 1
    return [(x[side], document[side]) for side in (~second, second)]


def compare_halves(
    halves: list[tuple[Array, NDArray[np.int64]]], groups: str | None, seed: int
) -> dict[str, float]:
    """Return p by test, and the smallest adjusted p as "any"."""
    readers = [
        ArrayReader(x, name="half", digest=f"{seed} {side}", columns={"document": document})
        for side, (x, document) in enumerate(halves)
    ]
    found = compare_stores(
        readers[0], readers[1], groups=groups, rows=500, permutations=299, metric="euclidean", seed=seed
    )
    table = found.tables["tests"]
    return {**dict(zip(table["test"], table["p"], strict=True)), "any": float(table["p_adjusted"].min())}


def load_peer() -> Callable[[Array, Array], float]:
    """Return the p-value of alibi-detect's MMD with its default settings."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        for name, version in PEER.items():
            stack.enter_context(peers.unpacked(name, version))
        from alibi_detect.cd import MMDDrift  # type: ignore[import-not-found]
    logging.getLogger("alibi_detect").setLevel(logging.ERROR)

    def test(x: Array, y: Array) -> float:
        found = MMDDrift(x.astype(np.float32), backend="pytorch", device="cpu").predict(y.astype(np.float32))
        return float(found["data"]["p_val"])

    return test


def count(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the share of p <= 0.05 by test."""
    return {name: float(np.mean([each[name] <= 0.05 for each in found])) for name in found[0]}


def run(
    quick: bool = False, splits: int = 1000, repeats: int = 60, documents: int = 200, rows_each: int = 5
) -> dict[str, Any]:
    """Count false alarms and detections, ours and the peer's."""
    if quick:
        splits, repeats, documents = 10, 3, 40
    peer = None if quick else load_peer()
    halves = [split(documents, rows_each, seed) for seed in range(splits)]
    by_row = halves[: max(3, splits // 5)]
    alarms = {
        "documents": count([compare_halves(half, "document", seed) for seed, half in enumerate(halves)]),
        "rows": count([compare_halves(half, None, seed) for seed, half in enumerate(by_row)]),
    }
    if peer:
        alarms["alibi-detect"] = count([{"any": peer(a, b)} for (a, _), (b, _) in halves[:repeats]])
    power: dict[str, dict[str, float]] = {}
    for name, change in plant_shifts(rows_each).items():
        found = []
        for seed in range(repeats):
            (a, left), (b, right) = split(documents, rows_each, seed)
            each = compare_halves([(a, left), (change(b), right)], "document", seed)
            found.append({**each, "alibi-detect": peer(a, change(b))} if peer else each)
        power[name] = count(found)
    rows = [
        Row(f"false alarms of {splits:,} splits by document, over 5%", alarms["documents"]["any"] / 0.05, 1.0),
        Row("false alarms if rows are permuted, over 5%", alarms["rows"]["any"] / 0.05),
    ]
    return {"rows": [row.to_dict() for row in rows], "alarms": alarms, "power": power}


if __name__ == "__main__":
    run_from_command_line(run, __doc__, splits=1000, repeats=60, documents=200, rows_each=5)
