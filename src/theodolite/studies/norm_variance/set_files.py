"""Token sets on disk: two files beside a survey's own, which belong to it and to no other."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from theodolite.errors import DamagedError, InputError
from theodolite.studies.norm_variance.chosen_sets import ChosenSets
from theodolite.studies.norm_variance.plane import fit_plane
from theodolite.studies.norm_variance.selection import bare
from theodolite.surveys.files import checksum, read_tensors, verify, write_tensors
from theodolite.surveys.folder import write_table
from theodolite.surveys.identity import owner
from theodolite.surveys.token_sets import TokenSets

TENSORS, TABLE = "token_sets.safetensors", "token_sets.parquet"


def write_sets(
    folder: Path, survey_facts: dict[str, Any], chosen: pd.DataFrame, sets: TokenSets, how: dict[str, Any]
) -> None:
    """Lay the plane and write both files; the tensors last, with the table's checksum.

    Tensors: `vectors` (rows, dim), `unit` and `key` (rows,), `places` (rows, 2), `means` (units, dim), `axes`
    (2, dim); the metadata's `facts` is JSON.
    """
    means = sets.means.numpy()
    plane = fit_plane(means)
    kept, at = torch.bincount(sets.unit, minlength=len(chosen)).numpy(), plane.place(means)
    write_table(folder / TABLE, chosen.assign(kept=kept, x=at[:, 0], y=at[:, 1]))
    facts = how | {
        "share": plane.share.tolist(),
        "survey": owner(survey_facts),
        "table": checksum(folder / TABLE),
    }
    tensors = {
        "vectors": sets.vectors,
        "unit": sets.unit,
        "key": sets.key,
        "places": torch.from_numpy(plane.place(sets.vectors.double().numpy())),
        "means": sets.means,
        "axes": torch.from_numpy(plane.axes),
    }
    write_tensors(folder / TENSORS, tensors, {"facts": json.dumps(facts)})


def lie_in(folder: Path) -> bool:
    """Say whether token sets lie in a folder."""
    return (folder / TENSORS).is_file()


def read_sets(folder: Path, survey_facts: dict[str, Any]) -> ChosenSets:
    """Read both files; refuse a folder without, and those of a survey that has been replaced since."""
    again = f"`theodolite sets {shlex.quote(str(folder))}` makes them again"
    if not lie_in(folder):
        raise InputError(f"There are no token sets in {folder}; {again.removesuffix(' again')}.")
    tensors, metadata = read_tensors(folder / TENSORS)
    facts = json.loads(metadata["facts"])
    if facts["survey"] != owner(survey_facts):
        raise InputError(f"The token sets in {folder} are of the survey that was there before; {again}.")
    verify(folder / TABLE, facts["table"])
    chosen = pd.read_parquet(folder / TABLE)
    if len(chosen) != len(tensors["means"]):
        raise DamagedError(f"{folder / TENSORS} and {TABLE} are not of one run; {again}.")
    order = torch.argsort(tensors["key"], stable=True)
    token, at = tensors["unit"][order].numpy(), tensors["places"][order].numpy()
    places = pd.DataFrame({"x": at[:, 0], "y": at[:, 1], "token": token})
    places["log10_n"] = chosen["log10_n"].to_numpy(np.float64)[token]
    return ChosenSets(chosen.assign(name=_names(chosen)), places, facts)


def _names(chosen: pd.DataFrame) -> list[str]:
    """Return what people read of each token; the key where two would read alike."""
    names = [bare(str(text)) or str(unit) for text, unit in zip(chosen["text"], chosen["unit"], strict=True)]
    return [str(unit) if names.count(name) > 1 else name for name, unit in zip(names, chosen["unit"], strict=True)]
