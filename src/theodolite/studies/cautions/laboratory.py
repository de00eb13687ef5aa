"""The cautions laboratory: shapes whose geometry is known, seen through projections."""

from __future__ import annotations

from theodolite.errors import InputError
from theodolite.studies.cautions.cubes import cube_tables
from theodolite.studies.cautions.hopf import hopf_tables
from theodolite.studies.cautions.sinusoids import sinusoid_tables
from theodolite.studies.laboratory import Findings, facts_of
from theodolite.surveys.listener import Listener

LABORATORY = "cautions"


def cautions(*, seed: int = 0, listener: Listener | None = None) -> Findings:
    """Make the Hopf link, the three cubes and the sinusoidal encodings, and project them. No model is needed.

    Tables: hopf, hopf_facts, hopf_shares, cubes, sinusoid, sinusoid_cosines.
    """
    if not 0 <= seed < 2**32:
        raise InputError(f"--seed {seed}: wanted a number from 0 to 2^32 - 1.")
    say = (listener or Listener()).say
    say("projecting the Hopf link by PCA, t-SNE and UMAP")
    tables = hopf_tables(seed)
    say("drawing the cubes and the sinusoids")
    tables |= cube_tables(seed) | sinusoid_tables()
    return Findings(facts_of(LABORATORY, None, seed=seed), tables)
