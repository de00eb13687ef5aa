"""Synthetic surveys made from known vectors, so that every number can be computed from its definition."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.studies.norm_variance.token_set_files import TokenSetTables, fit_plane
from theodolite.studies.survey_data import SurveyData

Array = NDArray[np.float64]
POPULATIONS = ("all", "without-first")
SPECIAL = ("[CLS]", "[SEP]")
DIM = 5
NUMBERS = "q m v v_within v_between m_of_q v_within_of_q v_between_of_q v_within_of_v".split()
"""Columns with an error: 0.01, 0.02 and so on; over the second set of units twice that, and so on."""


@dataclass(frozen=True)
class SyntheticSurvey:
    """A survey and the vectors behind it: vectors[layer, population][unit] is (n, dim)."""

    survey: SurveyData
    vectors: dict[tuple[int, str], dict[str, Array]]


def make_survey(name: str = "tiny", **options: Any) -> SyntheticSurvey:
    """Return a new copy of the survey of these options, which `_make_survey` lists; each is computed once."""
    made = _make_survey(name, **options)
    tables = {table: frame.copy() for table, frame in made.survey.tables.items()}
    return SyntheticSurvey(SurveyData(deepcopy(made.survey.facts), tables), made.vectors)


@cache
def _make_survey(
    name: str,
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
) -> SyntheticSurvey:
    """Sample vectors for units with frequencies after Zipf's law, and measure them by definition."""
    rng = np.random.default_rng(seed)
    texts = [*SPECIAL, *(f"w{i}" for i in range(units))][:units]
    n = np.maximum(1, 400 / np.arange(1, units + 1) ** 1.3).astype(int)
    vectors: dict[tuple[int, str], dict[str, Array]] = {}
    for layer in range(layers):
        every = {
            text: scale * (rng.normal(3, 1, DIM) + rng.normal(0, 0.3 + 0.3 * layer, (count, DIM)))
            for text, count in zip(texts, n, strict=True)
        }
        for population in populations:
            later = {text: x[1:] if text == "[CLS]" else x for text, x in every.items()}
            vectors[layer, population] = every if population == "all" else later
    names = _names(layers, final_norm)
    facts = _facts(name, names, populations, kind, documents, words)
    tables = {
        "layers": pd.DataFrame([_layer_row(key, names, x) for key, x in vectors.items()]),
        "tokens": pd.concat([_token_rows(key, x) for key, x in vectors.items()], ignore_index=True),
        "units": _units(texts, kind),
    }
    return SyntheticSurvey(SurveyData(facts, tables), vectors)


def remove_units(found: SyntheticSurvey) -> SurveyData:
    """Return the survey without any unit: empty tables, and undefined numbers by layer."""
    tables = {name: table.iloc[:0] for name, table in found.survey.tables.items()}
    numbers = [column for column in found.survey.layers if column not in ("layer", "layer_name", "population")]
    tables["layers"] = found.survey.layers.assign(**dict.fromkeys(numbers, np.nan) | {"massive": 0})
    return SurveyData(found.survey.facts, tables)


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
    for place, (prefix, units) in enumerate(select_unit_sets(vectors).items()):
        row |= {f"{prefix}{part}": value for part, value in compute_sums(units).items()}
        row |= {f"{prefix}{name}_se": 0.01 * (place + 1) * number for number, name in enumerate(NUMBERS, 1)}
        row[counts.get(prefix, f"{prefix}units_used")] = len(units)
    return row


def select_unit_sets(vectors: dict[str, Array]) -> dict[str, dict[str, Array]]:
    """The sets of units that sums are over, by what their columns begin with."""
    text = {unit: x for unit, x in vectors.items() if unit not in SPECIAL}
    return {
        "": vectors,
        "filtered_": select_frequent(vectors),
        "text_": select_frequent(text),
        "unfiltered_text_": text,
    }


def select_frequent(vectors: dict[str, Array]) -> dict[str, Array]:
    """The units that pass the paper's frequency filter."""
    return {unit: x for unit, x in vectors.items() if 10 <= len(x) <= 100_000}


def compute_sums(vectors: dict[str, Array]) -> dict[str, float]:
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


COSINE_ERROR, SIMILARITY_ERROR = 0.03, 0.05


def mean_pair_cosine(x: Array) -> float:
    """The mean cosine over pairs of distinct rows, by definition."""
    directions = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = directions @ directions.T
    return float(cosines[~np.eye(len(x), dtype=bool)].mean())


def mean_similarity(vectors: dict[str, Array]) -> float:
    """Self-similarity of units with n >= 5 that are not special, each with equal weight, by definition."""
    found = [mean_pair_cosine(x) for unit, x in vectors.items() if len(x) >= 5 and unit not in SPECIAL]
    return float(np.mean(found)) if found else float("nan")


def add_contextuality(made: SyntheticSurvey) -> SurveyData:
    """Return the survey with the columns that `--contextuality` adds."""
    layers = made.survey.layers
    vectors = [made.vectors[key] for key in zip(layers["layer"], layers["population"], strict=True)]
    extended = layers.assign(
        mean_cosine=[mean_pair_cosine(np.concatenate(list(each.values()))) for each in vectors],
        mean_cosine_se=COSINE_ERROR,
        self_similarity=[mean_similarity(each) for each in vectors],
        self_similarity_se=SIMILARITY_ERROR,
    )
    return SurveyData(made.survey.facts, made.survey.tables | {"layers": extended})


