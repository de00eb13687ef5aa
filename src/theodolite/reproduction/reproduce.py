"""A paper, repeated: the surveys that are missing, then every exhibit, then the index page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, TheodoliteError
from theodolite.exhibits.registry import all_exhibits
from theodolite.exhibits.saving import write_beside
from theodolite.reproduction import laboratories
from theodolite.reproduction.corpora import Corpora, split
from theodolite.reproduction.drawing import Artist, Shown
from theodolite.reproduction.laboratories import Materials
from theodolite.reproduction.page import render, report_of
from theodolite.reproduction.plan import CONTEXTUAL, UNITS, Edition, Task, check_paper, editions, tasks
from theodolite.reproduction.preparing import prepare
from theodolite.reproduction.surveying import surveyed
from theodolite.surveys.listener import Listener
from theodolite.surveys.storage import on_disk


@dataclass(frozen=True)
class Reproduction:
    """What a reproduction left: the page, the surveys it rests on, and what became of every exhibit."""

    paper: str
    corpus: str
    out: Path
    tasks: list[Task]
    shown: list[Shown]

    @property
    def index(self) -> Path:
        """The page."""
        return self.out / "index.html"

    @property
    def failed(self) -> list[Shown]:
        """Exhibits that should have been drawn and were not."""
        return [one for one in self.shown if one.failed]

    def told(self) -> dict[str, Any]:
        """Return all of it for scripts; paths are from the page's folder."""
        return {
            "paper": self.paper,
            "corpus": self.corpus,
            "surveys": [
                {"model": task.model, "units": task.units, "report": report_of(task, self.out)}
                for task in self.tasks
                if not task.laboratory
            ],
            "laboratories": [
                {"laboratory": task.laboratory, "model": task.model, "facts": report_of(task, self.out)}
                for task in self.tasks
                if task.laboratory
            ],
            "exhibits": [_told(one) for one in self.shown],
        }


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
    _write(made.index, render(paper, str(corpora), plan, shown, folder))
    _write(folder / "index.json", json.dumps(made.told(), indent=2) + "\n")
    return made


def _refused(edition: Edition, shown: Sequence[Shown]) -> bool:
    """Say whether the paper's own edition was not drawn for want of something, rather than failed."""
    mine = [one for one in shown if one.edition.exhibit == edition.exhibit and not one.edition.told]
    return any(not one.drawn and not one.failed for one in mine)


def _told(one: Shown) -> dict[str, Any]:
    found = one.edition.exhibit
    state = "drawn" if one.drawn else "failed" if one.failed else "not drawn"
    return {
        "name": found.name,
        "edition": one.edition.told,
        "title": found.title,
        "kind": found.kind,
        "state": state,
        "caption": one.caption,
        "note": one.note,
        "files": one.files,
    }


def _write(path: Path, text: str) -> None:
    write_beside(path, lambda beside: _bytes(beside, text))


def _bytes(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "replace"))
