"""theodolite exhibit PAPER: draw all exhibits that finished surveys allow, and print why others were not drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from theodolite.cli.console import Printer, print_result
from theodolite.errors import InputError, TheodoliteError
from theodolite.exhibits.exhibit import find_unused_options
from theodolite.exhibits.saving import PICTURES
from theodolite.reproduction.draw_paper import draw_paper
from theodolite.reproduction.drawing import ENDINGS, DrawResult, extra_word_surveys
from theodolite.reproduction.index import Reproduction
from theodolite.studies.choice import Choice


def run_paper(
    paper: str, surveys: Sequence[Path], out: Path, choice: Choice, formats: Sequence[str], *, captioned: bool
) -> None:
    """Draw a paper's exhibits into a folder; print what was drawn and what was not."""
    reproduction = draw_paper(
        paper, surveys, out, choice, endings=_endings(formats), captioned=captioned, listener=Printer()
    )
    total, failed = len(reproduction.results), reproduction.failed
    drawn = [result for result in reproduction.results if result.drawn]
    for result in drawn:
        note = f" ({shorten_note(result)})" if result.note else ""
        print_result(f"{result.edition.exhibit.id}: {out / next(iter(result.files.values()))}{note}")
    for line in (
        *_unused_options(drawn, choice),
        *_word_surveys(reproduction),
        *_not_drawn(reproduction.results),
    ):
        print_result(line)
    summary = f"{len(drawn)} of {total} exhibits of {paper} drawn"
    if drawn:
        print_result(f"{summary}; index: {reproduction.index}")
    if failed:
        raise TheodoliteError(f"{summary}, {len(failed)} failed ({_ids(failed)}).")
    if not drawn:
        raise InputError(f"None of the {total} exhibits of {paper} can be drawn from these folders.")


def shorten_note(result: DrawResult) -> str:
    """Return the note on an exhibit without the exhibit's name and without the command that would help."""
    text = result.note.removeprefix(f"{result.edition.exhibit.name} ").removeprefix("There is nothing to draw. ")
    return re.sub(r"[;.] (?:[\w,]+ )*`theodolite [^`]*`[^.;]*", "", text).rstrip(".")


def _endings(formats: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the formats to write for each kind of exhibit; a table is also written as Markdown."""
    wrong = [name for name in formats if name not in PICTURES]
    if wrong:
        raise InputError(f"--format {wrong[0]!r} is not one of {', '.join(PICTURES)}.")
    pictures = tuple(dict.fromkeys(formats))
    return {"figure": pictures, "table": (*pictures, "md")} if pictures else dict(ENDINGS)


def _unused_options(drawn: Sequence[DrawResult], choice: Choice) -> list[str]:
    """Return a line for every option with the exhibits that ignore it."""
    by_option: dict[str, list[DrawResult]] = {}
    for result in drawn:
        for option in find_unused_options(result.edition.exhibit, choice):
            by_option.setdefault("layer" if option == "layers" else option, []).append(result)
    return [
        f"drawn without --{option}, which these exhibits ignore: {_ids(by_option[option])}" for option in by_option
    ]


def _word_surveys(reproduction: Reproduction) -> list[str]:
    folders = ", ".join(str(task.folder) for task in extra_word_surveys(reproduction.tasks))
    return [f"used only for exhibits of words, because the model was also surveyed by tokens: {folders}"] * bool(
        folders
    )


def _not_drawn(results: Sequence[DrawResult]) -> list[str]:
    """Return a line for every reason with the exhibits that were not drawn because of it."""
    by_reason: dict[str, list[DrawResult]] = {}
    for result in results:
        if not result.drawn:
            by_reason.setdefault(shorten_note(result), []).append(result)
    return [f"not drawn: {_ids(of_reason)}: {reason}" for reason, of_reason in by_reason.items()]


def _ids(results: Iterable[DrawResult]) -> str:
    return ", ".join(result.edition.exhibit.id for result in results)
