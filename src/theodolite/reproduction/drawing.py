"""Drawing: every edition to its files; one that cannot be drawn is told and loses no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.exhibits.needs import WORDS
from theodolite.exhibits.registry import make
from theodolite.exhibits.saving import save, save_data
from theodolite.reproduction.plan import Edition, Task
from theodolite.studies.reading import read
from theodolite.studies.surveyed import Surveyed

ENDINGS = {"figure": ("png", "svg"), "table": ("png", "md")}


@dataclass(frozen=True)
class Shown:
    """What became of an edition: its files by ending, or why there are none."""

    edition: Edition
    caption: str = ""
    files: dict[str, str] = field(default_factory=dict)  # ending to a path from the index page
    inches: float = 0.0  # how wide the picture is
    note: str = ""  # surveys left out, or why it was not drawn
    failed: bool = False

    @property
    def drawn(self) -> bool:
        """Whether there are files."""
        return bool(self.files)


class Artist:
    """Draws from these surveys into OUT/figures; each table of a survey is read once."""

    def __init__(self, tasks: Sequence[Task], out: Path) -> None:
        self.tasks, self.out = tasks, out
        self._read = cache(read)

    def draw(self, edition: Edition) -> Shown:
        """Draw one edition; return what is to be told of it."""
        try:
            surveys, note = self._surveys(edition.exhibit)
            plate = make(edition.exhibit, surveys, edition.choice)
            return Shown(edition, plate.caption, self._save(edition, plate), plate.size[0], note)
        except InputError as error:
            return Shown(edition, note=str(error))
        except Exception as error:  # whatever it is, the other exhibits are still wanted
            line = (str(error).strip().splitlines() or [""])[0]
            return Shown(edition, note=f"Drawing it failed ({type(error).__name__}: {line}).", failed=True)

    def _surveys(self, found: Exhibit) -> tuple[list[Surveyed], str]:
        """Return the surveys that have what the exhibit needs and a sentence on the others; all if none has."""
        every = [self._read(task.folder, found.reads) for task in self._tasks(found)]
        lacks = {survey.model: _lack(found, survey) for survey in every}
        able = [survey for survey in every if not lacks[survey.model]]
        told = " ".join(f"{model} is left out: {lack}." for model, lack in lacks.items() if lack)
        return (able, told) if able else (every, "")

    def _tasks(self, found: Exhibit) -> list[Task]:
        """Return the folders that an exhibit is drawn from: a laboratory's, surveys by words, or the others."""
        verb = next((need.laboratory for need in found.needs if need.laboratory), "")
        if verb:
            return [task for task in self.tasks if task.laboratory == verb]
        surveys = [task for task in self.tasks if not task.laboratory]
        by_word = [task for task in surveys if task.units == "word"]
        return by_word if WORDS in found.needs else [task for task in surveys if task.units != "word"] or by_word

    def _save(self, edition: Edition, plate: Plate) -> dict[str, str]:
        endings = ENDINGS[edition.exhibit.kind]
        files = {ending: f"figures/{edition.stem}.{ending}" for ending in (*endings, "csv")}
        for ending in endings:
            save(edition.exhibit, plate, self.out / files[ending])
        save_data(plate.data, self.out / files["csv"])
        return files


def _lack(found: Exhibit, survey: Surveyed) -> str:
    return next((need.lack(survey) for need in found.needs if not need.met(survey)), "")
