"""The registry of formulas: id, columns, definition, cost, citation, and the theme each belongs to.

The same word means different things in different tools, so every number names its formula.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Formula:
    """One formula and the columns that hold its values."""

    id: str
    columns: tuple[str, ...]
    definition: str
    cost: str
    citation: str
    error: str = ""  # how its standard error is computed; empty if it has none

    @property
    def anchor(self) -> str:
        """Anchor of the formula in docs/measures.md."""
        return anchor(self.id)


def anchor(id: str) -> str:  # noqa: A002
    """Return a formula's anchor in docs/measures.md, made from its id as GitHub makes one from a heading.

    >>> anchor("anisotropy-svd/centred"), anchor("p-holm")
    ('anisotropy-svdcentred', 'p-holm')
    """
    return re.sub(r"[^\w-]", "", id.lower())


_formulas: dict[str, Formula] = {}


def formula(
    id: str,  # noqa: A002
    *columns: str,
    definition: str,
    cost: str,
    citation: str,
    error: str = "",
) -> Callable[[Function], Function]:
    """Register the formula that the decorated function computes."""

    def register(function: Function) -> Function:
        if id in _formulas:
            raise ValueError(f"formula id {id!r} is already registered")
        _formulas[id] = Formula(id, columns, definition, cost, citation, error)
        return function

    return register


def formulas() -> dict[str, Formula]:
    """Return every formula by id, sorted."""
    _import_measures()
    return dict(sorted(_formulas.items()))


@cache
def _import_measures() -> None:
    """Import every module of the folder, once: that registers its formulas."""
    import importlib
    import pkgutil

    from theodolite import measures

    for module in pkgutil.walk_packages(measures.__path__, "theodolite.measures."):
        importlib.import_module(module.name)


def formula_of_column(table: str = "layers") -> dict[str, str]:
    """Return the formula id behind every column of a table that has one, error bars included.

    A column "tokens.q" is the column q of tokens.parquet; a plain "q" is the column of every other table.
    """
    ids: dict[str, str] = {}
    own: dict[str, str] = {}
    for known in formulas().values():
        for column in known.columns:
            home, _, name = column.rpartition(".")
            if home in ("", table):
                (own if home else ids)[name] = known.id
        ids |= dict.fromkeys(re.findall(r"\w+_se\b", known.error), known.id)
    return ids | own


@dataclass(frozen=True, slots=True)
class Theme:
    """A heading for lists of formulas, a short description, and the id prefixes that belong to it, in order."""

    title: str
    description: str  # Markdown; links are relative to docs/
    prefixes: tuple[str, ...]


THEMES = (
    Theme(
        "Norms and variance",
        "How long the vectors are and how far they spread: Q = M + V, per unit and over all positions. See "
        "[norm-variance](norm-variance.md).",
        (
            "qmv/all",
            "qmv/unit",
            "qmv/",
            "v-within/",
            "jackknife/",
            "q-cv/",
            "tradeoff/",
            "coordinates/",
            "norm-quantiles/",
        ),
    ),
    Theme(
        "Anisotropy",
        "How much the vectors point in the same direction, and which coordinates cause it. See "
        "[anisotropy](anisotropy.md).",
        ("mean-cosine/", "cosine-share/", "rogue/", "anisotropy-svd/", "isotropy/", "iso-score/"),
    ),
    Theme(
        "Drift",
        "Whether the mean cosine follows the norm of the mean, layer by layer.",
        ("drift/",),
    ),
    Theme(
        "Spectra and linear dimension",
        "Measures of the covariance's eigenvalues. The covariance is that of all positions, not of a sample.",
        ("spectrum/", "participation-ratio/", "effective-rank/", "stable-rank/", "pca-dimension/"),
    ),
    Theme(
        "Intrinsic dimension and neighbourhoods",
        "How many dimensions the vectors occupy, from the distances to their nearest neighbours in the sample, "
        "and which units are nearest to each other.",
        ("twonn/", "gride/", "mle/", "hubness/", "unit-neighbours/"),
    ),
    Theme(
        "Contextuality",
        "How much the vectors of one token depend on its context. Computed with `--contextuality`.",
        ("self-similarity/", "intra-sentence-similarity/", "mev/"),
    ),
    Theme(
        "Layer scores",
        "Numbers by which a layer may be chosen without labels, and [how well they predict](which-layer.md) what "
        "it is good for. LiDAR, prompt entropy and curvature are computed with `--layer-scores`.",
        ("rankme/", "alpha-req/", "lidar/", "prompt-entropy/", "curvature/"),
    ),
    Theme(
        "What if",
        "The measures of a survey after its vectors are transformed. See [what if](what-if.md).",
        ("what-if/",),
    ),
    Theme(
        "Training",
        "Which of two measures changes first while a model trains. See [dynamics](dynamics.md) and "
        "[training](training.md).",
        ("lead/",),
    ),
    Theme(
        "Attention, and one block",
        "Queries, keys, attention logits and weights, the error of quantized keys, and the output of one block as "
        "its input drifts. See [streams](streams.md) and [block](block.md).",
        ("attention/", "quantization/", "fixed-point/"),
    ),
    Theme(
        "A model's tables",
        "Pairs of token and position vectors, and the shape of the positions. See [weights](weights.md) and "
        "[positions](positions.md).",
        ("pair/", "positions/", "periodicity/", "untrained/"),
    ),
    Theme(
        "Tokens through the layers",
        "How far a token's state moves and turns, and at which layer two sentences part. See [trace](trace.md).",
        ("path/", "parting/"),
    ),
    Theme(
        "Groups of sentences",
        "Whether sentences of similar meaning have nearby vectors. See [groups](groups.md).",
        ("groups/", "silhouette/", "pca/"),
    ),
    Theme(
        "Contrast",
        "Whether two classes of pairs differ in the same direction, with intervals and tests. See "
        "[contrast](contrast.md).",
        ("cosine/", "sign-flip-p/", "random-swap-p", "association/", "p-holm"),
    ),
    Theme(
        "Clouds",
        "How far two corpora are apart. See [clouds](clouds.md).",
        ("energy-distance", "linear-accuracy/"),
    ),
    Theme(
        "Groups of a corpus",
        "How the groups of documents by a field differ, and which cannot be distinguished. See [by](by.md).",
        ("group-difference/", "cosine-between/", "centroid-"),
    ),
    Theme(
        "Bridge",
        "How similar two models or layers are over the same positions. See [bridge](bridge.md).",
        ("cka/", "linear-map/", "mutual-knn/", "neighbour-churn/", "recall/"),
    ),
    Theme(
        "Vector stores",
        "Whether the vectors of two stores differ. See [stores](stores.md).",
        ("two-samples/",),
    ),
    Theme("Probes", "What a classifier can read from a word's vector. See [probe](probe.md).", ("probe-",)),
    Theme("Cautions", "Artefacts of projections. See [cautions](cautions.md).", ("linking-number/",)),
)
OTHER = Theme("Other", "", ("",))


def group_by_theme(found: Iterable[Formula]) -> dict[Theme, list[Formula]]:
    """Return the formulas by theme, each once; empty themes are omitted."""
    placed: dict[Theme, list[tuple[int, str, Formula]]] = {theme: [] for theme in (*THEMES, OTHER)}
    for one in found:
        theme, place = _find_theme(one.id)
        placed[theme].append((place, one.id, one))
    return {
        theme: [each[2] for each in sorted(held, key=lambda e: e[:2])] for theme, held in placed.items() if held
    }


def theme_of(id: str) -> Theme:  # noqa: A002
    """Return the theme of a formula.

    >>> theme_of("twonn/ml").title
    'Intrinsic dimension and neighbourhoods'
    """
    return _find_theme(id)[0]


def _find_theme(id: str) -> tuple[Theme, int]:  # noqa: A002
    for theme in THEMES:
        for place, prefix in enumerate(theme.prefixes):
            if id.startswith(prefix):
                return theme, place
    return OTHER, 0
