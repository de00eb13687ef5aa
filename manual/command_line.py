"""docs/reference/cli.md: every verb with its arguments, options, defaults and examples."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from manual.examples import CHAPTERS, EXAMPLES, PAGES, Chapter
from manual.markdown import DO_NOT_EDIT, NOT_RUN, cell
from theodolite.cli.app import app
from theodolite.cli.markdown import escape_markdown

HEAD = f"""\
# Command line

{DO_NOT_EDIT}

`theodolite VERB --help` prints the same. Results go to stdout and progress to stderr. Many verbs have `--json`,
for scripts. Exit codes: 0 success, 1 failure, or interrupted after saving what can be saved, 2 wrong input,
130 interrupted at once. `theodolite --debug VERB ...` shows a traceback when a command fails, and
`theodolite --version` prints the version.
"""
WORDS = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}


@dataclass(frozen=True)
class Parameter:
    """One argument or option of a verb."""

    name: str  # as it is written: --out, MODEL
    takes: str  # the placeholder of its value; empty for a switch
    help: str
    default: str
    argument: bool
    required: bool
    several: bool


def page() -> str:
    """Return the page."""
    verbs = {str(command.name): command.callback for command in app.registered_commands if command.callback}
    chapters = [*CHAPTERS, Chapter("More", tuple(sorted(set(verbs) - {v for c in CHAPTERS for v in c.verbs})))]
    kept = [(chapter.title, [verb for verb in chapter.verbs if verb in verbs]) for chapter in chapters]
    lines = [HEAD]
    lines += [f"- {title}: {', '.join(f'[`{v}`](#{v})' for v in found)}" for title, found in kept if found]
    for title, found in kept:
        lines += ["", f"## {title}"] if found else []
        for verb in found:
            lines += ["", *section(verb, verbs[verb])]
    return "\n".join(lines) + "\n"


def section(verb: str, function: Callable[..., Any]) -> list[str]:
    """Return the section of one verb."""
    every = list(parameters(function))
    lines = [f"### `{verb}`", "", escape_markdown(inspect.getdoc(function) or "")]
    if verb in PAGES:
        lines[-1] += f" [More](../{PAGES[verb]})."
    lines += ["", "```text", usage(verb, every), "```", ""]
    if verb in EXAMPLES:
        heading = "For example:" if len(EXAMPLES[verb]) == 1 else "Examples:"
        lines += [heading, "", NOT_RUN, "```sh", *EXAMPLES[verb], "```", ""]
    arguments, options = [p for p in every if p.argument], [p for p in every if not p.argument]
    for title, rows in (("argument", arguments), ("option", options)):
        if rows:
            lines += [f"| {title} | meaning | default |", "|---|---|---|", *map(_row, rows), ""]
    return lines[:-1] if not lines[-1] else lines


def usage(verb: str, every: list[Parameter]) -> str:
    """Return the usage line of a verb: its arguments and required options."""
    words = [_written(p) for p in every if p.required or p.argument]
    optional = ["[OPTIONS]"] if any(not p.required and not p.argument for p in every) else []
    return " ".join(["theodolite", verb, *words, *optional])


def parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """Read the arguments and options from the signature of a verb, arguments first."""
    hints = get_type_hints(function, include_extras=True)
    found = [
        _parameter(name, hints[name], parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
    ]
    yield from sorted(found, key=lambda p: (not p.argument, not p.required))


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    annotated, info = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
    kind, several = _kind(annotated)
    argument = type(info).__name__ == "ArgumentInfo"
    required = default is inspect.Parameter.empty
    metavar = info.metavar or name.upper().replace("_", "-") if argument else ""
    optional = metavar.startswith("[")  # all of it; of `A B [C ...]` only the end is
    written = (metavar.strip("[].") if optional else metavar) if argument else _spelled(name, info)
    takes = "" if argument or kind is bool else (info.metavar or WORDS.get(kind, "TEXT"))
    shown = (
        "" if required or default is None or default is False or default == "" else f"`{_shown(default, written)}`"
    )
    return Parameter(
        written, takes, info.help or "", "required" if required else shown, argument, required, several
    )


def _kind(annotation: Any) -> tuple[Any, bool]:
    """Return the type of one value, and whether there may be several."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(each for each in get_args(annotation) if each is not type(None))
    return (get_args(annotation)[0], True) if get_origin(annotation) is list else (annotation, False)


def _spelled(name: str, info: Any) -> str:
    """Return the flag of an option. In Annotated, typer stores the first flag as the default."""
    given = [each for each in (info.default, *(info.param_decls or ())) if str(each).startswith("-")]
    return "/".join(given) or f"--{name.replace('_', '-')}"


def _shown(default: Any, written: str) -> str:
    return written.partition("/")[0] if default is True else str(default)


def _written(p: Parameter) -> str:
    if not p.argument:
        return f"{p.name} {p.takes}"
    word = f"{p.name}..." if p.several and " " not in p.name else p.name
    return word if p.required else f"[{word}]"


def _row(p: Parameter) -> str:
    name = f"`{p.name}{' ' + p.takes if p.takes else ''}`"
    meaning, _, default = p.help.partition(" Default: ")  # some defaults are only described in the help text
    return f"| {name} | {cell(meaning)} | {p.default or cell(default.rstrip('.'))} |"
