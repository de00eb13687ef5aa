"""The examples of a page of the docs: its fenced blocks, with the test instructions in comments before them.

A comment on a line of its own before a block speaks to the tests and to nobody else, since no reader sees it:

    <!-- not run: needs a model hub -->            the block is only read, not run; the reason is required
    <!-- in tests: --limit 100 -> --limit 3 -->    what to put in the place of what, so that it takes a second
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL, PYTHON = ("sh", "bash", "shell", "console"), ("python", "py")
SHOWN = ("", "text", "json", "yaml", "csv", "html", "md", "toml", "bibtex", "math", "mermaid")  # not for running
GENERATED = ("python3", "pycon")  # signatures, and docstrings whose examples tests/test_doctests.py runs
_FENCE = re.compile(r"^( *)```+ *([\w+-]*).*$")
_COMMENT = re.compile(r"^ *<!--\s*(not run|in tests):\s*(.*?)\s*-->\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its location, its text, and the instructions in the comments before it."""

    page: str
    line: int
    language: str
    text: str
    excused: str | None = None  # why it is not run
    smaller: tuple[tuple[str, str], ...] = ()

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def generated(self) -> bool:
        return self.page.startswith("docs/reference/")

    def in_tests(self) -> Block:
        """Return the block as the tests run it; text to be replaced must exist."""
        text = self.text
        for old, new in self.smaller:
            assert old in text, f"{self.where}: `in tests` would replace {old!r}, which is not in the block"
            text = text.replace(old, new)
        return replace(self, text=text)


def all_pages() -> list[Path]:
    """Return README.md and every page of the docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    """Return the page's path as a person in the repository would write it."""
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return list(_blocks(name_of(page), page.read_text("utf-8").splitlines()))


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    excused, smaller, number = None, list[tuple[str, str]](), 0
    while number < len(lines):
        comment, fence = _COMMENT.match(lines[number]), _FENCE.match(lines[number])
        if comment:
            excused, smaller = _asked(f"{page}:{number + 1}", comment, excused, smaller)
        elif fence:
            end = next(k for k in range(number + 1, len(lines)) if lines[k].strip().startswith("```"))
            indent = len(fence[1])
            text = "\n".join(line[indent:] for line in lines[number + 1 : end]) + "\n"
            yield Block(page, number + 1, fence[2], text, excused, tuple(smaller))
            excused, smaller, number = None, [], end
        elif lines[number].strip():
            assert excused is None, f"{page}:{number}: `not run` stands before no block"
            assert not smaller, f"{page}:{number}: `in tests` stands before no block"
        number += 1


def _asked(
    where: str, comment: re.Match[str], excused: str | None, smaller: list[tuple[str, str]]
) -> tuple[str | None, list[tuple[str, str]]]:
    if comment[1] == "not run":
        assert comment[2], f"{where}: `not run` requires a reason"
        return comment[2], smaller
    old, arrow, new = comment[2].partition(" -> ")
    assert arrow, f"{where}: `in tests` requires OLD -> NEW"
    return excused, [*smaller, (old, new)]


def commands(block: Block) -> list[list[str]]:
    """Return the words of every command of a shell block; a backslash continues a line, # starts a comment."""
    joined = re.sub(r"\\\n\s*", " ", block.text)
    split = [shlex.split(line.removeprefix("$ "), comments=True) for line in joined.splitlines()]
    return [words for words in split if words]


def indented_commands(page: Path) -> list[str]:
    """Return the lines of four spaces or in backquotes that begin with `theodolite`: usage, not for running."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    carried = re.sub(r"\n {8,}(?=[\[-])", " ", text)  # options of a usage continue on the next line
    lines = re.findall(r"^ {4}(theodolite .*)$", carried, flags=re.MULTILINE)
    quoted = re.findall(r"`(theodolite [^`]*)`", text)
    return [*lines, *(re.sub(r"\s+", " ", each) for each in quoted)]
