"""A paper, repeated: the surveys that are missing, then every exhibit, then the index page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, TheodoliteError
from theodolite.exhibits.registry import all_exhibits
from theodolite.reproduction import laboratories
from theodolite.reproduction.corpora import Corpora, split
from theodolite.reproduction.drawing import Artist, Shown
from theodolite.reproduction.laboratories import Materials
from theodolite.reproduction.plan import CONTEXTUAL, UNITS, Edition, check_paper, editions, tasks
from theodolite.reproduction.preparing import prepare
from theodolite.reproduction.result import Reproduction
from theodolite.reproduction.surveying import surveyed
from theodolite.surveys.listener import Listener
from theodolite.surveys.storage import on_disk


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
    options: Mapping[str, Any] | None = None,
    listener: Listener | None = None,
) -> Reproduction:
    """Repeat a paper on these models and this corpus; leave OUT/surveys, OUT/figures, OUT/index.html and .json.

    Models of speech read `audio` and models of vision `images`, folders or names of the catalogue; one that reads
    something of its own is given as "model=corpus". `against` is a second corpus, where a paper compares two.
    `series` are folders that `theodolite dynamics` or a training left, where a paper follows one.
    `options` go to every survey as they are (`limit`, `layers`, `device`, ...). Surveys with the same settings are
    used again, unfinished ones resumed, others refused. `units` None are the paper's own. `contextuality` None is
    what the paper's exhibits can use: for the surveys of `norm-variance`, but not for those by words besides.
    """
    listener, given, folder = listener or Listener(), dict(options or {}), on_disk(out, "reproduce")
    known = list(all_exhibits().values())
    check_paper(paper, known)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; give the name of a folder.")
    wanted, units = editions(paper, known), units or UNITS.get(paper, "id")
    names, own = split(models)
    corpora = Corpora(corpus, audio, images, own)
    reads = corpora.reads(names, listener)
    exhibits = [edition.exhibit for edition in wanted]
    surveys = laboratories.needs_surveys(exhibits)
    plan = tasks(names, folder, units, exhibits, reads.__getitem__) if surveys else []
    experiments = laboratories.tasks(exhibits, reads, folder)
    followed = laboratories.series_tasks(series)
    for task in plan:
        contextual = given.get("contextuality")
        if contextual is None:
            contextual = paper in CONTEXTUAL and task.units == units
        surveyed(task, given | {"contextuality": contextual}, listener)
    for task in plan:
        if task.units == units:
            prepare(paper, task, listener)
    for task in experiments:
        laboratories.made(task, Materials(corpus, against=against, device=given.get("device")), listener)
    plan = [*plan, *experiments, *followed]
    artist, shown = Artist(plan, folder), list[Shown]()
    for number, edition in enumerate(wanted, 1):
        if edition.told and _refused(edition, shown):
            continue  # what the surveys lack for the paper's own, they lack for every other edition
        if listener.stop():
            raise TheodoliteError("Interrupted; the surveys are finished, and the same command draws from them.")
        listener.say(f"drawing {number} of {len(wanted)}: {edition.stem}")
        shown.append(artist.draw(edition))
    made = Reproduction(paper, str(corpora), folder, plan, shown)
    made.write()
    return made


def _refused(edition: Edition, shown: Sequence[Shown]) -> bool:
    """Say whether the paper's own edition was not drawn for want of something, rather than failed."""
    mine = [one for one in shown if one.edition.exhibit == edition.exhibit and not one.edition.told]
    return any(not one.drawn and not one.failed for one in mine)
