"""Findings: what stands out in the tables of a survey, each as a headline figure with one or two sentences."""

from __future__ import annotations

from dataclasses import replace

from theodolite.report.findings.anisotropy import find_mean_cosine_peak, find_svd_peak
from theodolite.report.findings.contextuality import find_contextuality
from theodolite.report.findings.dimension import find_dimension, find_hubs
from theodolite.report.findings.finding import Finding
from theodolite.report.findings.norms import find_mean_share, find_norms
from theodolite.report.findings.rogue import find_rogue
from theodolite.report.findings.tradeoff import find_tradeoff
from theodolite.report.findings.warnings import collect_warnings
from theodolite.report.tables import Tables, layer_rows, populations
from theodolite.report.vectors import hide_layer_name, is_vector_survey, reword_for_vectors

__all__ = ["Finding", "collect_findings", "collect_warnings"]

FINDERS = (
    find_mean_cosine_peak,
    find_svd_peak,
    find_mean_share,
    find_tradeoff,
    find_dimension,
    find_hubs,
    find_rogue,
    find_contextuality,
    find_norms,
)


def collect_findings(tables: Tables) -> list[Finding]:
    """Return the findings on a survey, in reading order; undefined ones are omitted."""
    shared = hide_layer_name(Tables.of(tables))
    found = [find(shared) for find in FINDERS]
    kept = [one for one in found if one is not None]
    base = (populations(shared) or ["all"])[0]
    if base != "all" and layer_rows(shared, "all"):
        kept = [one if base in one.text else replace(one, text=f"{one.text} Population {base}.") for one in kept]
    return [_reword(one) for one in kept] if is_vector_survey(tables) else kept


def _reword(one: Finding) -> Finding:
    return replace(one, headline=reword_for_vectors(one.headline), text=reword_for_vectors(one.text), place="")
