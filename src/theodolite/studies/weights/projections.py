"""Words and positions flattened to the plane, together and positions alone, and how many dimensions they fill."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.periodicity import leading_scores
from theodolite.measures.spectrum import eigenvalues, shares
from theodolite.measures.untrained import foretold, untrained_tail
from theodolite.studies.flattening import FEWEST, METHODS, NEIGHBOURS, PERPLEXITY
from theodolite.studies.weights.tables import Tables

Array = NDArray[np.float64]
SAMPLE = 2000
"""Words that are drawn, chosen by the seed; positions are all drawn up to as many."""
SETTINGS = {"PCA": "", "t-SNE": f"perplexity {PERPLEXITY}", "UMAP": f"{NEIGHBOURS} neighbours"}


def projection_tables(tables: Tables, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Return projections, position_projections, projection_facts and dimension_curves."""
    spaces = {name: table.double().numpy() for name, table in tables.by_role().items() if name != "segments"}
    return tables_of_spaces(spaces, seed)


def tables_of_spaces(spaces: Mapping[str, Array], seed: int = 0, sample: int = SAMPLE) -> dict[str, pd.DataFrame]:
    """Return the tables of words and, where there are any, positions. (n, dim) each"""
    finite = {name: np.flatnonzero(np.isfinite(rows).all(axis=1)) for name, rows in spaces.items()}
    drawn = {name: _drawn(rows, sample, seed) for name, rows in finite.items()}
    width = spaces["words"].shape[1]
    alike = {name: spaces[name][rows] for name, rows in finite.items() if spaces[name].shape[1] == width}
    together, facts = _together(alike, finite, {name: drawn[name] for name in alike}, seed)
    facts += [_apart(name, rows, width) for name, rows in spaces.items() if name not in alike]
    found = {"projections": together, "dimension_curves": _curves(spaces, finite)}
    if "positions" in spaces:
        alone, more = _positions_alone(spaces["positions"], drawn["positions"], seed)
        found["position_projections"], facts = alone, [*facts, *more]
    names = [
        "table",
        "method",
        "settings",
        "space",
        "n",
        "of",
        "not_finite",
        "seed",
        "share_1",
        "share_2",
        "reason",
    ]
    told = pd.DataFrame(facts, columns=names)
    bad = {name: len(spaces[name]) - len(rows) for name, rows in finite.items()}
    told["not_finite"] = [bad.get(space, bad.get("positions")) for space in told["space"]]
    return found | {"projection_facts": told}


def _apart(name: str, rows: Array, width: int) -> dict[str, object]:
    """Say why a table is not drawn with the words."""
    why = f"its vectors have {rows.shape[1]} dimensions and those of words {width}"
    return {"table": "projections", "space": name, "n": 0, "of": len(rows), "reason": why}


def _drawn(rows: NDArray[np.int64], sample: int, seed: int) -> NDArray[np.int64]:
    """Return which rows are drawn: all, or as many as wanted by the seed, in their order."""
    if len(rows) <= sample:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, sample, replace=False))


def _together(
    kept: Mapping[str, Array],
    finite: Mapping[str, NDArray[np.int64]],
    drawn: Mapping[str, NDArray[np.int64]],
    seed: int,
) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """Flatten all spaces together: components of every row, t-SNE and UMAP of those drawn."""
    places = {name: np.searchsorted(finite[name], rows) for name, rows in drawn.items()}
    axes, centre, share = _axes(list(kept.values()))
    points = np.concatenate([kept[name][at] for name, at in places.items()])
    base = pd.DataFrame(
        {
            "space": np.repeat(list(drawn), [len(rows) for rows in drawn.values()]),
            "row": np.concatenate([*drawn.values()]),
        }
    )
    frames, facts = [base.assign(method="PCA").join(_xy((points - centre) @ axes))], []
    why = None if len(points) >= FEWEST else f"{len(points)} points are too few"
    for method, flatten in METHODS.items():
        if why is None:
            frames.append(base.assign(method=method).join(_xy(flatten(points, seed))))
    for method, settings in SETTINGS.items():
        for name, rows in drawn.items():
            told = {"table": "projections", "method": method, "settings": settings, "space": name, "seed": seed}
            told |= {"n": len(rows), "of": len(finite[name]), "reason": None if method == "PCA" else why}
            told |= {"share_1": share[0], "share_2": share[1]} if method == "PCA" else {}
            facts.append(told)
    return pd.concat(frames, ignore_index=True), facts


def _axes(tables: list[Array]) -> tuple[Array, Array, Array]:
    """Return the two leading axes of all rows together, (dim, 2), the mean, and the axes' shares of variance."""
    n = sum(len(table) for table in tables)
    centre = np.asarray(sum(table.sum(axis=0) for table in tables) / max(n, 1))
    scatter = sum((table - centre).T @ (table - centre) for table in tables)
    values, vectors = np.linalg.eigh(scatter)
    axes = vectors[:, ::-1][:, :2]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    total = values.sum()
    share = values[::-1][:2] / total if total > 0 else np.full(2, np.nan)
    return axes * signs, centre, share


def _curves(spaces: Mapping[str, Array], finite: Mapping[str, NDArray[np.int64]]) -> pd.DataFrame:
    """Return for every space how much of its variance the first k components hold, over all rows."""
    frames = []
    for name, table in spaces.items():
        rows = table[finite[name]]
        centred = rows - rows.mean(axis=0) if len(rows) else rows
        values = eigenvalues(centred.T @ centred / max(len(rows), 1))
        share, cumulative = shares(values)
        components = np.arange(1, len(share) + 1)
        frame = {"space": name, "n": len(rows), "components": components, "share": share, "cumulative": cumulative}
        frames.append(pd.DataFrame(frame))
    return pd.concat(frames, ignore_index=True)


def _positions_alone(
    positions: Array, drawn: NDArray[np.int64], seed: int
) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """Flatten positions alone, with the untrained tail and, where there is one, without."""
    tail = untrained_tail(positions, *foretold(positions))
    first = len(positions) if tail.first is None else tail.first
    kept = {"all": drawn, **({"trained": drawn[drawn < first]} if tail.first else {})}
    frames, facts = [], []
    for name, rows in kept.items():
        base = pd.DataFrame({"rows": name, "row": rows, "untrained": rows >= first})
        why = None if len(rows) >= FEWEST else f"{len(rows)} positions are too few"
        told = {"table": "position_projections", "space": name, "n": len(rows), "of": len(positions), "seed": seed}
        scores, share = (
            leading_scores(positions[rows], 2) if len(rows) > 1 else (np.full((len(rows), 2), np.nan), None)
        )
        frames.append(base.assign(method="PCA").join(_xy(scores)))
        both = {"share_1": share[0], "share_2": share[1]} if share is not None else {}
        facts.append(told | {"method": "PCA", "settings": ""} | both)
        for method, flatten in METHODS.items():
            if why is None:
                frames.append(base.assign(method=method).join(_xy(flatten(positions[rows], seed))))
            facts.append(told | {"method": method, "settings": SETTINGS[method], "reason": why})
    return pd.concat(frames, ignore_index=True), facts


def _xy(points: Array) -> pd.DataFrame:
    return pd.DataFrame({"x": points[:, 0], "y": points[:, 1]})
