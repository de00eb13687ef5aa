"""The interactive parts of the page: which there are, and when a page has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from theodolite.report.tables import Tables


@dataclass(frozen=True)
class Part:
    """A section whose charts the script `assets/KEY.js` draws."""

    key: str
    title: str
    lead: str
    wanted: Callable[[Sequence[Tables]], bool]
    of_series: bool = False  # it is given series in place of surveys


def _any(name: str) -> Callable[[Sequence[Tables]], bool]:
    return lambda surveys: any(len(getattr(tables, name)) for tables in surveys)


def _column(*names: str) -> Callable[[Sequence[Tables]], bool]:
    return lambda surveys: any(
        all(name in tables.layers.columns and tables.layers[name].notna().any() for name in names)
        for tables in surveys
    )


PARTS = (
    Part(
        "side-by-side",
        "Side by side",
        "One measure of every survey on one axis: the first layer of each is at 0, the last at 1.",
        lambda surveys: len(surveys) > 1 and _any("layers")(surveys),
    ),
    Part(
        "steps",
        "Through the training",
        "Checkpoints of one model on the same text. Move the slider, or press play; the arrow keys move the step.",
        _any("layers"),
        of_series=True,
    ),
    Part(
        "profiles",
        "Layer by layer",
        "One measure at every layer. Choose another, or leave populations out; the arrow keys move the layer.",
        _any("layers"),
    ),
    Part(
        "decomposition",
        "Where the length comes from",
        "Q = M + V: the mean squared norm is the squared norm of the mean and the variance, which is spread "
        "between units and within them. A click on a bar chooses the layer.",
        _column("q", "m"),
    ),
    Part(
        "token-map",
        "Token by token",
        "Every token at one layer: how long its mean vector is (M) and how much its vectors vary with the context "
        "(V). Where the length is bounded, what one gains the other loses.",
        _any("tokens"),
    ),
    Part(
        "norms",
        "Norms",
        "How long the vectors are at each layer, and how unevenly.",
        _column("norm_p50"),
    ),
    Part(
        "spectra",
        "Spectra and dimension",
        "How many directions the vectors use: linearly, by the eigenvalues of their covariance, and locally, by "
        "the distances between neighbours.",
        lambda surveys: _any("spectra")(surveys) or _any("scales")(surveys),
    ),
    Part(
        "projection",
        "Projection",
        "A shadow of the sample on two directions. Move the layer to follow the vectors; a click chooses a token.",
        _any("projections"),
    ),
)


def sections(surveys: Sequence[Tables], series: Sequence[Tables] = ()) -> str:
    """Return the sections that the script fills, each with its heading and lead."""
    return "".join(
        f'<section class="part" data-part="{part.key}" id="{part.key}" aria-labelledby="{part.key}-head">'
        f'<h2 id="{part.key}-head">{part.title}</h2><p class="quiet">{part.lead}</p>'
        '<div class="mount"></div></section>'
        for part in present(surveys, series)
    )


def present(surveys: Sequence[Tables], series: Sequence[Tables] = ()) -> list[Part]:
    """Return the parts that these surveys and series can fill."""
    return [part for part in PARTS if part.wanted(series if part.of_series else surveys)]
