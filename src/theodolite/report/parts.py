"""The interactive parts of the page: which there are, and when a page has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from theodolite.report.tables import Tables
from theodolite.report.vectors import all_of_vectors, told_of_vectors


@dataclass(frozen=True)
class Part:
    """A section whose charts the script `assets/KEY.js` draws."""

    key: str
    title: str
    lead: str
    wanted: Callable[[Sequence[Tables]], bool]
    of_series: bool = False  # it is given series in place of surveys
    moving: str = ""  # said where there is more than one layer


def _any(name: str) -> Callable[[Sequence[Tables]], bool]:
    return lambda surveys: any(len(getattr(tables, name)) for tables in surveys)


def _column(*names: str) -> Callable[[Sequence[Tables]], bool]:
    return lambda surveys: any(
        all(name in tables.layers.columns and tables.layers[name].notna().any() for name in names)
        for tables in surveys
    )


def _layered(surveys: Sequence[Tables]) -> bool:
    """Whether a survey has more than one layer: of one alone a line is a dot, and the table has it."""
    return any("layer" in tables.layers.columns and tables.layers["layer"].nunique() > 1 for tables in surveys)


PARTS = (
    Part(
        "side-by-side",
        "Side by side",
        "One measure of every survey on one axis: 0 at the embeddings, 1 at the last block.",
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
        _layered,
    ),
    Part(
        "decomposition",
        "Where the length comes from",
        "Q = M + V: the mean squared norm is the squared norm of the mean and the variance, which is spread "
        "within units and between them.",
        _column("q", "m"),
        moving="A click on a bar chooses the layer.",
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
        lambda surveys: _layered(surveys) and _column("norm_p50")(surveys),
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
        "A shadow of the sample on two directions. A click on a point chooses its token.",
        _any("projections"),
        moving="Move the layer to follow the vectors.",
    ),
)


def sections(surveys: Sequence[Tables], series: Sequence[Tables] = ()) -> str:
    """Return the sections that the script fills, each with its heading and lead."""
    moving = _layered(surveys)
    return "".join(
        f'<section class="part" data-part="{part.key}" id="{part.key}" aria-labelledby="{part.key}-head">'
        f'<h2 id="{part.key}-head">{part.title}</h2>'
        f'<p class="quiet">{" ".join(filter(None, (part.lead, part.moving if moving else "")))}</p>'
        '<div class="mount"></div></section>'
        for part in present(surveys, series)
    )


def present(surveys: Sequence[Tables], series: Sequence[Tables] = ()) -> list[Part]:
    """Return the parts that these surveys and series can fill."""
    there = [part for part in PARTS if part.wanted(series if part.of_series else surveys)]
    return [_of_vectors(part) for part in there] if all_of_vectors(surveys) else there


def _of_vectors(part: Part) -> Part:
    return replace(part, title=told_of_vectors(part.title), lead=told_of_vectors(part.lead))
