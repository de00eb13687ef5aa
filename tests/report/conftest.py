"""An invented survey: plausible numbers, hostile words."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from theodolite.report import Tables

POPULATIONS = ("all", "without-first", "without-massive")
HOSTILE = [
    "<script>alert(1)</script>",
    "&amp;",
    "\"'><img src=x onerror=alert(2)>",
    "abc\u202edef",
    "\ud800",
    "\U0001f600",
    "",
    "x" * 300,
    "\n",
    "##ing",
    " the",
    "\u0301",
    "\x00\x1b[31m",
    "</style></title></svg><script>alert(3)</script>",
]
SPECIAL = ["[CLS]", "[SEP]"]
DIM = 384


def units_table(count: int) -> pd.DataFrame:
    texts = (SPECIAL + HOSTILE + [f"word{i}" for i in range(count)])[:count]
    keys = [f"{i}:{text[:30]}" for i, text in enumerate(texts)]
    # An object column, as a lone surrogate has no place in an Arrow string.
    return pd.DataFrame(
        {
            "unit": pd.Series(keys, dtype=object),
            "row": range(count),
            "id": range(count),
            "text": pd.Series(texts, dtype=object),
            "special": [text in SPECIAL for text in texts],
            "tokens_per_unit": 1.0,
        }
    )


def layer_row(layer: int, last: int, population: str, peak: float, without: float) -> dict[str, Any]:
    depth = layer / max(last, 1)
    bump = np.exp(-(((depth - 0.6) / 0.25) ** 2))
    massive = 0.4 < depth < 0.9 and peak > without
    svd = 0.03 + (peak if population == "all" and massive else without) * bump * 0.95
    norm = 1.4 * 8**depth
    q = norm**2 * (9 if population == "all" and massive else 1)
    m, within = (0.1 + 0.5 * bump) * q, 0.6 * (0.9 - 0.5 * bump) * q * depth
    ratio = 1 / svd**1.3
    n = 131072 - (1024 if population != "all" else 0)
    name = "embeddings" if layer == 0 else "final norm" if layer == last and last > 1 else f"block {layer}"
    quantiles = dict(
        zip(
            ("min", "p01", "p05", "p25", "p50", "p75", "p95", "p99", "max"),
            norm
            * np.array([0.3, 0.6, 0.72, 0.9, 1, 1.1, 1.35, 1.6, 150 if population == "all" and massive else 2]),
            strict=True,
        )
    )
    return {
        "layer": layer,
        "layer_name": name,
        "library_index": layer,
        "population": population,
        "n": n,
        "types": 500 if population == "all" else 498,
        "dim": DIM,
        "q": q,
        "m": m,
        "v": q - m,
        "v_within": within,
        "v_between": q - m - within,
        "filtered_q": 0.9 * q,
        "filtered_m": 0.9 * m,
        "filtered_v": 0.9 * (q - m),
        "filtered_v_within": 0.9 * within,
        "filtered_v_between": 0.9 * (q - m - within),
        "units_used": 412,
        "mean_cosine": 0.02 + (peak if population == "all" else without) * bump * 0.7,
        "mean_cosine_se": 0.004,
        "anisotropy_svd": svd,
        "participation_ratio": ratio,
        "effective_rank": 1.9 * ratio + 3,
        "iso_score": (ratio - 1) / (DIM - 1),
        "q_cv": 0.11 + 0.1 * abs(depth - 0.5) + 0.3 * (population == "all" and massive),
        "tradeoff_slope": np.nan if layer == 0 else -0.9 + 0.4 * abs(depth - 0.5),
        "tradeoff_r2": np.nan
        if layer == 0
        else 0.93 - 0.5 * abs(depth - 0.5) - 0.4 * (population == "all" and massive),
        "twonn": 9 + 9 * bump + 0.2 * POPULATIONS.index(population),
        "twonn_se": 0.4,
        "twonn_n": 4096,
        **{f"norm_{key}": value for key, value in quantiles.items()},
        "zero": 0,
        "nonfinite": 0,
        "massive": 1024 if massive and population != "without-massive" else 0,
        "sample_duplicates": 12 if layer == 0 else 0,
        "undefined": json.dumps(
            {"tradeoff_r2": 'V is 0 for every "id" unit', "tradeoff_slope": "V is 0 <everywhere>"}
        )
        if layer == 0
        else None,
    }


def tokens_table(layers: int, populations: Sequence[str], units: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frames = []
    for layer in range(layers):
        for population in populations:
            m = rng.gamma(8, 2.0, len(units)) * (1 + layer)
            v = 40.0 * (1 + layer) - 0.8 * m + rng.normal(0, 2, len(units))
            # The hostile ones are the farthest out, so that they are sure to be listed.
            m[: 2 + len(HOSTILE)] += np.linspace(30, 20, 2 + len(HOSTILE))[: len(m)] * (1 + layer)
            v = np.abs(v)
            n = np.maximum(1, (20000 / np.arange(1, len(units) + 1) ** 1.2)).astype(int)
            frames.append(
                pd.DataFrame(
                    {
                        "layer": layer,
                        "population": population,
                        "unit": units["unit"],
                        "n": n,
                        "q": m + v,
                        "m": m,
                        "v": v,
                        "m_unbiased": m,
                        "v_unbiased": v,
                    }
                )
            )
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def facts(name: str) -> dict[str, Any]:
    return {
        "schema": 1,
        "model": {
            "name": name,
            "sha256": "3f" * 32,
            "revision": None,
            "dtype": "float32",
            "device": "cpu",
            "architecture": "bert",
        },
        "tokenizer": {"kind": "WordPiece", "sha256": "a1" * 32, "vocabulary": 30522},
        "corpus": {
            "name": "chitchat",
            "sha256": "0b" * 32,
            "documents": 10000,
            "filters": {"least_characters": 8, "languages": ["en"]},
            "seed": 0,
        },
        "units": "id",
        "populations": list(POPULATIONS),
        "pilot": {"documents": 256, "massive_factor": 10},
        "versions": {"theodolite": "0.1.0", "torch": "2.9", "python": "3.11"},
        "times": {"started": "2026-01-05T10:00:00Z", "seconds": 81.4},
        "counts": {"documents": 10000, "positions": 131072},
    }


def make(
    name: str = "minilm-l6 on chitchat",
    layers: int = 8,
    populations: Sequence[str] = POPULATIONS,
    units: int = 500,
    peak: float = 0.98,
    without: float = 0.12,
) -> Tables:
    """Make a survey whose anisotropy is about `peak`, and about `without` the first position."""
    made = [table.copy() for table in _tables(layers, tuple(populations), units, peak, without)]
    return Tables(name, facts(name.split(" ")[0]), *made)


@cache
def _tables(
    layers: int, populations: tuple[str, ...], units: int, peak: float, without: float
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Compute the tables of layers, tokens and units once: a survey has copies of them."""
    table = units_table(units)
    rows = [
        layer_row(layer, layers - 1, population, peak, without)
        for layer in range(layers)
        for population in populations
    ]
    return pd.DataFrame(rows), tokens_table(layers, populations, table), table


