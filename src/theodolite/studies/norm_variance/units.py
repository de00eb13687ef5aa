"""The units of one layer with n, Q, M and V; their histograms, and counts for the tables of models and corpora."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.measures.decomposition import frequent
from theodolite.studies.choice import Choice
from theodolite.studies.rare_units import are_certain, find_min_count, has_units_without_vector
from theodolite.studies.survey_data import SurveyData

TOKEN_MARKERS = ("##", "Ġ", "▁")
UNIT_COLUMNS = "unit text n log10_n q m v special tokens_per_unit used".split()
LOG_N_STEP = 0.25
"""Width of bins of log10 n; finer bins would leave gaps between 1, 2 and 3 occurrences."""
BINS = 40
MAX_WORDS = 256
"""Surveys count all documents of this number of words or more together."""
FENCE_FACTOR = 4.0
"""The last bin of a histogram of Q, M or V holds all values of more than this number of interquartile ranges above
the upper quartile, since a few massive units would compress the other bins."""

Array = NDArray[np.float64]


def select_units(survey: SurveyData, layer: int, choice: Choice) -> pd.DataFrame:
    """Return one row per unit of a layer and population; `used` marks the units that the choice includes in fits.

    m and v are of the variant of the choice. With "unbiased", v is NaN for n = 1, and the unit is not used.
    """
    units = read_units(survey, layer, choice.population)
    return mark_used_units(units, choice, specials=choice.includes_specials(survey))


def read_units(survey: SurveyData, layer: int, population: str) -> pd.DataFrame:
    """Return one row per unit of a layer and population, with both variants of M and V."""
    rows = survey.tokens[(survey.tokens["layer"] == layer) & (survey.tokens["population"] == population)]
    known = survey.units.drop_duplicates("unit").set_index("unit").reindex(rows["unit"])
    n = rows["n"].to_numpy(np.int64)
    special = known["special"].eq(True).to_numpy(bool)
    measured = {name: rows[name].to_numpy(np.float64) for name in ("q", "m", "v", "m_unbiased", "v_unbiased")}
    return pd.DataFrame(
        {
            "unit": rows["unit"].to_numpy(),
            "text": known["text"].to_numpy(),
            "n": n,
            "log10_n": np.log10(n.astype(np.float64)),
            **measured,
            "special": special,
            "tokens_per_unit": known["tokens_per_unit"].to_numpy(np.float64),
            "certain": _find_certain(survey, layer, rows, special),
        }
    )


def _find_certain(
    survey: SurveyData, layer: int, rows: pd.DataFrame, special: NDArray[np.bool_]
) -> NDArray[np.bool_] | bool:
    """Return which units were certain to have a vector; layers.parquet leaves out sampled rare units as well."""
    min_count = find_min_count(survey.facts)
    if min_count == 1 or not has_units_without_vector(survey.layers):
        return True
    whole = survey.tokens[(survey.tokens["layer"] == layer) & (survey.tokens["population"] == "all")]
    whole = (whole if len(whole) else rows).set_index("unit").reindex(rows["unit"])
    return are_certain(whole["n"].to_numpy(np.int64), whole["m"].to_numpy(np.float64), special, min_count)


def mark_used_units(table: pd.DataFrame, choice: Choice, *, specials: bool) -> pd.DataFrame:
    """Select the variant of M and V, and add the column `used`."""
    chosen = choice.with_filter()
    suffix = "" if chosen.variant == "biased" else "_unbiased"
    table = table.assign(m=table[f"m{suffix}"], v=table[f"v{suffix}"])
    used = np.isfinite(table["v"].to_numpy(np.float64))
    if chosen.filter == "frequent":
        used &= frequent(table["n"].to_numpy(np.int64)) & table["certain"].to_numpy(bool)
    if not specials:
        used &= ~table["special"].to_numpy(bool)
    return table.assign(used=used)[UNIT_COLUMNS]


def count_special_units(survey: SurveyData) -> int:
    """Return the number of special units in the survey."""
    return int(survey.units["special"].sum()) if len(survey.units) else 0


def strip_markers(text: str) -> str:
    """Return the text of a token without markers of a space or of continuation.

    >>> strip_markers("##ing"), strip_markers(" the"), strip_markers("▁of"), strip_markers("##")
    ('ing', 'the', 'of', '##')
    """
    short = text.strip()
    for mark in TOKEN_MARKERS:
        short = short.removeprefix(mark).strip() or short
    return short


def frequency_histogram(survey: SurveyData, choice: Choice) -> pd.DataFrame:
    """Return a histogram of log10 n over the chosen units, with or without M and V: low, high, count."""
    chosen = choice.for_description()
    table = read_units(survey, next(iter(survey.layer_names)), chosen.population)
    used = np.ones(len(table), dtype=bool)
    if chosen.filter == "frequent":
        used &= frequent(table["n"].to_numpy(np.int64))
    if not chosen.includes_specials(survey):
        used &= ~table["special"].to_numpy(bool)
    logs = table.loc[used, "log10_n"].to_numpy(np.float64)
    top = LOG_N_STEP * (np.floor(logs.max(initial=0.0) / LOG_N_STEP) + 1)
    edges = np.arange(0, top + LOG_N_STEP / 2, LOG_N_STEP)
    return _histogram(logs, edges)


def length_histogram(survey: SurveyData) -> pd.DataFrame:
    """Return the number of documents by number of words: words, documents. The last row may include longer ones.

    The survey stores a list with entry k for k words, or an object that maps k to a number of documents.
    """
    found = survey.facts["corpus"].get("words_histogram")
    if not found:
        raise InputError(
            f"The survey of {survey.model} does not record the number of words per document. "
            f"To record it, run `{survey.command()}` with this version."
        )
    pairs = found.items() if isinstance(found, Mapping) else enumerate(found)
    counts = {int(words): int(documents) for words, documents in pairs}
    every = range(max(counts) + 1)
    return pd.DataFrame({"words": every, "documents": [counts.get(words, 0) for words in every]})


def unit_histogram(survey: SurveyData, layer: int, choice: Choice, *, bins: int = BINS) -> pd.DataFrame:
    """Return histograms of Q, M and V over the units used, on common bins: quantity, low, high, count, beyond.

    `beyond` is the number of units in the last bin that are above its upper edge.
    """
    table = select_units(survey, layer, choice.for_description())
    used = table[table["used"]]
    top = max(_upper_fence(used[name].to_numpy(np.float64)) for name in "qmv") if len(used) else 0.0
    bottom = min(0.0, float(used["m"].min())) if len(used) else 0.0
    edges = np.linspace(bottom, top if top > bottom else bottom + 1.0, bins + 1)
    parts = []
    for name in "qmv":
        values = used[name].to_numpy(np.float64)
        part = _histogram(np.minimum(values, edges[-1]), edges)
        beyond = [0] * (len(part) - 1) + [int((values > edges[-1]).sum())]
        parts.append(part.assign(quantity=name, beyond=beyond))
    return pd.concat(parts, ignore_index=True)[["quantity", "low", "high", "count", "beyond"]]


def _upper_fence(values: Array) -> float:
    lower, upper = np.quantile(values, [0.25, 0.75])
    return min(float(values.max()), float(upper + FENCE_FACTOR * (upper - lower)))


def _histogram(values: Array, edges: Array) -> pd.DataFrame:
    counts, _ = np.histogram(values, edges)
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], "count": counts})


def make_model_table(surveys: Sequence[SurveyData]) -> pd.DataFrame:
    """Return one row per model: number of layers including the input layer, dimension, number of parameters."""
    rows = {
        survey.facts["model"]["sha256"]: (
            survey.model,
            int(survey.facts["model"]["blocks"]) + 1,
            int(survey.facts["layers"][0]["dim"]),
            int(survey.facts["model"]["parameters"]),
        )
        for survey in surveys
    }
    return pd.DataFrame(list(rows.values()), columns=["model", "layers", "dims", "params"])


def make_count_table(surveys: Sequence[SurveyData], names: Sequence[str], population: str) -> pd.DataFrame:
    """Return one row per survey: the numbers of units |T|, vectors |X|, frequent units and special units."""
    rows = []
    for survey, name in zip(surveys, names, strict=True):
        first = next(iter(survey.layer_names))
        chosen = (survey.tokens["layer"] == first) & (survey.tokens["population"] == population)
        seen = survey.tokens[chosen]
        n = seen["n"].to_numpy(np.int64)
        special = survey.units.loc[survey.units["special"], "unit"] if count_special_units(survey) else []
        rows.append(
            {
                "survey": name,
                "corpus": survey.corpus,
                "units": str(survey.facts["units"]),
                "types": len(n),
                "vectors": int(n.sum()),
                "frequent": int(frequent(n).sum()),
                "special": int(seen["unit"].isin(list(special)).sum()),
            }
        )
    return pd.DataFrame(rows)
