"""Themes: what the formulas are about, told by how their ids begin. For lists that people read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from theodolite.measures.formula import Formula


@dataclass(frozen=True, slots=True)
class Theme:
    """A heading, a sentence or two under it, and the beginnings of the ids that stand there, in their order."""

    title: str
    told: str  # Markdown; links are relative to docs/
    begins: tuple[str, ...]


THEMES = (
    Theme(
        "Norms and variance",
        "How long the vectors are and how far they spread: Q = M + V, per unit and of everything. See "
        "[norm-variance](norm-variance.md).",
        ("qmv/all", "qmv/unit", "qmv/", "q-cv/", "tradeoff/", "coordinates/", "norm-quantiles/"),
    ),
    Theme(
        "Anisotropy",
        "How much the vectors lean the same way, and which coordinates make it so. See "
        "[anisotropy](anisotropy.md).",
        ("mean-cosine/", "cosine-share/", "rogue/", "anisotropy-svd/", "isotropy/", "iso-score/"),
    ),
    Theme(
        "Drift",
        "Whether the mean cosine goes with the length of the mean, layer by layer.",
        ("drift/",),
    ),
    Theme(
        "Spectra and linear dimension",
        "What the eigenvalues of the covariance say. The covariance is that of everything seen, not of a sample.",
        ("spectrum/", "participation-ratio/", "effective-rank/", "stable-rank/", "pca-dimension/"),
    ),
    Theme(
        "Intrinsic dimension and neighbourhoods",
        "In how many dimensions the vectors live, from the distances to their nearest neighbours in the sample.",
        ("twonn/", "gride/", "mle/", "hubness/"),
    ),
    Theme(
        "Contextuality",
        "How much one token's vectors differ with what stands around it; kept with `--contextuality`.",
        ("self-similarity/", "intra-sentence-similarity/", "mev/"),
    ),
    Theme(
        "What if",
        "What a survey becomes when its vectors are transformed. See [what if](what-if.md).",
        ("what-if/",),
    ),
    Theme(
        "Training",
        "What comes first while a model trains. See [dynamics](dynamics.md) and [training](training.md).",
        ("lead/",),
    ),
    Theme(
        "Attention, and one block",
        "Queries, keys and softmax weights, and what a block does as its input drifts. See [block](block.md).",
        ("attention/", "fixed-point/"),
    ),
    Theme(
        "A model's tables",
        "Pairs of token and position vectors, and the shape of the positions. See [weights](weights.md) and "
        "[positions](positions.md).",
        ("pair/", "positions/", "periodicity/", "untrained/"),
    ),
    Theme(
        "Tokens through the layers",
        "How far a token's state moves and turns, and where two sentences part. See [trace](trace.md).",
        ("path/", "parting/"),
    ),
    Theme(
        "Groups of sentences",
        "Whether sentences alike in meaning lie together. See [groups](groups.md).",
        ("groups/", "silhouette/", "pca/"),
    ),
    Theme(
        "Contrast",
        "Whether two kinds of pairs differ in the same direction, and how sure that is. See "
        "[contrast](contrast.md).",
        ("cosine/", "sign-flip-p/", "p-holm"),
    ),
    Theme(
        "Clouds",
        "How far two corpora are apart. See [clouds](clouds.md).",
        ("energy-distance", "linear-accuracy/"),
    ),
    Theme("Probes", "What a word's vector knows. See [probe](probe.md).", ("probe-",)),
    Theme("Cautions", "What projections make up. See [cautions](cautions.md).", ("linking-number/",)),
)
OTHER = Theme("Other", "", ("",))


def by_theme(found: Iterable[Formula]) -> dict[Theme, list[Formula]]:
    """Return the formulas under their themes, each once; themes without any are left out."""
    placed: dict[Theme, list[tuple[int, str, Formula]]] = {theme: [] for theme in (*THEMES, OTHER)}
    for formula in found:
        theme, place = _place(formula.id)
        placed[theme].append((place, formula.id, formula))
    return {
        theme: [each[2] for each in sorted(held, key=lambda e: e[:2])] for theme, held in placed.items() if held
    }


def theme_of(id: str) -> Theme:  # noqa: A002
    """Return the theme of a formula.

    >>> theme_of("twonn/ml").title
    'Intrinsic dimension and neighbourhoods'
    """
    return _place(id)[0]


def _place(id: str) -> tuple[Theme, int]:  # noqa: A002
    for theme in THEMES:
        for place, begin in enumerate(theme.begins):
            if id.startswith(begin):
                return theme, place
    return OTHER, 0
