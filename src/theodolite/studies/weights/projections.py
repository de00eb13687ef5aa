"""Two-dimensional projections of words and positions, together and positions only, and their dimensions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.laboratories.periodicity import leading_scores
from theodolite.measures.laboratories.positions import predicted_shares, untrained_tail
from theodolite.measures.projection import orient_axes
from theodolite.measures.spectrum import eigenvalues, shares
from theodolite.studies.embeddings_2d import EMBEDDINGS, NEIGHBOURS, PERPLEXITY
from theodolite.studies.weights.model_tables import ModelTables

Array = NDArray[np.float64]
SAMPLE = 2000
"""Maximum number of words, and of positions, that are projected."""
FEWEST = 8
"""Points that are required for t-SNE and UMAP."""
SETTINGS = {"PCA": "", "t-SNE": f"perplexity {PERPLEXITY}", "UMAP": f"{NEIGHBOURS} neighbours"}


def projection_tables(tables: ModelTables, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Return projections, position_projections, projection_facts and dimension_curves."""
    spaces = {name: table.double().numpy() for name, table in tables.by_role().items() if name != "segments"}
    return tables_from_spaces(spaces, seed)


def tables_from_spaces(
    spaces: Mapping[str, Array], seed: int = 0, sample: int = SAMPLE
) -> dict[str, pd.DataFrame]:
    """Return the tables of words and, if there are any, positions. (n, dim) each"""
    finite = {name: np.flatnonzero(np.isfinite(rows).all(axis=1)) for name, rows in spaces.items()}
    chosen = {name: _choose_rows(rows, sample, seed) for name, rows in finite.items()}
    width = spaces["words"].shape[1]
    same_width = {name: spaces[name][rows] for name, rows in finite.items() if spaces[name].shape[1] == width}
    joint, facts = _project_jointly(same_width, finite, {name: chosen[name] for name in same_width}, seed)
    facts += [_width_fact(name, rows, width) for name, rows in spaces.items() if name not in same_width]
    tables = {"projections": joint, "dimension_curves": _dimension_curves(spaces, finite)}
    if "positions" in spaces:
        projected, more = _project_positions(spaces["positions"], chosen["positions"], seed)
        tables["position_projections"], facts = projected, [*facts, *more]
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
    fact_table = pd.DataFrame(facts, columns=names)
    bad = {name: len(spaces[name]) - len(rows) for name, rows in finite.items()}
    fact_table["not_finite"] = [bad.get(space, bad.get("positions")) for space in fact_table["space"]]
    return tables | {"projection_facts": fact_table}


def _width_fact(name: str, rows: Array, width: int) -> dict[str, object]:
    """Return the row of a table that cannot be projected together with the words."""
    reason = f"its vectors have {rows.shape[1]} dimensions, those of words {width}"
    return {"table": "projections", "space": name, "n": 0, "of": len(rows), "reason": reason}


def _choose_rows(rows: NDArray[np.int64], sample: int, seed: int) -> NDArray[np.int64]:
    """Return the rows to project: all, or a random sample determined by the seed, in their order."""
    if len(rows) <= sample:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, sample, replace=False))


def _project_jointly(
    spaces: Mapping[str, Array],
    finite: Mapping[str, NDArray[np.int64]],
    chosen: Mapping[str, NDArray[np.int64]],
    seed: int,
) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """Project all spaces together: PCA fitted to every row, t-SNE and UMAP of the chosen rows."""
    places = {name: np.searchsorted(finite[name], rows) for name, rows in chosen.items()}
    axes, centre, share = _axes(list(spaces.values()))
    points = np.concatenate([spaces[name][at] for name, at in places.items()])
    base = pd.DataFrame(
        {
            "space": np.repeat(list(chosen), [len(rows) for rows in chosen.values()]),
            "row": np.concatenate([*chosen.values()]),
        }
    )
    frames, facts = [base.assign(method="PCA").join(_xy((points - centre) @ axes.T))], []
    reason = None if len(points) >= FEWEST else f"too few points ({len(points)})"
    for method, embed in EMBEDDINGS.items():
        if reason is None:
            frames.append(base.assign(method=method).join(_xy(embed(points, seed))))
    for method, settings in SETTINGS.items():
        for name, rows in chosen.items():
            fact = {"table": "projections", "method": method, "settings": settings, "space": name, "seed": seed}
            fact |= {"n": len(rows), "of": len(finite[name]), "reason": None if method == "PCA" else reason}
            fact |= {"share_1": share[0], "share_2": share[1]} if method == "PCA" else {}
            facts.append(fact)
    return pd.concat(frames, ignore_index=True), facts


def _axes(tables: list[Array]) -> tuple[Array, Array, Array]:
    """Return the two leading axes of all rows together, (2, dim), the mean, and the axes' shares of variance."""
    n = sum(len(table) for table in tables)
    centre = np.asarray(sum(table.sum(axis=0) for table in tables) / max(n, 1))
    scatter = sum((table - centre).T @ (table - centre) for table in tables)
    values, vectors = np.linalg.eigh(scatter)
    axes = orient_axes(vectors[:, ::-1][:, :2].T)
    total = values.sum()
    share = values[::-1][:2] / total if total > 0 else np.full(2, np.nan)
    return axes, centre, share


def _dimension_curves(spaces: Mapping[str, Array], finite: Mapping[str, NDArray[np.int64]]) -> pd.DataFrame:
    """Return for every space the share of variance of the first k components, over all rows."""
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


def _project_positions(
    positions: Array, chosen: NDArray[np.int64], seed: int
) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """Project positions only: all of them and, if there is an untrained tail, the trained ones."""
    tail = untrained_tail(positions, *predicted_shares(positions))
    first = len(positions) if tail.first is None else tail.first
    subsets = {"all": chosen, **({"trained": chosen[chosen < first]} if tail.first else {})}
    frames, facts = [], []
    for name, rows in subsets.items():
        base = pd.DataFrame({"rows": name, "row": rows, "untrained": rows >= first})
        reason = None if len(rows) >= FEWEST else f"too few positions ({len(rows)})"
        fact = {
            "table": "position_projections",
            "space": name,
            "n": len(rows),
            "of": len(positions),
            "seed": seed,
        }
        scores, share = (
            leading_scores(positions[rows], 2) if len(rows) > 1 else (np.full((len(rows), 2), np.nan), None)
        )
        frames.append(base.assign(method="PCA").join(_xy(scores)))
        both = {"share_1": share[0], "share_2": share[1]} if share is not None else {}
        facts.append(fact | {"method": "PCA", "settings": ""} | both)
        for method, embed in EMBEDDINGS.items():
            if reason is None:
                frames.append(base.assign(method=method).join(_xy(embed(positions[rows], seed))))
            facts.append(fact | {"method": method, "settings": SETTINGS[method], "reason": reason})
    return pd.concat(frames, ignore_index=True), facts


def _xy(points: Array) -> pd.DataFrame:
    return pd.DataFrame({"x": points[:, 0], "y": points[:, 1]})
