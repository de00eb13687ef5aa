"""Token sets of a survey: the tables that exhibits read, the plane they are drawn on, and their files."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.errors import DamagedError, InputError
from theodolite.measures.projection import principal_axes
from theodolite.storage.checksum import checksum
from theodolite.storage.files import read_tensors, verify, write_tensors
from theodolite.studies.norm_variance.units import strip_markers
from theodolite.studies.survey_data import SurveyData, owner
from theodolite.tables.table_files import write_table

if TYPE_CHECKING:
    from theodolite.surveys.token_sets import TokenSets

TOKEN_SETS, TOKEN_PLACES = "token_sets", "token_places"
"""Names of the two tables in `SurveyData.tables`; TOKEN_SETS is also the key of their settings in its facts."""

RELATIVE_RANK_TOLERANCE = 1e-12  # an axis shorter than this share of the first is rounding error

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TokenSetTables:
    """One row per selected token, one row per stored vector, and the settings.

    `chosen`: unit, text, name, n, log10_n, q, m, v, interval, kept, x and y of the mean.
    `places`: x, y, token (the row in `chosen`), log10_n, sorted by key, which mixes the tokens.
    `facts`: layer; population; seed; most; by_hand, the tokens named by the user; documents with a selected token,
    `of` all documents; share of the variance of means and origin on each axis.
    """

    chosen: pd.DataFrame
    places: pd.DataFrame
    facts: dict[str, Any]

    @property
    def layer(self) -> int:
        """The layer of the vectors."""
        return int(self.facts["layer"])

    @property
    def population(self) -> str:
        """The population of positions; older files do not record it and have all."""
        return str(self.facts.get("population", "all"))

    def attach_to(self, survey: SurveyData) -> SurveyData:
        """Return the survey with these token sets added."""
        tables = survey.tables | {TOKEN_SETS: self.chosen, TOKEN_PLACES: self.places}
        return SurveyData(survey.facts | {TOKEN_SETS: self.facts}, tables, survey.folder)


def has_token_sets(survey: SurveyData) -> bool:
    """Return whether the survey was read with its token sets."""
    return TOKEN_SETS in survey.facts


def get_token_sets(survey: SurveyData) -> TokenSetTables:
    """Return the token sets of a survey that has them."""
    return TokenSetTables(survey.tables[TOKEN_SETS], survey.tables[TOKEN_PLACES], survey.facts[TOKEN_SETS])


class Plane(NamedTuple):
    """Two directions, and the share of the variance of the fitted points along each."""

    axes: Array  # (2, dim), rows of length 1; 0 where there is no second direction
    share: Array  # (2,)

    def place(self, vectors: Array) -> Array:
        """Project vectors to the plane, with the origin at 0. (rows, dim) -> (rows, 2)"""
        return vectors @ self.axes.T


def fit_plane(means: Array) -> Plane:
    """Fit principal axes to the means and the origin, each once. (tokens, dim) -> plane

    The points are centred for the fit. A point x is projected to W (x - c) and the origin to W (0 - c); their
    difference, which is drawn, is W x. The sign of an axis makes its largest coefficient positive.

    >>> plane = fit_plane(np.array([[4.0, 0.0, 0.0], [2.0, 1.0, 0.0], [2.0, -1.0, 0.0]]))
    >>> plane.place(np.array([[3.0, 0.5, 7.0], [0.0, 0.0, 0.0]])).tolist()
    [[3.0, 0.5], [0.0, 0.0]]
    """
    points = np.vstack([means, np.zeros((1, means.shape[1]))])
    centred = points - points.mean(axis=0)
    axes, sizes = principal_axes(centred, 2)
    axes[sizes[:2] <= RELATIVE_RANK_TOLERANCE * sizes[0]] = 0.0
    total = float((centred**2).sum())
    return Plane(axes, sizes[:2] ** 2 / (total or np.nan))


TENSOR_FILE, TABLE_FILE = "token_sets.safetensors", "token_sets.parquet"


def write_token_sets(
    folder: Path, survey_facts: dict[str, Any], chosen: pd.DataFrame, sets: TokenSets, how: dict[str, Any]
) -> None:
    """Fit the plane and write both files; the tensors last, with the checksum of the table.

    Tensors: `vectors` (rows, dim), `unit` and `key` (rows,), `places` (rows, 2), `means` (units, dim), `axes`
    (2, dim); the metadata's `facts` is JSON.
    """
    means = sets.means.numpy()
    plane = fit_plane(means)
    kept, at = torch.bincount(sets.unit, minlength=len(chosen)).numpy(), plane.place(means)
    write_table(folder / TABLE_FILE, chosen.assign(kept=kept, x=at[:, 0], y=at[:, 1]))
    facts = how | {
        "share": plane.share.tolist(),
        "survey": owner(survey_facts),
        "table": checksum(folder / TABLE_FILE),
    }
    tensors = {
        "vectors": sets.vectors,
        "unit": sets.unit,
        "key": sets.key,
        "places": torch.from_numpy(plane.place(sets.vectors.double().numpy())),
        "means": sets.means,
        "axes": torch.from_numpy(plane.axes),
    }
    write_tensors(folder / TENSOR_FILE, tensors, {"facts": json.dumps(facts)})


def has_token_set_files(folder: Path) -> bool:
    """Return whether a folder contains token sets."""
    return (folder / TENSOR_FILE).is_file()


def read_token_sets(folder: Path, survey_facts: dict[str, Any]) -> TokenSetTables:
    """Read both files; raise InputError if they are missing or belong to another survey."""
    command = f"run `theodolite sets {shlex.quote(str(folder))}`"
    if not has_token_set_files(folder):
        raise InputError(f"There are no token sets in {folder}; {command}.")
    tensors, metadata = read_tensors(folder / TENSOR_FILE)
    facts = json.loads(metadata["facts"])
    if facts["survey"] != owner(survey_facts):
        raise InputError(f"The token sets in {folder} belong to a survey that has been replaced; {command} again.")
    verify(folder / TABLE_FILE, facts["table"])
    chosen = pd.read_parquet(folder / TABLE_FILE)
    if len(chosen) != len(tensors["means"]):
        raise DamagedError(f"{folder / TENSOR_FILE} and {TABLE_FILE} are from different runs; {command} again.")
    order = torch.argsort(tensors["key"], stable=True)
    token, at = tensors["unit"][order].numpy(), tensors["places"][order].numpy()
    places = pd.DataFrame({"x": at[:, 0], "y": at[:, 1], "token": token})
    places["log10_n"] = chosen["log10_n"].to_numpy(np.float64)[token]
    return TokenSetTables(chosen.assign(name=_display_names(chosen)), places, facts)


def _display_names(chosen: pd.DataFrame) -> list[str]:
    """Return the readable text of each token; its key if two tokens have the same text."""
    names = [
        strip_markers(str(text)) or str(unit) for text, unit in zip(chosen["text"], chosen["unit"], strict=True)
    ]
    return [str(unit) if names.count(name) > 1 else name for name, unit in zip(names, chosen["unit"], strict=True)]
