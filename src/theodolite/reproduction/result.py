"""What a reproduction left: the index page, and the same for scripts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.exhibits.saving import write_beside
from theodolite.reproduction.drawing import Shown
from theodolite.reproduction.page import render, report_of
from theodolite.reproduction.plan import Task

INDEX = "index.json"


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

    def write(self) -> None:
        """Write the page, and index.json beside it."""
        _write(self.index, render(self.paper, self.corpus, self.tasks, self.shown, self.out))
        _write(self.out / INDEX, json.dumps(self.told(), indent=2) + "\n")

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
