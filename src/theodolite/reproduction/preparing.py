"""What must be done with each survey before a paper's exhibits are drawn, such as a second pass over the text."""

from __future__ import annotations

from collections.abc import Callable

from theodolite.errors import InputError, TheodoliteError
from theodolite.reproduction.plan import Task
from theodolite.studies.anisotropy.batch_summary import BATCHES
from theodolite.studies.anisotropy.batches import make_batches
from theodolite.studies.norm_variance.set_files import read_sets
from theodolite.studies.norm_variance.token_sets import make_sets
from theodolite.studies.reading import read
from theodolite.studies.surveyed import Surveyed, middle_layer
from theodolite.surveys.listener import Listener

WITHOUT = "without-massive"
Preparation = Callable[[Task, Listener], None]
"""Takes a task whose survey is finished, and who listens; leaves files in the survey's folder. It does nothing
where they are there already, and raises an InputError where the survey does not lend itself to it."""


def token_sets(task: Task, listener: Listener) -> None:
    """Gather the vectors of chosen tokens (fig1, fig8, table2) unless this survey's lie there.

    Without massive positions, where there are any: a few of them would be all that the plane shows.
    """
    if not _has_sets(task):
        survey = read(task.folder, ("layers",))
        population = WITHOUT if _has_massive(survey) else "all"
        make_sets(task.folder, population=population, model=task.model, corpus=task.corpus, listener=listener)


def batches(task: Task, listener: Listener) -> None:
    """Measure contiguous batches (fig1) unless this survey's lie there; their dimension is in no exhibit."""
    if not _has_batches(task):
        make_batches(task.folder, dimension=False, model=task.model, corpus=task.corpus, listener=listener)


PREPARATIONS: dict[str, tuple[Preparation, ...]] = {"norm-variance": (token_sets,), "dynamics": (batches,)}
"""By paper, in order; run for every survey but those that are by words besides."""


def prepare(paper: str, task: Task, listener: Listener) -> None:
    """Take a paper's preparatory steps; one that this survey cannot take is told and left to the exhibits."""
    for step in PREPARATIONS.get(paper, ()) if task.kind == "text" else ():
        try:
            step(task, listener)
        except InputError as error:
            listener.warn(str(error))


def _has_massive(survey: Surveyed) -> bool:
    """Say whether the layer of the sets has massive positions, and the survey tells what is without them."""
    rows = survey.layers[survey.layers["layer"] == middle_layer(survey)]
    return WITHOUT in survey.facts["populations"] and bool((rows["massive"] > 0).any())


def _has_sets(task: Task) -> bool:
    """Say whether sets of this very survey lie beside it; damaged ones and those of one before it do not count."""
    try:
        return read_sets(task.folder, read(task.folder, ()).facts) is not None
    except TheodoliteError:
        return False


def _has_batches(task: Task) -> bool:
    """Say whether batches of this very survey lie beside it."""
    try:
        return BATCHES in read(task.folder, (BATCHES,)).tables
    except TheodoliteError:
        return False
