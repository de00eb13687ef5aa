"""Drawing: every edition to its files; one that cannot be drawn is told and loses no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from theodolite.errors import InputError, first_line
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.exhibits.needs import WORDS
from theodolite.exhibits.registry import make
from theodolite.exhibits.saving import save, save_data
from theodolite.reproduction.plan import Edition, Task
from theodolite.studies.reading import read
from theodolite.studies.surveyed import Surveyed, labels

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
    """Draws from these surveys into OUT/figures, or another place in OUT; each table of a survey is read once."""

    def __init__(
        self,
        tasks: Sequence[Task],
        out: Path,
        *,
        place: str = "figures/",
        endings: Mapping[str, Sequence[str]] | None = None,
        captioned: bool = True,
    ) -> None:
        self.tasks, self.out, self.place, self.captioned = tasks, out, place, captioned
        self.endings = endings or ENDINGS
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
            line = first_line(error, "")
            return Shown(edition, note=f"Drawing it failed ({type(error).__name__}: {line}).", failed=True)

    def _surveys(self, found: Exhibit) -> tuple[list[Surveyed], str]:
        """Return the surveys that have what the exhibit needs and a sentence on the others; all if none has."""
        every = [self._read(task.folder, found.reads) for task in self._tasks(found)]
        lacks = [_lack(found, survey) for survey in every]
        able = [survey for survey, lack in zip(every, lacks, strict=True) if not lack]
        named = zip(labels(every), lacks, strict=True)
        told = " ".join(f"{name} is left out: {lack}." for name, lack in named if lack)
        return (able, told) if able else (every, "")

    def _tasks(self, found: Exhibit) -> list[Task]:
        """Return the folders that an exhibit is drawn from: a laboratory's, surveys by words, or the others."""
        verb = next((need.laboratory for need in found.needs if need.laboratory), "")
        if verb:
            return [task for task in self.tasks if task.laboratory == verb]
        surveys = [task for task in self.tasks if not task.laboratory]
        if WORDS in found.needs:
            return [task for task in surveys if task.units == "word"] or surveys
        twins = by_words_too(self.tasks)
        return [task for task in surveys if task not in twins]

    def _save(self, edition: Edition, plate: Plate) -> dict[str, str]:
        endings = self.endings[edition.exhibit.kind]
        files = {ending: f"{self.place}{edition.stem}.{ending}" for ending in (*endings, "csv")}
        put = plate if self.captioned else replace(plate, caption="")
        for ending in endings:
            save(edition.exhibit, put, self.out / files[ending])
        save_data(plate.data, self.out / files["csv"])
        return files


def by_words_too(tasks: Sequence[Task]) -> list[Task]:
    """Return the surveys by words of models that are there by tokens too: those are for exhibits of words."""
    by_token = {task.model for task in tasks if not task.laboratory and task.units != "word"}
    return [task for task in tasks if task.units == "word" and task.model in by_token]


def _lack(found: Exhibit, survey: Surveyed) -> str:
    return next((need.lack(survey) for need in found.needs if not need.met(survey)), "")
