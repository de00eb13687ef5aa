"""Measures after centring, standardising, whitening or removing top directions, without another pass.

Spectral measures follow exactly from the mean and covariance of the survey. Cosine, dimension and hubness are
computed on the transformed sample, each with its n and standard error. For "as-is", the mean cosine is the exact
one over all vectors.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from theodolite.errors import InputError, nearest
from theodolite.measures.arrays.result import check_integer
from theodolite.measures.cosine import PARTITION_VECTORS, all_pairs_cosine, partition_isotropy_log
from theodolite.measures.intrinsic_dimension import hubness, twonn_from_distances
from theodolite.measures.neighbours import neighbourhood
from theodolite.measures.spectrum import stable_rank
from theodolite.measures.transforms import Transform, transforms
from theodolite.models.layers import select_layers
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.studies.choice import AUTO, default_population
from theodolite.surveys.folder import open_survey, require_sums
from theodolite.surveys.survey import Survey
from theodolite.tables.layer_row import LayerRow
from theodolite.tables.shape import EMPTY, TOO_WIDE, spectral_numbers

HEAD = "layer layer_name population transform removed kept".split()
COSINE = "mean_cosine mean_cosine_se mean_cosine_n".split()
SPECTRAL = (
    "anisotropy_svd participation_ratio effective_rank effective_rank_singular iso_score "
    "pca_dim_90 pca_dim_95 pca_dim_99 stable_rank"
).split()
SAMPLED = (
    "partition_isotropy_log twonn twonn_se twonn_ml twonn_ml_se twonn_n hubness_skew hubness_skew_se "
    "hubness_skew_cosine hubness_skew_cosine_se"
).split()
COLUMNS = [*HEAD, *COSINE, *SPECTRAL, *SAMPLED, "undefined"]
INTEGER_COLUMNS = "removed kept mean_cosine_n pca_dim_90 pca_dim_95 pca_dim_99 twonn_n".split()
NOTHING_LEFT = "no variance is left except rounding"


def what_if(
    survey: Survey | str | Path,
    *,
    remove: int | Sequence[int] = (1, 2, 3),
    layers: str | Sequence[int] | None = None,
    population: str = AUTO,
) -> pd.DataFrame:
    """Return one row per layer and transform; `remove` is a number of top directions to remove, or several.

    Each layer costs three eigendecompositions and, per transform, the distances between all pairs of the sample.
    """
    survey = survey if isinstance(survey, Survey) else open_survey(survey)
    require_sums(survey, "what-if")
    numbers = list(remove) if isinstance(remove, Iterable) else [remove]
    for number in numbers:
        check_integer("--remove", number)
    if population == AUTO:
        population = default_population([survey.facts])
    _check_population(survey, population)
    records = survey.layers[survey.layers["population"] == population].to_dict("records")
    exact = {int(row["layer"]): row for row in records}
    names = {layer.index: layer.name for layer in survey.layer_objects()}
    rows = []
    for layer in select_layers(list(names), layers):
        head = {"layer": layer, "layer_name": names[layer], "population": population}
        found = _measure_layer(survey.state.folds[layer], POPULATIONS[population], exact[layer], numbers)
        rows += [head | row for row in found]
    return pd.DataFrame(rows).reindex(columns=COLUMNS).astype(dict.fromkeys(INTEGER_COLUMNS, "Int64"))


def _check_population(survey: Survey, population: str) -> None:
    known = [name for name in survey.facts["populations"] if name not in (survey.facts.get("lost") or {})]
    if population not in known:
        raise InputError(
            f"--population {population!r}: this survey has {', '.join(known)}.{nearest(population, known)}"
        )


def _measure_layer(
    fold: LayerFold, cells: Sequence[int], exact: dict[Hashable, Any], remove: Sequence[int]
) -> list[dict[str, Any]]:
    """Measure one layer after every transform; `exact` is its row of layers.parquet."""
    if fold.wide:
        raise InputError(
            f"--layers: the survey has no covariance of {exact['layer_name']}: {TOO_WIDE}; choose other layers."
        )
    n, covariance = fold.scatter.covariance(cells)
    if n < 2:
        row = LayerRow()
        row.undefined("fewer than two vectors", [*COSINE, *SPECTRAL, *SAMPLED])
        return [{"transform": "as-is", "removed": 0, "kept": 0, **row.to_dict()}]
    mean = fold.scatter.sum[list(cells)].sum(0).numpy() / n + fold.frame.centre.double().numpy()
    sample = fold.sample.population(cells)
    found = []
    for transform in transforms(mean, covariance.numpy(), remove):
        row = LayerRow()
        row.values |= {"transform": transform.name, "removed": transform.removed, "kept": transform.kept}
        if not transform.kept:
            row.undefined(NOTHING_LEFT, [*COSINE, *SPECTRAL, *SAMPLED])
        else:
            _add_spectral(row, transform)
            _add_sampled(row, transform, sample)
        if transform.name == "as-is":
            _add_exact(row, exact)
        found.append(row.to_dict())
    return found


def _add_spectral(row: LayerRow, transform: Transform) -> None:
    row.put("not finite", **spectral_numbers(transform.spectrum), stable_rank=stable_rank(transform.second))


def _add_sampled(row: LayerRow, transform: Transform, sample: dict[str, Tensor]) -> None:
    if not sample:
        row.undefined(EMPTY, [*COSINE, *SAMPLED])
        return
    x = transform(sample["vector"].numpy())
    cosine = all_pairs_cosine(x)
    row.put(cosine.reason or "not finite", mean_cosine=cosine.value, mean_cosine_se=cosine.se)
    row.put("not finite", partition_isotropy_log=partition_isotropy_log(x[:PARTITION_VECTORS], transform.axes))
    near = neighbourhood(torch.from_numpy(x), contexts=sample["context"])
    estimate, hubs = twonn_from_distances(near.distances[:, :2], near.duplicates), hubness(near.others)
    _put_dimension(row, transform.kept, len(near), estimate.reason, twonn=estimate.keep90, twonn_se=estimate.se)
    _put_dimension(
        row, transform.kept, len(near), estimate.reason, twonn_ml=estimate.ml, twonn_ml_se=estimate.ml_se
    )
    row.put(hubs.reason or "not finite", hubness_skew=hubs.value, hubness_skew_se=hubs.se)
    _add_cosine_hubness(row, torch.from_numpy(x), sample["context"])
    row.values |= {"mean_cosine_n": int((x != 0).any(axis=1).sum()), "twonn_n": len(near)}


def _add_cosine_hubness(row: LayerRow, x: Tensor, contexts: Tensor) -> None:
    """Add the hubness of cosine search: that of Euclidean search among vectors scaled to length 1 again."""
    norms = x.norm(dim=1)
    unit = x[norms > 0] / norms[norms > 0, None]
    hubs = hubness(neighbourhood(unit, contexts=contexts[norms > 0]).others)
    row.put(hubs.reason or "not finite", hubness_skew_cosine=hubs.value, hubness_skew_cosine_se=hubs.se)


def _put_dimension(row: LayerRow, kept: int, n: int, reason: str | None, **numbers: float) -> None:
    """Store a dimension and its error, unless it is significantly above the number of directions.

    After whitening by their own covariance, n vectors in about n directions have equal distances. The ratios of
    these distances are 1 up to rounding, so the estimate is arbitrarily large.
    """
    value, error = numbers.values()
    if value - 2 * error > kept:
        problem = f"the estimate {value:,.0f} exceeds the {kept} directions: {n} vectors are too few"
        row.undefined(problem, list(numbers))
    else:
        row.put(reason or "not finite", **numbers)


def _add_exact(row: LayerRow, exact: dict[Hashable, Any]) -> None:
    """Replace the mean cosine of the sample by the exact one over all pairs of vectors."""
    row.reasons = {column: why for column, why in row.reasons.items() if column not in COSINE}
    reason = "fewer than two nonzero vectors, or all documents in one group"
    row.put(reason, **{name: float(exact[name]) for name in ("mean_cosine", "mean_cosine_se")})
    row.values["mean_cosine_n"] = int(exact["n"] - exact["zero"])
