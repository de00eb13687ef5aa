"""What the numbers say, in plain words: each finding is one sentence or two made from the tables alone."""

from __future__ import annotations

from dataclasses import replace

from theodolite.report.findings.anisotropy import mean_cosine, svd
from theodolite.report.findings.contextuality import contextuality
from theodolite.report.findings.dimension import dimension
from theodolite.report.findings.finding import Finding
from theodolite.report.findings.hubness import hubness
from theodolite.report.findings.makeup import makeup
from theodolite.report.findings.norms import norms
from theodolite.report.findings.rogue import rogue
from theodolite.report.findings.tradeoff import tradeoff
from theodolite.report.findings.warnings import warnings
from theodolite.report.tables import Tables
from theodolite.report.vectors import of_vectors, told_of_vectors

__all__ = ["Finding", "findings", "warnings"]

MAKERS = (mean_cosine, svd, makeup, tradeoff, dimension, hubness, rogue, contextuality, norms)


def findings(tables: Tables) -> list[Finding]:
    """Return what stands out in a survey, in reading order; what is undefined is left out."""
    shared = Tables.of(tables)
    found = [make(shared) for make in MAKERS]
    kept = [one for one in found if one is not None]
    return [_of_vectors(one) for one in kept] if of_vectors(tables) else kept


def _of_vectors(one: Finding) -> Finding:
    return replace(one, headline=told_of_vectors(one.headline), text=told_of_vectors(one.text), place="")
