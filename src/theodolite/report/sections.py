"""The interactive sections of the page, and which of them a page has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from theodolite.report.tables import Tables
from theodolite.report.vectors import are_vector_surveys, is_vector_survey, reword_for_vectors


@dataclass(frozen=True)
class Section:
    """A section whose charts `assets/KEY.js` draws."""

    key: str
    title: str
    lead: str
    is_possible: Callable[[Sequence[Tables]], bool]
    of_series: bool = False  # it shows series, not surveys
    layers_lead: str = ""  # added if there is more than one layer


def _has_table(name: str) -> Callable[[Sequence[Tables]], bool]:
    return lambda surveys: any(len(getattr(tables, name)) for tables in surveys)


def _has_columns(*names: str) -> Callable[[Sequence[Tables]], bool]:
    return lambda surveys: any(
        all(name in tables.layers.columns and tables.layers[name].notna().any() for name in names)
        for tables in surveys
    )


def _has_layers(surveys: Sequence[Tables]) -> bool:
    """Return whether a survey has more than one layer; one layer has no profile."""
    return any("layer" in tables.layers.columns and tables.layers["layer"].nunique() > 1 for tables in surveys)


def _has_map(surveys: Sequence[Tables]) -> bool:
    """Return whether a survey has tokens to draw as a map; a map of a few groups of vectors shows nothing."""
    return any(
        len(one.tokens) and not (is_vector_survey(one) and len(one.units) < FEWEST_GROUPS) for one in surveys
    )


FEWEST_GROUPS = 10

SECTIONS = (
    Section(
        "side-by-side",
        "Side by side",
        "One measure of every survey on one axis: 0 at the embeddings, 1 at the last block.",
        lambda surveys: len(surveys) > 1 and _has_layers(surveys),
    ),
    Section(
        "steps",
        "During training",
        "Checkpoints of one model on the same text. Move the slider or press Play; arrow keys change the step.",
        _has_table("layers"),
        of_series=True,
    ),
    Section(
        "profiles",
        "Layer by layer",
        "One measure at every layer. Choose another measure or hide populations; the arrow keys change the layer.",
        _has_layers,
    ),
    Section(
        "groups",
        "Groups of documents",
        "The documents by one field, from the same pass. Groups whose vectors have a mean cosine between them as "
        "high as within them are not distinguished at that layer.",
        _has_table("groups"),
        layers_lead="Change the layer to follow the pairs.",
    ),
    Section(
        "decomposition",
        "Decomposition of the norm",
        "Q = M + V: the mean squared norm (Q) is the squared norm of the mean (M) plus the variance (V), which is "
        "the sum of the variance within units (V_W) and between units (V_B).",
        lambda surveys: _has_layers(surveys) and _has_columns("q", "m")(surveys),
        layers_lead="Click a bar to choose the layer.",
    ),
    Section(
        "token-map",
        "Token by token",
        "Every token at one layer: the squared norm of its mean vector (M) and how much its vectors vary with the "
        "context (V). If the norm is bounded, a larger M leaves less for V.",
        _has_map,
    ),
    Section(
        "norms",
        "Norms",
        "The norms of the vectors at each layer, and how they are distributed.",
        lambda surveys: _has_layers(surveys) and _has_columns("norm_p50")(surveys),
    ),
    Section(
        "spectra",
        "Spectra and dimension",
        "How many directions the vectors use: linearly, by the eigenvalues of their covariance, and locally, by "
        "the distances between neighbours.",
        lambda surveys: _has_table("spectra")(surveys) or _has_table("scales")(surveys),
    ),
    Section(
        "projection",
        "Projection",
        "The sample of vectors as points in a plane. Click a point to see its nearest vectors.",
        _has_table("projections"),
        layers_lead="Change the layer to follow the vectors.",
    ),
)


OPENINGS = ("side-by-side", "profiles", "spectra", "steps")
"""The section that stands beside the verdict: the first of these that a page has."""
WIDE = ("spectra", "steps")
"""Sections with several charts, which stand below the verdict instead."""


def select_opening(surveys: Sequence[Tables], series: Sequence[Tables] = ()) -> Section | None:
    """Return the section that opens the page; None for a page without charts."""
    found = {section.key: section for section in select_sections(surveys, series)}
    return next((found[key] for key in OPENINGS if key in found), None)


def render_sections(surveys: Sequence[Tables], series: Sequence[Tables] = ()) -> str:
    """Return the empty sections that follow the opening; the script fills them."""
    first = select_opening(surveys, series)
    return "".join(
        render_section(section, surveys)
        for section in select_sections(surveys, series)
        if first is None or section.key != first.key
    )


def render_section(section: Section, surveys: Sequence[Tables]) -> str:
    """Return an empty section with its heading and its lead."""
    lead = " ".join(filter(None, (section.lead, section.layers_lead if _has_layers(surveys) else "")))
    return (
        f'<section class="part" data-part="{section.key}" id="{section.key}" aria-labelledby="{section.key}-head">'
        f'<h2 id="{section.key}-head">{section.title}</h2><p class="quiet">{lead}</p>'
        '<div class="mount"></div></section>'
    )


def select_sections(surveys: Sequence[Tables], series: Sequence[Tables] = ()) -> list[Section]:
    """Return the sections that these surveys and series can fill."""
    possible = [section for section in SECTIONS if section.is_possible(series if section.of_series else surveys)]
    return [_reword(section) for section in possible] if are_vector_surveys(surveys) else possible


def _reword(section: Section) -> Section:
    return replace(section, title=reword_for_vectors(section.title), lead=reword_for_vectors(section.lead))