NORM_COLUMNS = "layer coordinate kind eps gamma beta".split()


def add_norms(
    found: SyntheticSurvey | None = None,
    leaving: dict[int, str] | None = None,
    *,
    placement: str | None = "post",
    seed: int = 3,
) -> SyntheticSurvey:
    """Return the survey with coordinates, and norms for the layers of `leaving` (layer to kind)."""
    found = found or make_survey()
    rng = np.random.default_rng(seed)
    norms = []
    for layer, kind in ({0: "LayerNorm", 1: "LayerNorm"} if leaving is None else leaving).items():
        gamma, beta = rng.normal(1, 0.3, DIM), rng.normal(0, 0.4, DIM) * (kind == "LayerNorm")
        norms.append(
            pd.DataFrame(dict(zip(NORM_COLUMNS, (layer, range(DIM), kind, 1e-5, gamma, beta), strict=True)))
        )
    coordinates = []
    for (layer, population), vectors in found.vectors.items():
        x = np.concatenate(list(vectors.values()))
        part = pd.DataFrame({"coordinate": range(DIM), "mu_i": x.mean(0), "v_i": x.var(0), "q_i": (x**2).mean(0)})
        coordinates.append(part.assign(layer=layer, population=population))
    tables = {
        "coordinates": pd.concat(coordinates, ignore_index=True),
        "layer_norms": pd.concat(norms, ignore_index=True) if norms else pd.DataFrame(columns=NORM_COLUMNS),
    }
    survey = found.survey
    model: dict[str, Any] = survey.facts["model"] | {"norm_placement": placement, "architecture": "TinyModel"}
    facts = survey.facts | {"model": model}
    return replace(found, survey=SurveyData(facts, survey.tables | tables))


def add_token_sets(
    made: SyntheticSurvey, *, layer: int = 0, units: tuple[str, ...] = ("w2", "w5", "w9", "w30"), far: bool = False
) -> SurveyData:
    """Return the survey with the sets of some units; `far` puts one vector a hundred times as far out."""
    vectors = {unit: made.vectors[layer, "all"][unit].copy() for unit in units}
    if far:
        vectors[units[0]][0] *= 100
    plane = fit_plane(np.array([x.mean(axis=0) for x in vectors.values()]))
    rows = made.survey.tokens.query("layer == @layer and population == 'all'").set_index("unit").loc[list(units)]
    means = np.array([plane.place(x).mean(axis=0) for x in vectors.values()])
    logs = np.log10(rows["n"].to_numpy(float))
    chosen = pd.DataFrame({"unit": units, "text": units, "name": units, "log10_n": logs, "interval": 0})
    chosen = chosen.assign(x=means[:, 0], y=means[:, 1], kept=rows["n"].to_numpy())
    chosen = chosen.assign(**{name: rows[name].to_numpy() for name in "nqmv"})
    every = np.concatenate([plane.place(x) for x in vectors.values()])
    token = np.repeat(np.arange(len(units)), [len(x) for x in vectors.values()])
    places = pd.DataFrame({"x": every[:, 0], "y": every[:, 1], "token": token, "log10_n": logs[token]})
    facts = {"layer": layer, "seed": 0, "most": 200, "by_hand": [], "documents": 5, "of": 9}
    return TokenSetTables(chosen, places, facts | {"share": plane.share.tolist()}).attach_to(made.survey)


ALL_POPULATIONS = ("all", "without-first", "without-massive")


def make_layer_names(blocks: int, *, stack: str = "", final_norm: bool = False) -> list[str]:
    """Layer names as a survey has them."""
    names = ["embeddings", *(f"block {number}" for number in range(1, blocks + 1))]
    names += ["final norm"] if final_norm else []
    return [f"{stack} {name}" if stack else name for name in names]


def make_layer_survey(
    name: str = "tiny",
    names: Sequence[str] | None = None,
    *,
    model: dict[str, Any] | None = None,
    measured: bool = False,
    populations: Sequence[str] = ALL_POPULATIONS,
    seed: int = 0,
    **columns: Sequence[float],
) -> SurveyData:
    """Return a survey with random numbers by layer; `columns` are set in every population as they are given.

    `model` adds to survey.json's model; `measured` is a survey of vectors, without one.
    """
    rng = np.random.default_rng(seed)
    known = list(make_layer_names(6) if names is None else names)
    rows = []
    for place, layer in enumerate(known):
        last = place + 1 < len(known) and known[place + 1].endswith("final norm")  # the library gives the norm's
        for population in populations:
            row = {"layer": place, "layer_name": layer, "library_index": None if last else place}
            row |= {"population": population, "massive": 0, "n": 100}
            row |= {"m": float(rng.gamma(2, 30)), "m_se": 0.5, "mean_cosine": float(rng.uniform(0, 0.9))}
            row |= {"mean_cosine_se": 0.01, "anisotropy_svd": float(rng.uniform(0.02, 1))}
            rows.append(row | {column: values[place] for column, values in columns.items()})
    blocks = sum("block" in layer for layer in known)
    facts = {
        "model": None if measured else {"name": name, "sha256": name, "blocks": blocks, **(model or {})},
        "corpus": {"name": name if measured else "notes.txt", "documents": 40},
        "units": "none" if measured else "id",
        "populations": list(populations),
        "layers": [{"index": i, "name": layer, "dim": 4, "library_index": i} for i, layer in enumerate(known)],
    }
    table = pd.DataFrame(rows).astype({"library_index": "Int64"})
    return SurveyData(facts, {"layers": table})
