"""Run the examples of a page in its own folder: Python in one namespace, commands with the real command."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import runpy
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.docs.pages import GENERATED, PYTHON, ROOT, SHELL, SHOWN, Block, commands

_NUMBER = re.compile(r"[\[({]*[-−+±]?(\d[\d.,×/s%e+-]*|[0-9a-f]{8,}|–|nan)[\])},:;]*")


class NotRunError(AssertionError):
    """An example that fails, or that is neither run nor excused."""


def check(block: Block) -> None:
    """Read a block without running it: Python must parse, and every option of a command must exist."""
    if block.language in PYTHON:
        ast.parse(block.text, block.where)
    for words in commands(block) if block.language in SHELL else []:
        if words[0] == "theodolite":
            check_command(_redirected(words)[0], block.where)


def check_command(words: list[str], where: str) -> None:
    """Parse a command as the command line would, without running it."""
    import typer

    if words[1:2] and words[1].startswith("--"):
        return  # `theodolite --help`
    verb, context = _verb(words, where)
    try:
        verb.make_context(verb.name, list(words[2:]), parent=context)
    except typer.Exit:  # --help
        return
    except Exception as error:  # of the library that typer bundles, which has no public name
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        raise NotRunError(f"{where}: {' '.join(words)}: {message}") from None


def check_usage(line: str, where: str) -> None:
    """Of a line of usage, with brackets and alternatives, check the verb and the names of the options."""
    words = line.split()
    if len(words) < 2 or not re.fullmatch(r"[a-z][a-z-]+", words[1]):
        return  # `theodolite --help`, `theodolite VERB`
    verb, _ = _verb(words, where)
    known = {name for parameter in verb.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", line):
        if option not in known | {"--help", "--debug"}:
            raise NotRunError(f"{where}: `{line}`: theodolite {words[1]} has no option {option}")


def _verb(words: list[str], where: str) -> tuple[Any, Any]:
    group = _group()
    verb = group.commands.get(words[1]) if len(words) > 1 else None
    if verb is None:
        raise NotRunError(f"{where}: `{' '.join(words)}`: theodolite has no such verb")
    return verb, group.context_class(group, info_name="theodolite")


@cache
def _group() -> Any:
    import typer

    from theodolite.cli.app import app

    return typer.main.get_command(app)


class Page:
    """One namespace and one folder, in which the blocks of a page run in order."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "example"}
        self.printed = ""  # by the block before

    def take(self, block: Block) -> None:
        """Run a block, or only read it where it is excused; compare what a block shows with what was printed."""
        check(block)
        if block.excused is not None:
            self.printed = ""
        elif block.language in PYTHON:
            self.printed = self._python(block.in_tests())
        elif block.language in SHELL:
            self.printed = "".join(self._command(words, block.where) for words in commands(block.in_tests()))
        elif block.language not in SHOWN and not (block.generated and block.language in GENERATED):
            raise NotRunError(f"{block.where}: a block of {block.language!r} is neither run nor excused")
        elif block.language == "text" and self.printed:
            self._compare(block)

    def _python(self, block: Block) -> str:
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(block.text, block.where, "exec"), self.names)
        except SystemExit as left:
            if left.code:
                raise NotRunError(f"{block.where}: it ended with {left.code}") from None
        except Exception:
            raise NotRunError(f"{block.where}: {traceback.format_exc(limit=-2)}") from None
        return printed.getvalue()

    def _command(self, words: list[str], where: str) -> str:
        if words == [".", ".venv/bin/activate"]:
            return ""  # the tests run in it
        if words[0] == "theodolite":
            from theodolite.cli import main

            words, target = _redirected(words)
            out, err = _ran(words, where, main)
            if target is None:
                return out + err
            Path(target).write_text(out, "utf-8")
            return err
        if words[0] == "python" and words[1].startswith("examples/"):
            script = str(ROOT / words[1])
            return "".join(_ran([script, *words[2:]], where, lambda: runpy.run_path(script, run_name="__main__")))
        raise NotRunError(f"{where}: `{' '.join(words)}` is neither run nor excused (<!-- not run: why -->)")

    def _compare(self, block: Block) -> None:
        """Find every shown line in the printed output, ignoring numbers.

        Numbers are of the example as it stands, and the tests run it smaller. A line may end in an ellipsis.
        """
        printed = _words(self.printed)
        for line in block.text.splitlines():
            if _words(line.removesuffix("...")) not in printed:
                raise NotRunError(f"{block.where}: shows {line!r}, which was not printed but:\n{self.printed}")


def _ran(words: list[str], where: str, main: Any) -> tuple[str, str]:
    """Call a main function as its command does; return what it printed to stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with patch.object(sys, "argv", words), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    if code != 0:
        raise NotRunError(f"{where}: `{' '.join(words)}` ended with {code}: {err.getvalue()[-2000:]}")
    return out.getvalue(), err.getvalue()


def _redirected(words: list[str]) -> tuple[list[str], str | None]:
    """Return the command and the file that its output goes to, if any."""
    return (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)


def _words(text: str) -> str:
    """Return the words of a text without numbers, separated by single spaces."""
    return " ".join(word for word in text.split() if not _NUMBER.fullmatch(word))
