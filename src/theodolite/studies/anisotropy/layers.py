"""Layers of a survey: the kind of model, the depth of each layer, and chosen columns with their errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from theodolite.studies.survey_data import SurveyData

TOKENS, CHARACTERS, SPEECH, VISION = "token-level text", "character-level text", "speech", "vision"
CONVOLUTION, MODULE, VECTORS = "convolution", "module", "vectors"
KINDS = (TOKENS, CHARACTERS, SPEECH, VISION, CONVOLUTION, MODULE, VECTORS)
"""In the order in which figures group them."""
KIND_DESCRIPTIONS = {
    TOKENS: "is a token-level text model",
    CHARACTERS: "is a character-level text model",
    SPEECH: "is a speech model",
    VISION: "is a vision model",
    CONVOLUTION: "is a convolutional model",
    MODULE: "is a module of unknown kind",
    VECTORS: "was measured without a model",
}
STACKS = ("encoder", "decoder")
_NUMBERED = re.compile(r"\b(block|stage) (\d+)$")
MEAN_NORM, NORM_OF_MEAN = "mean_norm", "norm_of_mean"  # two names of the norm of the mean
"""|mean| = sqrt(m): not a column of the table, but used by the drift test."""
Z = 1.96
HEAD = "survey layer layer_name stack depth joined_depth population".split()


def survey_kind(survey: SurveyData) -> str:
    """Return the kind of model that was surveyed; surveys without a recorded modality are token-level text.

    >>> survey_kind(SurveyData({"model": {"name": "bert"}})), survey_kind(SurveyData({"model": None}))
    ('token-level text', 'vectors')
    >>> survey_kind(SurveyData({"model": {"modality": "module", "level": "character"}}))
    'character-level text'
    """
    model = survey.facts.get("model")
    if model is None:
        return VECTORS
    modality = model.get("modality") or "text"
    if model.get("level") == "character" and modality in ("text", "module"):
        return CHARACTERS
    return TOKENS if modality == "text" else str(modality)


def encoder_or_decoder(survey: SurveyData, stack: str) -> str:
    """Return "encoder" or "decoder": the stack or, for a model with one stack, "decoder" if it is causal."""
    if stack:
        return stack
    return "decoder" if (survey.facts.get("model") or {}).get("causal") else "encoder"


class LayerDepth(NamedTuple):
    """The stack of a layer, "" if the model has only one, and its relative depth in the stack and in the model.

    Depth is 0 at the embeddings and 1 at the last block; the state after a final norm is one layer further.
    """

    stack: str
    depth: float
    joined_depth: float


def stack_of(name: str) -> str:
    """Return the stack that a layer's name begins with.

    >>> stack_of("decoder block 3"), stack_of("block 3"), stack_of("decoder")
    ('decoder', '', '')
    """
    first, _, rest = name.partition(" ")
    return first if first in STACKS and rest else ""


def layer_depths(survey: SurveyData) -> dict[int, LayerDepth]:
    """Return the depth of each surveyed layer by its number, so that models of unequal depth share an axis.

    >>> names = {0: "embeddings", 6: "block 6", 13: "final norm"}
    >>> layers = [{"index": index, "name": name} for index, name in names.items()]
    >>> depths = layer_depths(SurveyData({"model": {"blocks": 12}, "layers": layers}))
    >>> [round(layer.depth, 3) for layer in depths.values()]
    [0.0, 0.5, 1.083]
    """
    names = survey.layer_names
    stacks = {layer: stack_of(name) for layer, name in names.items()}
    ends = {
        stack: _ends({k: name for k, name in names.items() if stacks[k] == stack}, _blocks(survey, stack))
        for stack in set(stacks.values())
    }
    joined = (min(first for first, _ in ends.values()), max(last for _, last in ends.values())) if ends else (0, 0)
    return {
        layer: LayerDepth(
            stack,
            _share(layer, *ends[stack]),
            _share(layer, *(ends[stack] if len(ends) < 2 else joined)),
        )
        for layer, stack in stacks.items()
    }


def _ends(names: dict[int, str], blocks: int | None) -> tuple[int, int]:
    """Return the layer numbers of the embeddings and of the last block of a stack, surveyed or not."""
    numbered = {layer: match for layer, name in names.items() if (match := _NUMBERED.search(name))}
    layer = max(numbered, default=-1)
    first = layer - int(numbered[layer][2]) if numbered else min(names)
    after = [layer for layer, name in names.items() if name.endswith("final norm")]
    if after:
        return first, after[0] - 1
    if numbered and numbered[layer][1] == "block" and blocks:
        return first, max(layer, first + blocks)
    return first, max(names)


def _blocks(survey: SurveyData, stack: str) -> int | None:
    """Return the number of blocks in the model's facts, if it has one stack."""
    blocks = (survey.facts.get("model") or {}).get("blocks")
    return int(blocks) if blocks and not stack else None


def _share(layer: int, first: int, last: int) -> float:
    return (layer - first) / (last - first) if last > first else 0.0


def tabulate_layers(
    survey: SurveyData, population: str, columns: Sequence[str], name: str | None = None
) -> pd.DataFrame:
    """Return one row per layer, first to last: the columns HEAD, then each given column with its low and high.

    Low and high are 1.96 standard errors away, NaN if the table has no standard error. A column that the table
    does not have is NaN.
    """
    rows = survey.layers[survey.layers["population"] == population].sort_values("layer")
    known = layer_depths(survey)
    depths = [known.get(int(layer), LayerDepth("", float("nan"), float("nan"))) for layer in rows["layer"]]
    table = pd.DataFrame(
        {
            "survey": [survey.model if name is None else name] * len(rows),
            "layer": rows["layer"].to_numpy(int),
            "layer_name": rows["layer_name"].to_numpy(object),
            "stack": [layer.stack for layer in depths],
            "depth": np.array([layer.depth for layer in depths], dtype=np.float64),
            "joined_depth": np.array([layer.joined_depth for layer in depths], dtype=np.float64),
            "population": [population] * len(rows),
        }
    )
    for column in columns:
        values, errors = column_values(rows, column), _errors(rows, column)
        table[column] = values
        table[f"{column}_low"], table[f"{column}_high"] = values - Z * errors, values + Z * errors
    return table


def column_values(rows: pd.DataFrame, column: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a column as float64 with NaN for null; the norm of the mean is computed from m."""
    if column in (MEAN_NORM, NORM_OF_MEAN):
        return np.sqrt(np.maximum(column_values(rows, "m"), 0.0))  # keeps NaN
    if column not in rows:
        return np.full(len(rows), np.nan)
    return rows[column].to_numpy(np.float64, na_value=np.nan)


def _errors(rows: pd.DataFrame, column: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if column not in (MEAN_NORM, NORM_OF_MEAN):
        return column_values(rows, f"{column}_se")
    with np.errstate(divide="ignore", invalid="ignore"):  # the error of a square root
        errors = column_values(rows, "m_se") / (2 * column_values(rows, MEAN_NORM))
    return np.where(np.isfinite(errors), errors, np.nan)
