"""theodolite exhibit PAPER: all of a paper that finished surveys allow, and why the rest was not drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from theodolite.cli.console import Printer, result
from theodolite.errors import InputError, TheodoliteError
from theodolite.exhibits.heeding import unheeded
from theodolite.exhibits.saving import PICTURES
from theodolite.reproduction.drawing import ENDINGS, Shown, by_words_too
from theodolite.reproduction.finished import finished
from theodolite.reproduction.result import Reproduction
from theodolite.studies.choice import Choice


def draw_paper(
    paper: str, surveys: Sequence[Path], out: Path, choice: Choice, formats: Sequence[str], *, captioned: bool
) -> None:
    """Draw into a folder, and list what is in it and what is not."""
    made = finished(
        paper, surveys, out, choice, endings=_endings(formats), captioned=captioned, listener=Printer()
    )
    drawn = [one for one in made.shown if one.drawn]
    for one in drawn:
        note = f" ({reason(one)})" if one.note else ""
        result(f"{one.edition.exhibit.id}: {out / next(iter(one.files.values()))}{note}")
    for line in (*_without(drawn, choice), *_by_words(made), *_not_drawn(made.shown)):
        result(line)
    told = f"{len(drawn)} of {len(made.shown)} exhibits of {paper} drawn"
    if drawn:
        result(f"{told}; index: {made.index}")
    if made.failed:
        raise TheodoliteError(f"{told}, {len(made.failed)} failed ({_ids(made.failed)}).")
    if not drawn:
        raise InputError(f"None of the {len(made.shown)} exhibits of {paper} can be drawn from what was given.")


def reason(one: Shown) -> str:
    """Return why something was left out, without the exhibit's name and without the command that would help."""
    text = one.note.removeprefix(f"{one.edition.exhibit.name} ").removeprefix("There is nothing to draw. ")
    return re.sub(r"[;.] `theodolite [^`]*`[^.;]*", "", text).rstrip(".")


def _endings(formats: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the formats to write by kind of exhibit; a table is also written as Markdown."""
    wrong = [each for each in formats if each not in PICTURES]
    if wrong:
        raise InputError(f"--format {wrong[0]!r} is not one of {', '.join(PICTURES)}.")
    pictures = tuple(dict.fromkeys(formats))
    return {"figure": pictures, "table": (*pictures, "md")} if pictures else dict(ENDINGS)


def _without(drawn: Sequence[Shown], choice: Choice) -> Iterable[str]:
    """Tell of every option which exhibits were drawn without it."""
    by_option: dict[str, list[Shown]] = {}
    for one in drawn:
        for option in unheeded(one.edition.exhibit, choice):
            by_option.setdefault("layer" if option == "layers" else option, []).append(one)
    return [f"drawn without --{each}, which they do not heed: {_ids(by_option[each])}" for each in by_option]


def _by_words(made: Reproduction) -> list[str]:
    twins = ", ".join(str(task.folder) for task in by_words_too(made.tasks))
    return [f"for exhibits of words alone, since the model is there by tokens too: {twins}"] if twins else []


def _not_drawn(shown: Sequence[Shown]) -> Iterable[str]:
    """Tell of every reason what was not drawn for it."""
    by_reason: dict[str, list[Shown]] = {}
    for one in shown:
        if not one.drawn:
            by_reason.setdefault(reason(one), []).append(one)
    return [f"not drawn: {_ids(them)}: {why}" for why, them in by_reason.items()]


def _ids(shown: Iterable[Shown]) -> str:
    return ", ".join(one.edition.exhibit.id for one in shown)