def with_curves(tables: Tables, ranks: int = 48, points: int = 60) -> Tables:
    """Add spectra that fall off, dimension by scale, and a sample on a plane."""
    rng = np.random.default_rng(1)
    pairs = list(tables.layers[["layer", "population"]].itertuples(index=False, name=None))
    share = np.exp(-np.arange(ranks) / 9)
    share /= share.sum()
    spectra = [
        {
            "layer": layer,
            "population": name,
            "rank": range(1, ranks + 1),
            "share": share,
            "cumulative": share.cumsum(),
        }
        for layer, name in pairs
    ]
    scale = 2 ** np.arange(5)
    scales = [
        {
            "layer": layer,
            "population": name,
            "scale": scale,
            "dimension": 9 - np.log2(scale) + layer / 4,
            "se": 0.1,
        }
        for layer, name in pairs
    ]
    units = pd.Series([tables.units["unit"].iloc[i % len(tables.units)] for i in range(points)], dtype=object)
    planes = [
        {"layer": layer, "population": name, "row": range(points), "unit": units, "share": 0.4 + 0.01 * layer}
        | {"x": rng.normal(0, 2, points), "y": rng.normal(0, 1, points), "norm": rng.gamma(9, 1, points)}
        for layer, name in pairs
        if name != "without-first"
    ]
    made = {
        name: pd.concat(map(pd.DataFrame, rows), ignore_index=True) if rows else pd.DataFrame()
        for name, rows in (("spectra", spectra), ("scales", scales), ("projections", planes))
    }
    return replace(tables, **made)


def vectors(name: str = "tokens.npz", **columns: Any) -> Tables:
    """Make a survey of vectors in groups, as `theodolite measure` leaves one: no model, and one layer."""
    tables = make(name, layers=1, units=3, populations=("all", "without-massive"))
    corpus = {"name": name, "documents": 131072, "sha256": "0b" * 32}
    of_vectors = {"model": None, "tokenizer": None, "corpus": corpus, "units": "group"}
    ordinary = {
        "layer_name": "vectors", "types": 3, "tradeoff_r2": 0.5, "tradeoff_slope": -0.4, "undefined": None,
        "rogue_coordinate": 7, "rogue_cosine_share": 0.977, "rogue_half": 1,
    }  # fmt: skip
    layers = tables.layers.assign(**(ordinary | columns))
    units = tables.units.assign(text=["cat", "dog", "bird"], special=False)
    return with_curves(replace(tables, facts={**tables.facts, **of_vectors}, layers=layers, units=units))


@pytest.fixture
def make_tables() -> Callable[..., Tables]:
    return make


@pytest.fixture
def tables() -> Tables:
    return make()
