"""Reproduce a paper: run the missing surveys, draw every exhibit, write the index page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.engines.progress import Listener
from theodolite.errors import TheodoliteError
from theodolite.exhibits.registry import all_exhibits
from theodolite.reproduction import laboratories
from theodolite.reproduction.drawing import DrawResult, ExhibitWriter
from theodolite.reproduction.index import Reproduction
from theodolite.reproduction.laboratories import Materials
from theodolite.reproduction.plan import (
    CONTEXTUAL,
    UNITS,
    Corpora,
    Edition,
    Task,
    check_paper,
    plan_editions,
    plan_surveys,
    split_models,
)
from theodolite.reproduction.surveys import ensure_surveys, run_second_passes
from theodolite.storage.location import list_output_folder, local_path


def reproduce(
    paper: str,
    models: Sequence[str],
    corpus: str | None,
    out: str | Path,
    *,
    audio: str | None = None,
    images: str | None = None,
    against: str | None = None,
    series: Sequence[str | Path] = (),
    units: str | None = None,
    files: Mapping[str, str | Path] | None = None,
    options: Mapping[str, Any] | None = None,
    listener: Listener | None = None,
) -> Reproduction:
    """Reproduce a paper on these models and this corpus.

    This writes OUT/surveys, OUT/laboratories, OUT/figures, OUT/index.html and OUT/index.json. Speech models read
    `audio` and vision models read `images`: folders or catalogue names. A model that reads another corpus is given
    as "model=corpus". `against` is the second corpus of papers that compare two. `series` are folders written by
    `theodolite dynamics` or while a model trained, for figures by training step. `options` are passed to every
    survey (`limit`, `layers`, `device`, ...), and to every laboratory that has them. `files` are the inputs of
    laboratories by name (words, pairs, groups, sentences), by default samples of the package. Finished surveys
    with the same settings are reused, unfinished ones are resumed, and others are rejected.
    `units=None` means the units of the paper. The option `contextuality=None` turns contextuality on where the
    paper's exhibits use it: for the surveys of `norm-variance`, except additional surveys by word that get
    a pass of their own.
    """
    listener, given, folder = listener or Listener(), dict(options or {}), local_path(out, "reproduce")
    known = list(all_exhibits().values())
    check_paper(paper, known)
    list_output_folder(folder)  # rejects a file
    planned, units = plan_editions(paper, known), units or UNITS.get(paper, "id")
    names, own = split_models(models)
    corpora = Corpora(corpus, audio, images, own)
    reads = corpora.assign(names, listener)
    exhibits = [edition.exhibit for edition in planned]
    needs_surveys = laboratories.needs_surveys(exhibits)
    inputs = laboratories.check_files(paper, exhibits, files or {})
    used = {name: given[name] for name in laboratories.OPTIONS if given.get(name) is not None}
    if not needs_surveys:
        laboratories.warn_of_unused(paper, given, listener)
    surveys = plan_surveys(names, folder, units, exhibits, reads.__getitem__) if needs_surveys else []
    experiments = laboratories.plan_laboratories(exhibits, reads, folder)
    series_tasks = laboratories.plan_series(series)

    def survey_options(task: Task) -> dict[str, Any]:
        contextual = given.get("contextuality")
        if contextual is None:
            contextual = paper in CONTEXTUAL and task.units == units
        return given | {"contextuality": contextual}

    surveys = ensure_surveys(surveys, survey_options, listener)
    for task in surveys:
        if task.units == units:
            run_second_passes(paper, task, listener)
    for task in experiments:
        text = corpora.own.get(task.model, corpus)
        laboratories.ensure_laboratory(task, Materials(text, against, **inputs, **used), listener)
    tasks = [*surveys, *experiments, *series_tasks]
    writer, results = ExhibitWriter(tasks, folder), list[DrawResult]()
    for number, edition in enumerate(planned, 1):
        if edition.suffix and _lacks_data(edition, results):
            continue  # data that is missing for the paper's own edition is missing for the other editions too
        if listener.stop():
            raise TheodoliteError(
                "Interrupted. The surveys are finished; run the same command again to draw them."
            )
        listener.say(f"drawing {number} of {len(planned)}: {edition.stem}")
        results.append(writer.draw(edition))
    reproduction = Reproduction(paper, str(corpora), folder, tasks, results)
    reproduction.write()
    return reproduction


def _lacks_data(edition: Edition, results: Sequence[DrawResult]) -> bool:
    """Return whether the paper's own edition of the exhibit was not drawn for lack of data."""
    own = [result for result in results if result.edition.exhibit == edition.exhibit and not result.edition.suffix]
    return any(not result.drawn and not result.failed for result in own)
