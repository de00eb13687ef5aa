"""The measures that a reader can choose from: by idea, with a name, a meaning and where its definition stands."""

from __future__ import annotations

from theodolite.measures.formula import formulas
from theodolite.report.columns import MEANINGS
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.rows import populations
from theodolite.report.shares import BOUNDED, SHARES
from theodolite.report.tables import Tables
from theodolite.report.vectors import all_of_vectors, told_of_vectors

Entry = tuple[str, str, str, str, bool]  # column, label, meaning, link, bounded

GROUPS: dict[str, dict[str, str]] = {
    "Direction": {
        "mean_cosine": "Mean cosine",
        "anisotropy_svd": "SVD anisotropy",
        "iso_score": "IsoScore",
        "partition_isotropy": "Partition isotropy",
        "rogue_cosine_share": "Share of the strongest coordinate in the mean cosine",
        "rogue_half": "Coordinates that make half of the mean cosine",
        "rogue_variance_share": "Share of the strongest coordinate in V",
    },
    "Dimension": {
        "effective_rank": "Effective rank",
        "participation_ratio": "Participation ratio",
        "stable_rank": "Stable rank",
        "twonn": "Intrinsic dimension (TwoNN)",
        "twonn_ml": "Intrinsic dimension (TwoNN, likelihood)",
        "mle_dim": "Intrinsic dimension (Levina-Bickel)",
        "pca_dim_90": "Principal components for 90% of V",
        "pca_dim_95": "Principal components for 95% of V",
        "pca_dim_99": "Principal components for 99% of V",
        "hubness_skew": "Hubness",
    },
    "Length and spread": {
        "m_of_q": "M/Q, share of the mean in the squared norm",
        "v_between_of_q": "V_B/Q, share of the spread between units",
        "v_within_of_q": "V_W/Q, share of the spread within units",
        "v_within_of_v": "V_W/V, share of the spread within units in V",
        "q": "Q, mean squared norm",
        "m": "M, squared norm of the mean",
        "v": "V, variance",
        "v_within": "V_W, spread within units",
        "v_between": "V_B, spread between units",
        "norm_p50": "Median norm",
        "norm_p05": "Norm, 5th percentile",
        "norm_p95": "Norm, 95th percentile",
        "norm_max": "Longest vector",
        "massive": "Massive activations",
        "zero": "Zero vectors",
        "nonfinite": "Vectors that are not finite",
    },
    "Trade-off over units": {
        "tradeoff_slope": "Slope of V on M",
        "tradeoff_r2": "R² of V on M",
        "q_cv": "CV of Q",
    },
    "Context": {
        "self_similarity": "Self-similarity",
        "self_similarity_adjusted": "Self-similarity, adjusted",
        "intra_similarity": "Similarity within a sentence",
        "intra_similarity_adjusted": "Similarity within a sentence, adjusted",
        "mev": "Maximum explainable variance",
        "mev_adjusted": "Maximum explainable variance, adjusted",
    },
}
LAST = "Other columns"


def measures(surveys: list[Tables], formulas: dict[str, str]) -> list[dict[str, object]]:
    """Return the groups with the columns that a survey has; `formulas` tells the formula behind a column."""
    present = [str(column) for tables in surveys for column in tables.layers.columns if populations(tables)]
    named = {column for group in GROUPS.values() for column in group}
    other = {
        column: MEANINGS.get(column, column)
        for column in dict.fromkeys(present)
        if column in formulas and column not in named and not column.endswith(("_se", "_sd"))
    }
    groups = {**GROUPS, LAST: {column: column for column in other}}
    said = told_of_vectors if all_of_vectors(surveys) else str
    return [
        {
            "group": group,
            "columns": [
                (
                    column,
                    label if group == LAST else said(label),
                    said(MEANINGS.get(column, "")),
                    anchor(formulas[column]) if column in formulas else "",
                    column in BOUNDED,
                )
                for column, label in columns.items()
                if column in present
            ],
        }
        for group, columns in groups.items()
    ]


def anchor(formula: str) -> str:
    """Return where a formula is defined on the page.

    >>> anchor("mean-cosine/exact")
    '#definition-mean-cosine-exact'
    """
    return "#definition-" + "".join(sign if sign.isalnum() else "-" for sign in formula)


def formulas_of(surveys: list[Tables]) -> dict[str, str]:
    """Return the formula behind every column that the surveys show, where this version can define it."""
    known = formulas()
    found: dict[str, str] = {}
    for tables in surveys:
        for column in map(str, tables.layers.columns):
            formula = formula_id(tables, SHARES[column][0] if column in SHARES else column)
            if formula in known:
                found.setdefault(column, formula)
    return found
