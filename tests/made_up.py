"""Surveys made up from vectors, so that every number has the definition itself as its oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.studies.surveyed import Surveyed

Array = NDArray[np.float64]
POPULATIONS = ("all", "without-first")
SPECIAL = ("[CLS]", "[SEP]")
DIM = 5
NUMBERS = "q m v v_within v_between m_of_q v_within_of_q v_between_of_q v_within_of_v".split()
"""What has an error: 0.01 the first, 0.02 the second and so on; over filtered units twice as much, and so on."""


@dataclass(frozen=True)
class MadeUp:
    """A survey and the vectors behind it: vectors[layer, population][unit] is (n, dim)."""

    survey: Surveyed
    vectors: dict[tuple[int, str], dict[str, Array]]


def made_up(
    name: str = "tiny",
    *,
    layers: int = 3,
    units: int = 60,
    populations: tuple[str, ...] = POPULATIONS,
    kind: str = "id",
    scale: float = 1.0,
    documents: int = 500,
    final_norm: bool = False,
    words: bool = True,
    seed: int = 0,
) -> MadeUp:
    """Draw vectors for units whose frequencies fall as Zipf's, and measure them by definition."""
    rng = np.random.default_rng(seed)
    texts = [*SPECIAL, *(f"w{i}" for i in range(units))][:units]
    n = np.maximum(1, 400 / np.arange(1, units + 1) ** 1.3).astype(int)
    vectors: dict[tuple[int, str], dict[str, Array]] = {}
    for layer in range(layers):
        whole = {
            text: scale * (rng.normal(3, 1, DIM) + rng.normal(0, 0.3 + 0.3 * layer, (count, DIM)))
            for text, count in zip(texts, n, strict=True)
        }
        for population in populations:
            rest = {text: x[1:] if text == "[CLS]" else x for text, x in whole.items()}
            vectors[layer, population] = whole if population == "all" else rest
    names = _names(layers, final_norm)
    facts = _facts(name, names, populations, kind, documents, words)
    tables = {
        "layers": pd.DataFrame([_layer_row(key, names, x) for key, x in vectors.items()]),
        "tokens": pd.concat([_token_rows(key, x) for key, x in vectors.items()], ignore_index=True),
        "units": _units(texts, kind),
    }
    return MadeUp(Surveyed(facts, tables), vectors)


def emptied(found: MadeUp) -> Surveyed:
    """Return the survey with no unit at all, as its tables would have it."""
    tables = {name: table.iloc[:0] for name, table in found.survey.tables.items()}
    numbers = [column for column in found.survey.layers if column not in ("layer", "layer_name", "population")]
    tables["layers"] = found.survey.layers.assign(**dict.fromkeys(numbers, np.nan) | {"massive": 0})
    return Surveyed(found.survey.facts, tables)


def _names(layers: int, final_norm: bool) -> list[str]:
    names = ["embeddings", *(f"block {i}" for i in range(1, layers))]
    return [*names[:-1], "final norm"] if final_norm else names


def _facts(
    name: str, names: list[str], populations: tuple[str, ...], kind: str, documents: int, words: bool
) -> dict[str, Any]:
    corpus: dict[str, Any] = {"name": "notes.txt", "sha256": "c" * 64, "documents": documents}
    if words:
        corpus["words_histogram"] = [0, 3, 5, 0, 2]
    return {
        "model": {"name": name, "sha256": name, "parameters": 22_713_216, "blocks": len(names) - 1},
        "corpus": corpus,
        "units": kind,
        "populations": list(populations),
        "layers": [{"index": i, "name": name, "dim": DIM, "library_index": i} for i, name in enumerate(names)],
    }


def _token_rows(key: tuple[int, str], vectors: dict[str, Array]) -> pd.DataFrame:
    rows = []
    for unit, x in vectors.items():
        n, q, m = len(x), float((x**2).sum(1).mean()), float((x.mean(0) ** 2).sum())
        v = float(((x - x.mean(0)) ** 2).sum(1).mean())
        v_unbiased = float(x.var(axis=0, ddof=1).sum()) if n > 1 else np.nan
        rows.append((*key, unit, n, q, m, v, q - v_unbiased, v_unbiased))
    return pd.DataFrame(rows, columns="layer population unit n q m v m_unbiased v_unbiased".split())


def _layer_row(key: tuple[int, str], names: list[str], vectors: dict[str, Array]) -> dict[str, Any]:
    row: dict[str, Any] = {"layer": key[0], "layer_name": names[key[0]], "population": key[1], "massive": 0}
    counts = {"": "types", "filtered_": "units_used"}
    for place, (prefix, units) in enumerate(sets(vectors).items()):
        row |= {f"{prefix}{part}": value for part, value in whole(units).items()}
        row |= {f"{prefix}{name}_se": 0.01 * (place + 1) * number for number, name in enumerate(NUMBERS, 1)}
        row[counts.get(prefix, f"{prefix}units_used")] = len(units)
    return row


def sets(vectors: dict[str, Array]) -> dict[str, dict[str, Array]]:
    """The sets of units that sums are over, by what their columns begin with."""
    text = {unit: x for unit, x in vectors.items() if unit not in SPECIAL}
    return {"": vectors, "filtered_": often(vectors), "text_": often(text), "unfiltered_text_": text}


def often(vectors: dict[str, Array]) -> dict[str, Array]:
    """The units that pass the paper's frequency filter."""
    return {unit: x for unit, x in vectors.items() if 10 <= len(x) <= 100_000}


def whole(vectors: dict[str, Array]) -> dict[str, float]:
    """Q, M, V, V_W and V_B of everything, by definition."""
    if not vectors:
        return dict.fromkeys(("q", "m", "v", "v_within", "v_between"), np.nan)
    x = np.concatenate(list(vectors.values()))
    mean = x.mean(0)
    within = sum(((y - y.mean(0)) ** 2).sum() for y in vectors.values()) / len(x)
    between = sum(len(y) * ((y.mean(0) - mean) ** 2).sum() for y in vectors.values()) / len(x)
    v = ((x - mean) ** 2).sum(1).mean()
    return {"q": (x**2).sum(1).mean(), "m": (mean**2).sum(), "v": v, "v_within": within, "v_between": between}


def _units(texts: list[str], kind: str) -> pd.DataFrame:
    tokens = [1.0 + (i % 6 if kind == "word" else 0) for i in range(len(texts))]
    return pd.DataFrame(
        {
            "unit": texts,
            "row": range(len(texts)),
            "id": range(len(texts)),
            "text": texts,
            "special": [text in SPECIAL for text in texts],
            "tokens_per_unit": tokens,
        }
    )
