"""Every formula as a function of plain arrays, NumPy or torch, on the CPU or a GPU.

>>> import theodolite
>>> cosine = theodolite.measures.mean_cosine([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
>>> float(cosine), cosine.n
(0.3333333333333333, 3)

Most return a result with `value`, `se` (standard error), `n`, `reason` (why the value is NaN) and `formula`
(definition and citation); `decompose`, `tradeoff` and `twonn` return several results, `eigenvalues` an array and
`count_duplicates` a number. The modules of this package hold the formulas as functions of sums or eigenvalues,
from which surveys compute them, and the registries of formulas, columns and references.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.measures.arrays.dimension import (
        IntrinsicDimension,
        count_duplicates,
        gride,
        hubness,
        mle_dimension,
        twonn,
    )
    from theodolite.measures.arrays.layer_scores import curvature, lidar, prompt_entropy
    from theodolite.measures.arrays.result import Result
    from theodolite.measures.arrays.spectrum import (
        alpha_req,
        anisotropy_svd,
        effective_rank,
        effective_rank_singular,
        eigenvalues,
        iso_score,
        participation_ratio,
        pca_dimension,
        rankme,
        rogue_dimension,
        stable_rank,
    )
    from theodolite.measures.arrays.spread import (
        Decomposition,
        Tradeoff,
        decompose,
        mean_cosine,
        partition_isotropy,
        sampled_cosine,
        self_similarity,
        tradeoff,
    )
    from theodolite.surveys.accumulator import Accumulator

__all__ = [
    "Accumulator",
    "Decomposition",
    "IntrinsicDimension",
    "Result",
    "Tradeoff",
    "alpha_req",
    "anisotropy_svd",
    "count_duplicates",
    "curvature",
    "decompose",
    "effective_rank",
    "effective_rank_singular",
    "eigenvalues",
    "gride",
    "hubness",
    "iso_score",
    "lidar",
    "mean_cosine",
    "mle_dimension",
    "participation_ratio",
    "partition_isotropy",
    "pca_dimension",
    "prompt_entropy",
    "rankme",
    "rogue_dimension",
    "sampled_cosine",
    "self_similarity",
    "stable_rank",
    "tradeoff",
    "twonn",
]

_MODULES = (
    "theodolite.measures.arrays.spread",
    "theodolite.measures.arrays.spectrum",
    "theodolite.measures.arrays.dimension",
    "theodolite.measures.arrays.layer_scores",
    "theodolite.measures.arrays.result",
)


def __getattr__(name: str) -> Any:
    """Import the functions when one is first asked for: the registries of this package need no torch."""
    if name not in __all__:
        raise AttributeError(f"module 'theodolite.measures' has no attribute {name!r}")
    modules = ("theodolite.surveys.accumulator",) if name == "Accumulator" else _MODULES
    for module in modules:
        found = vars(import_module(module))
        globals().update({each: found[each] for each in __all__ if each in found})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
