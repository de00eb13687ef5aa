"""The registry of columns: name, meaning, labels, unit, format and group of every column that a survey writes.

The tables, the terminal, the report and the figures read it, so that a fact about a column is written once. The
formula behind a column is in `@formula`; `Column.formula` looks it up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from theodolite.measures.formula import formula_of_column

Format = Literal["text", "integer", "share", "number"]
"""How values are written: as text, as whole numbers, as a number between 0 and 1 (or -1 and 1), or as a number."""

DIRECTION, DIMENSION, LENGTH = "Direction", "Dimension", "Length and spread"
TRADEOFF, CONTEXT, OTHER = "Trade-off over units", "Context", "Other columns"
GROUPS = (DIRECTION, DIMENSION, LENGTH, TRADEOFF, CONTEXT, OTHER)
"""Headings under which the report lists columns, in this order."""

NO_POSITION = "no position belongs to this population"
NO_UNITS = "the vectors belong to no units"
NO_VECTOR = "the unit has fewer occurrences in the corpus than min_count, so no vector of it was kept"
NOT_REQUESTED = "the survey was made without --contextuality"
NOT_SCORED = "the survey was made without --layer-scores"
FEW_FREQUENT = "fewer than three units with 1 <= log10 n <= 5"
FEW_VECTORS = "fewer than two vectors"
EQUAL_VECTORS = "all vectors are equal"
NO_DIRECTION = "fewer than two vectors have a direction"
FEW_GROUPS = "fewer than ten groups of documents"
EMPTY_SAMPLE = "the sample is empty, or too few distinct vectors are in it"
FEW_FOR_BATCHES = "the sample holds fewer vectors than one batch"
NOT_WIDE = "computed only for vectors too wide for a covariance matrix"


@dataclass(frozen=True, slots=True)
class Column:
    """What is known of one column.

    label   short: the heading of a terminal table, unique within its table
    title   long: the name in menus and above panels
    null    why a value may be missing, as one of the usual reasons; empty if it is never missing
    bounds  the range that the definition allows; None if there is none
    parts   numerator and denominator, for a share that is computed from two other columns and not stored
    """

    name: str
    label: str
    title: str
    meaning: str
    group: str = OTHER
    unit: str = ""
    format: Format = "number"
    null: str = ""
    bounds: tuple[float, float] | None = None
    table: str = "layers"
    parts: tuple[str, str] | None = None

    @property
    def formula(self) -> str:
        """Id of the formula behind the column; empty if it has none (keys and plain counts)."""
        return _formula_ids(self.table).get(self.parts[0] if self.parts else self.name, "")


@cache
def _formula_ids(table: str) -> dict[str, str]:
    return formula_of_column(table)


def _key(name: str, meaning: str, *, label: str = "", title: str = "", null: str = "") -> Column:
    """A text column that identifies the row."""
    return Column(name, label or name, title or meaning, meaning, format="text", null=null)


def _count(
    name: str, label: str, title: str, meaning: str, unit: str, group: str = OTHER, null: str = ""
) -> Column:
    """A column of whole numbers."""
    return Column(name, label, title, meaning, group, unit, "integer", null)


def _share(
    name: str,
    label: str,
    title: str,
    meaning: str,
    group: str = OTHER,
    null: str = "",
    *,
    signed: bool = False,
    parts: tuple[str, str] | None = None,
) -> Column:
    """A column whose definition bounds it by 0 (or -1) and 1."""
    bounds = (-1.0 if signed else 0.0, 1.0)
    return Column(name, label, title, meaning, group, "", "share", null, bounds, parts=parts)


def _error(of: Column, how: str, null: str = "") -> Column:
    """The standard error of another column."""
    symbol = of.title.startswith(of.label)  # "M/Q, share of ...": the symbol is enough
    title = of.title.partition(",")[0] if symbol else of.title
    return Column(
        f"{of.name}_se",
        f"{of.label} s.e.",
        f"{title}, standard error",
        f"Standard error of {title if symbol else _in_sentence(title)}, {how}",
        unit=of.unit,
        null=null or of.null,
    )


def _in_sentence(title: str) -> str:
    """Return a title as a sentence names it.

    >>> _in_sentence("Mean cosine"), _in_sentence("SVD anisotropy"), _in_sentence("Q over text units")
    ('the mean cosine', 'the SVD anisotropy', 'Q over text units')
    """
    word = title.split()[0]
    if word in _SYMBOLS:
        return title
    return f"the {title if word[:2].isupper() else title[0].lower() + title[1:]}"


_SYMBOLS = ("Q", "M", "V", "V_W", "V_B", "M/Q", "V_W/Q", "V_B/Q", "V_W/V")
DOCUMENTS, UNITS_DRAWN = "jackknife over groups of documents", "bootstrap over units"
SQUARED = "squared length"

# One entry is a few lines, not one line per argument, so that the table can be read as a table.
# fmt: off
_Q = Column("q", "Q", "Q, mean squared norm", "Mean squared norm, Q = M + V", LENGTH, SQUARED, null=NO_POSITION)
_M = Column("m", "M", "M, squared norm of the mean", "Squared norm of the mean", LENGTH, SQUARED, null=NO_POSITION)
_V = Column(
    "v", "V", "V, variance", "Variance summed over coordinates, V = V_W + V_B", LENGTH, SQUARED, null=NO_POSITION
)
_V_WITHIN = Column(
    "v_within",
    "V_W",
    "V_W, spread within units",
    "Spread within units, weighted by frequency",
    LENGTH,
    SQUARED,
    null=NO_UNITS,
)
_V_BETWEEN = Column(
    "v_between", "V_B", "V_B, spread between units", "Spread of the units' means, weighted by frequency",
    LENGTH, SQUARED, null=NO_UNITS
)
PARTS = (_Q, _M, _V, _V_WITHIN, _V_BETWEEN)
"""Q and what it consists of."""

_M_OF_Q = _share(
    "m_of_q", "M/Q", "M/Q, share of the mean in the squared norm",
    "Squared norm of the mean as a share of the mean squared norm", LENGTH, "Q is 0", parts=("m", "q")
)
_V_WITHIN_OF_Q = _share(
    "v_within_of_q", "V_W/Q", "V_W/Q, share of the spread within units",
    "Spread within units as a share of the mean squared norm", LENGTH, NO_UNITS, parts=("v_within", "q")
)
_V_BETWEEN_OF_Q = _share(
    "v_between_of_q", "V_B/Q", "V_B/Q, share of the spread between units",
    "Spread of the units' means as a share of the mean squared norm", LENGTH, NO_UNITS,
    parts=("v_between", "q")
)
_V_WITHIN_OF_V = _share(
    "v_within_of_v", "V_W/V", "V_W/V, share of the spread within units in V",
    "Spread within units as a share of the variance", LENGTH, NO_UNITS, parts=("v_within", "v")
)
RATIOS = (_M_OF_Q, _V_WITHIN_OF_Q, _V_BETWEEN_OF_Q, _V_WITHIN_OF_V)
"""Ratios of two of these whose errors are stored; V/Q has the error of M/Q, and V_B/V that of V_W/V."""

_SETS = {
    "filtered_": ("freq", "frequent units", "units with 1 ≤ log10 n ≤ 5", FEW_FREQUENT),
    "text_": (
        "freq text",
        "frequent text units",
        "units with 1 ≤ log10 n ≤ 5 that are not special",
        f"{FEW_FREQUENT} that are not special",
    ),
    "unfiltered_text_": ("text", "text units", "units that are not special", "every unit is special"),
}
"""Sets of units over which Q, M and V are also computed: how labels, titles, meanings and reasons name each."""


def _over_set(of: Column, prefix: str) -> Column:
    """The same number over a set of units."""
    label, title, meaning, null = _SETS[prefix]
    symbol = of.label
    return Column(
        f"{prefix}{of.name}", f"{symbol} [{label}]", f"{symbol} over {title}", f"{symbol} over {meaning}",
        unit=of.unit, null=null
    )


def _set_columns(prefix: str, count: str) -> Iterator[Column]:
    """Q, M, V, V_W and V_B over a set of units, and the number of its units."""
    label, title, meaning, _ = _SETS[prefix]
    yield from (_over_set(of, prefix) for of in PARTS)
    yield _count(
        count, f"units [{label}]", title[0].upper() + title[1:], meaning[0].upper() + meaning[1:], "units",
        null=NO_UNITS
    )


def _set_errors(prefix: str) -> Iterator[Column]:
    """Standard errors of the sums over a set of units and of their ratios."""
    yield from (_error(_over_set(of, prefix), DOCUMENTS) for of in (*PARTS, *RATIOS))


_MEAN_COSINE = _share(
    "mean_cosine", "cos", "Mean cosine", "Average cosine over all pairs of positions", DIRECTION, NO_DIRECTION,
    signed=True
)
_Q_CV = Column(
    "q_cv", "CV(Q)", "CV of Q", "Standard deviation of Q over units, divided by its mean", TRADEOFF,
    null=FEW_FREQUENT
)
_SLOPE = Column(
    "tradeoff_slope", "slope", "Slope of V on M", "Slope of V on M over units", TRADEOFF, null=FEW_FREQUENT
)
_SLOPE_CORRECTED = Column(
    "tradeoff_slope_corrected", "slope corr.", "Slope of V on M, corrected for noise",
    "Slope of V_u on M_u over units without the effect of their noise; occurrences count as independent", TRADEOFF,
    null=f"{FEW_FREQUENT}, or too few of their vectors in the sample"
)
_R2 = _share("tradeoff_r2", "R2", "R² of V on M", "R² of V on M over units", TRADEOFF, FEW_FREQUENT)
_TWONN = Column(
    "twonn", "TwoNN", "Intrinsic dimension (TwoNN)", "Intrinsic dimension from the two nearest neighbours",
    DIMENSION, "dimensions", null=EMPTY_SAMPLE
)
_TWONN_ML = Column(
    "twonn_ml", "TwoNN ML", "Intrinsic dimension (TwoNN, likelihood)",
    "Intrinsic dimension from the two nearest neighbours, by maximum likelihood", DIMENSION, "dimensions",
    null=EMPTY_SAMPLE
)
_MLE = Column(
    "mle_dim", "MLE", "Intrinsic dimension (Levina-Bickel)",
    "Intrinsic dimension from the 20 nearest neighbours (Levina and Bickel)", DIMENSION, "dimensions",
    null=EMPTY_SAMPLE
)
_SCALE_JUMP = Column(
    "scale_jump", "jump", "Jump of the dimension between scales",
    "Largest ratio of the intrinsic dimensions at two adjacent scales", DIMENSION, null=EMPTY_SAMPLE
)
_HUBNESS = Column(
    "hubness_skew", "hubness", "Hubness", "Skewness of how often a vector is among the 10 nearest of others",
    DIMENSION, null=EMPTY_SAMPLE
)
_SAMPLED_COSINE = _share(
    "sampled_cosine", "cos 1000", "Mean cosine of 1,000 sampled pairs",
    "Average cosine over 1,000 random pairs of the sample", OTHER, NO_DIRECTION, signed=True
)
_SELF = _share(
    "self_similarity", "self-sim", "Self-similarity",
    "Average cosine between occurrences of the same unit, over units that occur at least 5 times", CONTEXT,
    NOT_REQUESTED, signed=True
)
_INTRA = _share(
    "intra_similarity", "intra-sim", "Similarity within a sentence",
    "Average cosine between a position and the mean of its window", CONTEXT, NOT_REQUESTED, signed=True
)
_MEV = _share(
    "mev", "MEV", "Maximum explainable variance",
    "Share of the variance of one unit's occurrences along their first principal component, averaged over units",
    CONTEXT, NOT_REQUESTED
)
_ENTROPY = _share(
    "prompt_entropy", "entropy", "Prompt entropy",
    "Entropy of the directions of a window's vectors, as a share of the largest possible", CONTEXT, NOT_SCORED
)
_CURVATURE = Column(
    "curvature", "curvature", "Curvature",
    "Mean angle between the steps from each position of a window to the next", CONTEXT, "degrees",
    null=NOT_SCORED, bounds=(0.0, 180.0)
)


def _norm(name: str, label: str, title: str, meaning: str, group: str = OTHER) -> Column:
    return Column(name, label, title, meaning, group, "length", null="no vectors")


def _percentile(number: int, group: str = OTHER, ending: str = "th") -> Column:
    title = "Median norm" if number == 50 else f"Norm, {number}{ending} percentile"
    return _norm(
        f"norm_p{number:02d}", f"norm {number}%", title, f"Norm that {number}% of the vectors do not exceed",
        group
    )


_LAYERS = (
    _count("layer", "layer", "Layer", "Number of the layer, 0 for the embeddings", ""),
    _key("layer_name", "Name of the layer", label="name"),
    _count(
        "library_index", "index", "Index in hidden_states",
        "Index in the library's own hidden_states that this layer equals", "",
        null="no entry of hidden_states equals this layer"
    ),
    _key("population", "Which positions count", title="Population"),
    _count("n", "n", "Positions", "Positions", "positions"),
    _count("types", "types", "Units seen", "Units seen", "units", null=NO_UNITS),
    _count("dim", "dim", "Coordinates", "Coordinates of a vector", "coordinates"),
    *PARTS,
    _share(
        "v_within_estimated_share", "V_W est. share", "Share of positions whose V_W is estimated",
        "Share of positions in rare units without a vector, whose spread within units is estimated from a sample "
        "of rare units; 0 if every unit has a vector", null=NO_UNITS
    ),
    *_set_columns("filtered_", "units_used"),
    *_set_columns("text_", "text_units_used"),
    *_set_columns("unfiltered_text_", "unfiltered_text_units_used"),
    _MEAN_COSINE,
    _share(
        "anisotropy_svd", "svd", "SVD anisotropy", "Share of the variance along its first principal direction",
        DIRECTION, EQUAL_VECTORS
    ),
    Column(
        "participation_ratio", "PR", "Participation ratio",
        "(Sum of eigenvalues)² / sum of squared eigenvalues", DIMENSION, "dimensions", null=EQUAL_VECTORS
    ),
    Column(
        "effective_rank", "rank", "Effective rank", "Exponential of the entropy of the spectrum", DIMENSION,
        "dimensions", null=EQUAL_VECTORS
    ),
    _share(
        "iso_score", "IsoScore", "IsoScore", "(Participation ratio − 1) / (coordinates − 1)", DIRECTION,
        EQUAL_VECTORS
    ),
    _Q_CV,
    _SLOPE,
    _SLOPE_CORRECTED,
    _R2,
    _TWONN,
    _error(_TWONN, "for independent ratios"),
    _count("twonn_n", "TwoNN n", "Vectors used by TwoNN", "Vectors that TwoNN was estimated from", "vectors"),
    _norm("norm_min", "norm min", "Shortest vector", "Norm of the shortest vector"),
    _percentile(1, ending="st"),
    _percentile(5, LENGTH),
    _percentile(25),
    _percentile(50, LENGTH),
    _percentile(75),
    _percentile(95, LENGTH),
    _percentile(99),
    _norm("norm_max", "norm max", "Longest vector", "Norm of the longest vector", LENGTH),
    _count("zero", "zero", "Zero vectors", "Vectors that are exactly zero", "vectors", LENGTH),
    _count(
        "nonfinite", "nonfinite", "Vectors that are not finite", "Vectors with a coordinate that is not finite",
        "vectors", LENGTH
    ),
    _count(
        "massive", "massive", "Massive activations", "Positions whose norm is far above the pilot's median",
        "positions", LENGTH
    ),
    _count(
        "sample_duplicates", "duplicates", "Duplicates in the sample",
        "Vectors dropped from the sample as duplicates, exact or near", "vectors"
    ),
    _count(
        "sample_near_duplicates", "near dupl.", "Near-duplicates in the sample",
        "How many of these differ from another vector by far less than the bulk of distances", "vectors"
    ),
    *(_error(of, DOCUMENTS, FEW_GROUPS) for of in (_Q, _M, _V, _M_OF_Q, _MEAN_COSINE)),
    *(_error(of, UNITS_DRAWN) for of in (_Q_CV, _SLOPE, _R2)),
    _error(_SLOPE_CORRECTED, "by the delta method over units and vectors of the sample"),
    *(_error(of, DOCUMENTS) for of in (_V_WITHIN, _V_BETWEEN, _V_WITHIN_OF_Q, _V_BETWEEN_OF_Q, _V_WITHIN_OF_V)),
    *_set_errors("filtered_"),
    *_set_errors("text_"),
    *_set_errors("unfiltered_text_"),
    _count(
        "rogue_coordinate", "rogue", "Strongest coordinate of the mean cosine",
        "Coordinate that makes most of the mean cosine", "", null="the mean cosine is 0"
    ),
    Column(
        "rogue_cosine_share", "rogue cos", "Share of the strongest coordinate in the mean cosine",
        "Share of the mean cosine that this coordinate makes; above 1, other coordinates reduce it", DIRECTION,
        format="share", null="the mean cosine is 0"
    ),
    _count(
        "rogue_half", "rogue half", "Coordinates that make half of the mean cosine",
        "Fewest coordinates that make half of the mean cosine", "coordinates", DIRECTION,
        "the mean cosine is 0"
    ),
    Column(
        "effective_rank_singular", "rank of s", "Effective rank of singular values",
        "Exponential of the entropy of the singular values", unit="dimensions", null=EQUAL_VECTORS
    ),
    *(
        _count(
            f"pca_dim_{share}", f"PCA {share}%", f"Principal components for {share}% of V",
            f"Principal components that hold {share}% of the variance", "components", DIMENSION, EQUAL_VECTORS
        )
        for share in (90, 95, 99)
    ),
    _count(
        "rogue_variance_coordinate", "rogue var", "Coordinate of largest variance",
        "Coordinate that varies most", "", null=EQUAL_VECTORS
    ),
    _share(
        "rogue_variance_share", "rogue V", "Share of the strongest coordinate in V",
        "Share of the variance that this coordinate has", DIRECTION, EQUAL_VECTORS
    ),
    Column(
        "stable_rank", "stable", "Stable rank",
        "Trace over largest eigenvalue of the second moment, not centred", DIMENSION, "dimensions",
        null="all vectors are 0"
    ),
    Column(
        "rankme", "RankMe", "RankMe", "Exponential of the entropy of the singular values, not centred",
        unit="dimensions", null="all vectors are 0"
    ),
    Column(
        "alpha_req", "alpha", "Decay of the spectrum (alpha-ReQ)",
        "Exponent of the power law by which the eigenvalues of the covariance decay", DIMENSION,
        null="too few eigenvalues are above rounding"
    ),
    _SAMPLED_COSINE,
    _error(_SAMPLED_COSINE, "for independent pairs"),
    _share(
        "partition_isotropy", "partition", "Partition isotropy",
        "Smallest over largest partition function, 1 where isotropic", DIRECTION, EMPTY_SAMPLE
    ),
    Column(
        "partition_isotropy_log", "log partition", "Partition isotropy, logarithm",
        "Logarithm of the partition-function isotropy", null=EMPTY_SAMPLE
    ),
    _share(
        "anisotropy_svd_shuffled", "svd batch", "SVD anisotropy of shuffled batches",
        "SVD anisotropy of batches of the sample, averaged", null=FEW_FOR_BATCHES
    ),
    Column(
        "anisotropy_svd_shuffled_sd", "svd batch s.d.",
        "SVD anisotropy of shuffled batches, standard deviation",
        "Standard deviation over batches of the SVD anisotropy", null="the sample is one batch, or less"
    ),
    _TWONN_ML,
    _error(_TWONN_ML, "for independent ratios"),
    Column(
        "twonn_keep20", "TwoNN 20%", "Intrinsic dimension (TwoNN, smallest 20%)",
        "TwoNN fitted over the smallest 20% of the ratios", unit="dimensions", null=EMPTY_SAMPLE
    ),
    Column(
        "twonn_batch", "TwoNN batch", "Intrinsic dimension of shuffled batches (TwoNN)",
        "TwoNN of batches of the sample, averaged", unit="dimensions", null=FEW_FOR_BATCHES
    ),
    Column(
        "twonn_batch_sd", "TwoNN batch s.d.", "Intrinsic dimension of shuffled batches, standard deviation",
        "Standard deviation over batches of TwoNN", unit="dimensions", null="the sample is one batch, or less"
    ),
    _MLE,
    _error(_MLE, "for independent vectors"),
    _SCALE_JUMP,
    _HUBNESS,
    _error(_HUBNESS, "jackknife over vectors"),
    _share(
        "sample_anisotropy_svd", "svd sample", "SVD anisotropy of the sample",
        "SVD anisotropy of the sample's covariance; only for very wide vectors", null=NOT_WIDE
    ),
    Column(
        "sample_participation_ratio", "PR sample", "Participation ratio of the sample",
        "Participation ratio of the sample's covariance; only for very wide vectors", unit="dimensions",
        null=NOT_WIDE
    ),
    Column(
        "sample_effective_rank", "rank sample", "Effective rank of the sample",
        "Effective rank of the sample's covariance; only for very wide vectors", unit="dimensions",
        null=NOT_WIDE
    ),
    _SELF,
    _error(_SELF, "over units"),
    Column(
        "self_similarity_adjusted", "self-sim adj", "Self-similarity, adjusted",
        "Self-similarity minus the mean cosine over all pairs", CONTEXT, null=NOT_REQUESTED
    ),
    _INTRA,
    _error(_INTRA, "over windows"),
    Column(
        "intra_similarity_adjusted", "intra-sim adj", "Similarity within a sentence, adjusted",
        "Similarity within a sentence minus the mean cosine over all pairs", CONTEXT, null=NOT_REQUESTED
    ),
    _MEV,
    _error(_MEV, "over units"),
    Column(
        "mev_adjusted", "MEV adj", "Maximum explainable variance, adjusted",
        "Maximum explainable variance minus the SVD anisotropy of all positions", CONTEXT, null=NOT_REQUESTED
    ),
    _share(
        "mev_chance", "MEV chance", "Maximum explainable variance by chance",
        "Maximum explainable variance of as many vectors of any units", null=NOT_REQUESTED
    ),
    _count(
        "self_similarity_units", "self-sim units", "Units in the self-similarity",
        "Units over which self-similarity is averaged", "units", null=NOT_REQUESTED
    ),
    _count(
        "intra_similarity_windows", "intra-sim windows", "Windows in the similarity within a sentence",
        "Windows over which similarity within a sentence is averaged", "windows", null=NOT_REQUESTED
    ),
    _count(
        "mev_units", "MEV units", "Units in the explainable variance",
        "Units over which maximum explainable variance is averaged", "units", null=NOT_REQUESTED
    ),
    Column(
        "lidar", "LiDAR", "LiDAR of the units",
        "Effective rank of the spread between units, measured by the spread within units", DIMENSION,
        "dimensions", null=NOT_SCORED
    ),
    _ENTROPY,
    _error(_ENTROPY, DOCUMENTS),
    _count(
        "prompt_entropy_windows", "entropy windows", "Windows in the prompt entropy",
        "Windows over which prompt entropy is averaged", "windows", null=NOT_SCORED
    ),
    _CURVATURE,
    _error(_CURVATURE, DOCUMENTS),
    _count(
        "curvature_windows", "curvature windows", "Windows in the curvature",
        "Windows over which curvature is averaged", "windows", null=NOT_SCORED
    ),
    _key(
        "undefined", "JSON object: for each column that is null, the reason", title="Reasons",
        null="every column of the row has a value"
    ),
)
_LAYER, _POPULATION = _LAYERS[0], _LAYERS[3]
_UNIT = _key("unit", "Key of the unit, the same in every run", title="Unit")

DERIVED = (_M_OF_Q, _V_BETWEEN_OF_Q, _V_WITHIN_OF_Q, _V_WITHIN_OF_V)
"""Shares that readers of layers.parquet compute from two of its columns. Their errors are stored."""
MEAN_NORM = Column("mean_norm", "|mean|", "|mean| = sqrt(m)", "Norm of the mean", unit="length", null=NO_POSITION)
"""The square root of m, which exhibits also offer. It is not the mean of the norms: `norm_of_mean` is clearer."""
NORM_OF_MEAN = replace(MEAN_NORM, name="norm_of_mean")

_TOKENS = (
    _LAYER,
    _POPULATION,
    _UNIT,
    _count("n", "n", "Occurrences", "Occurrences of the unit", "positions"),
    Column("q", "Q", "Q, mean squared norm", "Mean squared norm of the unit's vectors, Q = M + V", unit=SQUARED),
    Column(
        "m", "M", "M, squared norm of the mean", "Squared norm of the unit's mean vector", unit=SQUARED,
        null=NO_VECTOR
    ),
    Column(
        "v", "V", "V, variance", "Variance of the unit's vectors, summed over coordinates", unit=SQUARED,
        null=NO_VECTOR
    ),
    Column(
        "m_unbiased", "M_u", "M, unbiased", "M corrected for the number of occurrences", unit=SQUARED,
        null=f"n is 1, or {NO_VECTOR}"
    ),
    Column(
        "v_unbiased", "V_u", "V, unbiased",
        "V corrected for the number of occurrences, as if they were independent", unit=SQUARED,
        null=f"n is 1, or {NO_VECTOR}"
    ),
    _share(
        "self_similarity", "self-sim", "Self-similarity", "Average cosine between occurrences of the unit",
        null=f"{NOT_REQUESTED}, or n is 1", signed=True
    ),
    Column(
        "m_clustered", "M_c", "M, by window", "M from pairs of occurrences in different windows", unit=SQUARED,
        null=f"{NOT_REQUESTED}, or all occurrences are in one window"
    ),
    Column(
        "v_clustered", "V_c", "V, by window", "V that allows for occurrences of one window that are alike",
        unit=SQUARED, null=f"{NOT_REQUESTED}, or all occurrences are in one window"
    ),
)
_UNITS = (
    _UNIT,
    _count("row", "row", "Row", "Code of the unit in the state", ""),
    _count("id", "id", "Token id", "Id of the token", "", null="units are not token ids"),
    _key("text", "The unit as a person reads it", title="Text"),
    _key("special", "Whether the unit is a special token (CLS, SEP, BOS, EOS)", title="Special"),
    Column(
        "tokens_per_unit", "tokens", "Tokens per unit", "Tokens that the unit consists of, on average",
        unit="tokens"
    ),
)
_COORDINATES = (
    _LAYER,
    _POPULATION,
    _count("coordinate", "i", "Coordinate", "Number of the coordinate", ""),
    Column(
        "q_i", "q_i", "q_i, mean square", "Mean square of the coordinate; the sum over coordinates is Q",
        unit=SQUARED
    ),
    Column(
        "mu_i", "mu_i", "mu_i, mean", "Mean of the coordinate; the sum of squares over coordinates is M",
        unit="length"
    ),
    Column(
        "v_i", "v_i", "v_i, variance", "Variance of the coordinate; the sum over coordinates is V",
        unit=SQUARED
    ),
    Column(
        "v_within_i", "v_W,i", "v_within_i, spread within units",
        "Spread of the coordinate within units; the sum over coordinates is V_W", unit=SQUARED, null=NO_UNITS
    ),
    Column(
        "v_between_i", "v_B,i", "v_between_i, spread between units",
        "Spread of the units' means in the coordinate; the sum over coordinates is V_B", unit=SQUARED,
        null=NO_UNITS
    ),
    Column(
        "cosine_share_i", "cos share", "Share of the mean cosine",
        "Share of the mean cosine that the coordinate makes; may be negative", null="the mean cosine is 0"
    ),
)
_SCALES = (
    _LAYER,
    _POPULATION,
    _count("scale", "n1", "Scale", "n1: the estimate compares neighbours n1 and 2 n1", "neighbours"),
    Column(
        "dimension", "dimension", "Intrinsic dimension", "Intrinsic dimension at this scale", unit="dimensions"
    ),
    Column("se", "s.e.", "Standard error", "Standard error of the dimension", unit="dimensions"),
    _count("n", "n", "Vectors", "Distinct vectors of the sample that were used", "vectors"),
)
_SPECTRA = (
    _LAYER,
    _POPULATION,
    _count("rank", "rank", "Rank", "Rank of the eigenvalue, 1 for the largest", ""),
    Column("eigenvalue", "eigenvalue", "Eigenvalue", "Eigenvalue of the covariance", unit=SQUARED),
    _share("share", "share", "Share of V", "Share of the variance that the component holds", null=EQUAL_VECTORS),
    _share(
        "cumulative", "cumulative", "Cumulative share of V",
        "Share of the variance that the component and those before it hold", null=EQUAL_VECTORS
    ),
)
_JACKKNIFE = (
    _LAYER,
    _POPULATION,
    _key("column", "Column of layers.parquet, or a share of two of them", title="Column"),
    _count("group", "group", "Group of documents", "Group of documents that was left out, 0 to 19", ""),
    Column(
        "value", "without", "Number without the group", "The number of the column without this group",
        null="Q or V is 0"
    ),
)
_CONTEXTS = (
    _UNIT,
    _count("key", "key", "Key", "Hash of the position, by which it was chosen; the same as in the sample", ""),
    _count("document", "document", "Document", "Number of the document, before filters", ""),
    _count("window", "window", "Window", "Number of the window in the document", ""),
    _count("position", "position", "Position", "Position of the (first) token in the window", ""),
    _key("before", "Text before the unit, as the model reads it", title="Before"),
    _key("text", "Text of the unit at this position", title="Text"),
    _key("after", "Text after the unit", title="After"),
)
_NEIGHBOURS = (
    _LAYER,
    _POPULATION,
    _UNIT,
    _count("rank", "rank", "Rank", "Rank of the neighbour, 1 for the nearest", ""),
    _key("neighbour", "Key of the neighbour", title="Neighbour"),
    _share("cosine", "cos", "Cosine", "Cosine of the mean vectors of the two units", signed=True, null="n is 0"),
)
_OF_GROUPS = (
    "n types dim q m v v_within v_between mean_cosine anisotropy_svd participation_ratio effective_rank iso_score "
    "norm_min norm_p1 norm_p5 norm_p25 norm_p50 norm_p75 norm_p95 norm_p99 norm_max zero nonfinite massive q_se "
    "m_se v_se m_of_q_se mean_cosine_se rogue_coordinate rogue_cosine_share rogue_half effective_rank_singular "
    "pca_dim_90 pca_dim_95 pca_dim_99 rogue_variance_coordinate rogue_variance_share alpha_req"
).split()
NO_MATRIX = "too few vectors, or the group is not among the largest, which have spectra"
_SPECTRAL = "anisotropy_svd participation_ratio effective_rank iso_score effective_rank_singular".split()
_SPECTRAL += "pca_dim_90 pca_dim_95 pca_dim_99 rogue_variance_coordinate rogue_variance_share alpha_req".split()
NO_UNIT_SUMS = "the vectors belong to no units, or the group is not among the largest, which have sums by unit"
_OF_UNITS = dict.fromkeys(("types", "v_within", "v_between"), NO_UNIT_SUMS)
_GROUP = _key("group", "Value of the field, or (other), or (missing)", title="Group")
_GROUPS = (
    _LAYER,
    _key("layer_name", "Name of the layer", label="name"),
    _POPULATION,
    _GROUP,
    _count("documents", "documents", "Documents", "Documents of the group in the whole corpus", "documents"),
    *(
        replace(column, null=_OF_UNITS.get(name, NO_MATRIX if name in _SPECTRAL else column.null))
        for name in _OF_GROUPS
        for column in _LAYERS
        if column.name == name
    ),
    _key("nearest", "Group whose mean vector is nearest", title="Nearest group", null="there is no other group"),
    Column(
        "nearest_distance", "nearest at", "Distance of the nearest group", "Distance of the two mean vectors",
        unit="length", null="there is no other group"
    ),
    _key("undefined", "Why values of this row are missing, by column, as JSON", null="no value is missing"),
)
_COSINE_BETWEEN = _share(
    "cosine_between", "cos between", "Mean cosine between groups",
    "Mean cosine of all pairs of a vector of one group and a vector of the other", DIRECTION, NO_DIRECTION,
    signed=True
)
_CENTROID_COSINE = _share(
    "centroid_cosine", "cos of means", "Cosine of means", "Cosine of the mean vectors of the two groups",
    DIRECTION, "a mean vector is 0", signed=True
)
_CENTROID_DISTANCE = Column(
    "centroid_distance", "distance", "Distance of means", "Distance of the mean vectors of the two groups", LENGTH,
    "length", null=NO_POSITION
)
_SEPARATION = Column(
    "centroid_separation", "separation", "Separation of means",
    "Squared distance of the means, without their noise, over the mean variance; 0 or less: not distinguished",
    LENGTH, null=FEW_GROUPS
)


def _differences(of: Column) -> tuple[Column, ...]:
    """The difference of a number between two groups: value, error, and the ends of the 95% interval."""
    apart = replace(
        of, name=f"{of.name}_difference", label=f"{of.label} diff.", bounds=None, format="number", group=OTHER,
        title=f"Difference of {of.label}", meaning=f"{of.name} of the other group minus that of the group"
    )
    ends = (
        replace(
            apart, name=f"{apart.name}_{end}", label=f"{apart.label} {end}", title=f"{apart.title}, {end}",
            meaning=f"{word} end of its 95% interval", null=FEW_GROUPS
        )
        for end, word in (("low", "Lower"), ("high", "Upper"))
    )
    return apart, _error(apart, DOCUMENTS, FEW_GROUPS), *ends


_GROUP_DIFFERENCES = (
    _LAYER,
    _key("layer_name", "Name of the layer", label="name"),
    _POPULATION,
    _GROUP,
    _key("other", "The other group", title="Other group"),
    *(column for of in (_Q, _M, _V, _MEAN_COSINE) for column in _differences(of)),
    *(
        column
        for of in (_COSINE_BETWEEN, _CENTROID_COSINE, _CENTROID_DISTANCE, _SEPARATION)
        for column in (of, _error(of, DOCUMENTS, FEW_GROUPS))
    ),
    _key("undefined", "Why values of this row are missing, by column, as JSON", null="no value is missing"),
)
_NO_QUERY = "no query belongs to this population"
_ATTENTION = (
    _LAYER,
    _LAYERS[1],
    _POPULATION,
    _count("head", "head", "Head", "Number of the head, from 0", ""),
    _count("n", "n", "Queries", "Queries that count", "queries"),
    _count("windows", "windows", "Windows", "Windows over which top_mass is averaged", "windows"),
    _count("pairs", "pairs", "Logits", "Pairs of a query and a key that it may attend to", "pairs"),
    Column("logit_min", "min", "Smallest logit", "Smallest attention logit", null=_NO_QUERY),
    *(
        Column(
            f"logit_p{percent:02d}", f"p{percent:02d}", f"Logit, percentile {percent}",
            f"Percentile {percent} of the attention logits", null=_NO_QUERY
        )
        for percent in (1, 5, 50, 95, 99)
    ),
    Column("logit_max", "max", "Largest logit", "Largest attention logit", null=_NO_QUERY),
    Column("entropy", "entropy", "Entropy", "Mean entropy of the weights of a query", unit="nats", null=_NO_QUERY),
    _share(
        "entropy_share", "entropy share", "Entropy, share of its maximum",
        "Mean entropy of the weights of a query over the logarithm of its keys", null="no query has two keys"
    ),
    _share(
        "first_mass", "first", "Weight of the first position",
        "Mean weight that queries give to the first position of their window", null=_NO_QUERY
    ),
    _share(
        "top_mass", "top", "Weight of the strongest key",
        "Largest mean weight of one key of a window, averaged over windows", null=_NO_QUERY
    ),
)

# fmt: on
COLUMNS: dict[str, dict[str, Column]] = {
    table: {column.name: replace(column, table=table) for column in columns}
    for table, columns in {
        "layers": _LAYERS,
        "tokens": _TOKENS,
        "units": _UNITS,
        "coordinates": _COORDINATES,
        "scales": _SCALES,
        "spectra": _SPECTRA,
        "jackknife": _JACKKNIFE,
        "contexts": _CONTEXTS,
        "neighbours": _NEIGHBOURS,
        "groups": _GROUPS,
        "group_differences": _GROUP_DIFFERENCES,
        "attention": _ATTENTION,
    }.items()
}
"""Columns by table and name, in the order in which the tables hold them."""
_READABLE = COLUMNS["layers"] | {column.name: column for column in (*DERIVED, MEAN_NORM, NORM_OF_MEAN)}


def column_names(table: str = "layers") -> list[str]:
    """Return the names of a table's columns, in order.

    >>> column_names("spectra")
    ['layer', 'population', 'rank', 'eigenvalue', 'share', 'cumulative']
    """
    return list(COLUMNS[table])


def integer_columns(table: str = "layers") -> list[str]:
    """Return the names of a table's columns that hold whole numbers.

    >>> integer_columns("coordinates")
    ['layer', 'coordinate']
    """
    return [column.name for column in COLUMNS[table].values() if column.format == "integer"]


def find_column(name: str) -> Column:
    """Return a column of layers.parquet, or a number derived from it. An unknown column is its own title.

    >>> find_column("mean_cosine").title, find_column("m_of_q").label, find_column("of_another_version").title
    ('Mean cosine', 'M/Q', 'of_another_version')
    """
    return _READABLE.get(name) or Column(name, name, name, "")


def group_columns() -> dict[str, list[Column]]:
    """Return the columns and derived shares under the headings of the report, derived shares first.

    Columns that identify a row are omitted; errors are under the last heading.
    """
    found: dict[str, list[Column]] = {group: [] for group in GROUPS}
    for column in (*DERIVED, *COLUMNS["layers"].values()):
        if column.format != "text":
            found[column.group].append(column)
    return found
