"""Draw exhibits to files. One that cannot be drawn is recorded with the reason and does not stop the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pandas as pd

from theodolite.errors import InputError, first_line
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.exhibits.needs import WORDS
from theodolite.exhibits.registry import make
from theodolite.exhibits.saving import save, save_data
from theodolite.reproduction.plan import Edition, Task
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData, make_labels

ENDINGS = {"figure": ("png", "svg"), "table": ("png", "md")}
ROUNDING = 1e-7
"""Relative; its square is the absolute bound. Populations may add the same positions in another order."""


@dataclass(frozen=True)
class DrawResult:
    """The outcome of drawing an edition: its files by ending, or the reason why there are none."""

    edition: Edition
    caption: str = ""
    files: dict[str, str] = field(default_factory=dict)  # ending to a path relative to the index page
    inches: float = 0.0  # width of the picture
    note: str = ""  # surveys that were skipped, or why it was not drawn
    failed: bool = False
    same_as: str = ""  # the edition with the same numbers that was drawn in its place

    @property
    def drawn(self) -> bool:
        """Whether there are files."""
        return bool(self.files)


class ExhibitWriter:
    """Draws exhibits of these surveys into OUT/figures, or another folder in OUT. Each table is read only once."""

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
        self._read = cache(read_survey_data)
        self._drawn: list[tuple[Edition, pd.DataFrame]] = []

    def draw(self, edition: Edition) -> DrawResult:
        """Draw one edition and write its files."""
        try:
            surveys, note = self._surveys(edition.exhibit)
            plate = make(edition.exhibit, surveys, edition.choice)
            same_as = self._find_equal(edition, plate)
            if same_as:
                return DrawResult(edition, note=f"Its numbers are those of {same_as}.", same_as=same_as)
            return DrawResult(edition, plate.caption, self._save(edition, plate), plate.size[0], note)
        except InputError as error:
            return DrawResult(edition, note=str(error))
        except Exception as error:  # one failed exhibit must not stop the others
            line = first_line(error, "")
            return DrawResult(edition, note=f"Drawing it failed ({type(error).__name__}: {line}).", failed=True)

    def _find_equal(self, edition: Edition, plate: Plate) -> str:
        """Return an edition that was drawn and differs in population or variant, but not in its numbers."""
        shown = plate.data if plate.shown is None else plate.shown
        numbers = shown.drop(columns=["population", "variant"], errors="ignore")
        for other, theirs in self._drawn:
            choice = replace(other.choice, population=edition.choice.population, variant=edition.choice.variant)
            if other.exhibit == edition.exhibit and choice == edition.choice and _equal(theirs, numbers):
                return other.stem
        self._drawn.append((edition, numbers))
        return ""

    def _surveys(self, found: Exhibit) -> tuple[list[SurveyData], str]:
        """Return the surveys that have the data the exhibit needs, and a note on the others; all if none has."""
        every = [self._read(task.folder, found.reads) for task in self._tasks(found)]
        lacks = [_lack(found, survey) for survey in every]
        able = [survey for survey, lack in zip(every, lacks, strict=True) if not lack]
        named = zip(make_labels(every), lacks, strict=True)
        note = " ".join(f"{name} is skipped: {lack}." for name, lack in named if lack)
        return (able, note) if able else (every, "")

    def _tasks(self, found: Exhibit) -> list[Task]:
        """Return the tasks that an exhibit is drawn from: a laboratory, surveys by word, or the other surveys."""
        verb = next((need.laboratory for need in found.needs if need.laboratory), "")
        if verb:
            return [task for task in self.tasks if task.laboratory == verb]
        surveys = [task for task in self.tasks if not task.laboratory]
        if WORDS in found.needs:
            return [task for task in surveys if task.units == "word"] or surveys
        extra = extra_word_surveys(self.tasks)
        return [task for task in surveys if task not in extra]

    def _save(self, edition: Edition, plate: Plate) -> dict[str, str]:
        endings = self.endings[edition.exhibit.kind]
        files = {ending: f"{self.place}{edition.stem}.{ending}" for ending in (*endings, "csv")}
        shown = plate if self.captioned else replace(plate, caption="")
        for ending in endings:
            save(edition.exhibit, shown, self.out / files[ending])
        save_data(plate.data, self.out / files["csv"])
        return files


def _equal(these: pd.DataFrame, those: pd.DataFrame) -> bool:
    """Return whether two tables have the same values, up to the rounding of sums in another order."""
    try:
        pd.testing.assert_frame_equal(these, those, rtol=ROUNDING, atol=ROUNDING**2)
    except AssertionError:
        return False
    return True


def extra_word_surveys(tasks: Sequence[Task]) -> list[Task]:
    """Return the surveys by word of models that were also surveyed by tokens; only exhibits of words use them."""
    by_token = {task.model for task in tasks if not task.laboratory and task.units != "word"}
    return [task for task in tasks if task.units == "word" and task.model in by_token]


def _lack(found: Exhibit, survey: SurveyData) -> str:
    return next((need.explain(survey) for need in found.needs if not need.is_met(survey)), "")
