"""docs/reference/python.md: the public names with their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from manual.markdown import DO_NOT_EDIT, OF_DOCSTRING, SIGNATURE
from theodolite.cli.markdown import slug

HEAD = f"""\
# Python

{DO_NOT_EDIT}

`import theodolite` is fast: heavy modules are imported when a name is first used. The names listed here are
stable; everything else may change between versions. Errors caused by wrong input or damaged files are subclasses
of `theodolite.TheodoliteError`. `theodolite.measures` has [a page of its own](arrays.md).
"""
CHAPTERS = (
    (
        "Surveys",
        "Run, open and merge surveys. [The survey folder](../survey-folder.md) describes the files and columns.",
        "theodolite",
        tuple(
            "survey measure watch load open merge export list_models list_corpora Survey TheodoliteError".split()
        ),
    ),
    (
        "Figures and reports",
        "Surveys, laboratories and series are given as objects or folders. Figures are matplotlib figures.",
        "theodolite",
        ("exhibit", "compare", "reproduce", "list_exhibits"),
    ),
    (
        "Studies and laboratories",
        "Each returns its tables as data frames (`.tables`). `out` or `.save` writes them to a folder.",
        "theodolite",
        tuple(
            "what_if sets batches dynamics weights probe trace groups contrast clouds bridge merge_bridges block "
            "cautions".split()
        ),
    ),
    (
        "Geometry as a test",
        "See [check](../check.md).",
        "theodolite.testing",
        ("assert_geometry",),
    ),
    (
        "While a model trains",
        "`theodolite.integrations`; see [training](../training.md).",
        "theodolite.integrations",
        ("GeometryCallback", "GeometryProbe", "Thresholds", "CollapseWarning"),
    ),
    ("The report", "`theodolite.report(...)` calls this function.", "theodolite.api.report", ("report",)),
    (
        "The report from tables",
        "`theodolite.report` writes one HTML page from finished tables.",
        "theodolite.report",
        (),
    ),
)
WHOLE = ("theodolite", "theodolite.integrations", "theodolite.report")
"""Modules of which every name in `__all__` is listed."""
WIDTH = 100


def page() -> str:
    """Return the page."""
    lines = [HEAD]
    chapters = [(title, text, module, _names(module, names)) for title, text, module, names in CHAPTERS]
    for title, _, module, names in chapters:
        links = ", ".join(f"[`{name}`](#{slug(heading(module, name))})" for name in names)
        lines.append(f"- {title}: {links}")
    for title, text, module, names in chapters:
        lines += ["", f"## {title}", "", text]
        for name in names:
            lines += ["", f"### {heading(module, name)}", "", *_entry(name, _value(module, name))]
    return "\n".join(lines) + "\n"


def heading(module: str, name: str) -> str:
    """Return the heading of a name, with the word "class" for a class: `survey` and `Survey` need two anchors."""
    kind = "class " if inspect.isclass(_value(module, name)) else ""
    return f"{kind}`{module}.{name}`"


def _value(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _names(module: str, names: tuple[str, ...]) -> list[str]:
    """Return the names of a chapter; the last chapter of a module also lists those of no other chapter."""
    if module not in WHOLE:
        return list(names)
    known = {name for _, _, home, listed in CHAPTERS if home == module for name in listed}
    last = [listed for _, _, home, listed in CHAPTERS if home == module][-1]
    others = sorted(set(import_module(module).__all__) - known) if names == last else []
    others = [name for name in others if not inspect.ismodule(_value(module, name))]
    return [*names, *others]


def _entry(name: str, value: Any) -> list[str]:
    lines = [SIGNATURE, "```python3", signature(name, value), "```", "", *docstring(value)]
    if inspect.isclass(value):
        members = [f"- `{name}`: {text}" for name, text in _members(value)]
        lines += ["", *members] if members else []
    return lines


def signature(name: str, value: Any) -> str:
    """Return a name with its parameters, one per line if they are long."""
    if inspect.isclass(value) and issubclass(value, BaseException):
        return f"class {name}({value.__mro__[1].__name__})"
    found = inspect.signature(value)
    head = f"class {name}" if inspect.isclass(value) else f"def {name}"
    result = found.return_annotation
    arrow = f" -> {_type(result)}" if result is not inspect.Signature.empty and not inspect.isclass(value) else ""
    parts = list(_parameters(found))
    short = f"{head}({', '.join(parts)}){arrow}"
    return (
        short if len(short) <= WIDTH else "\n".join([f"{head}(", *(f"    {part}," for part in parts), f"){arrow}"])
    )


def _parameters(found: inspect.Signature) -> Iterator[str]:
    starred = False
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred |= parameter.kind is parameter.VAR_POSITIONAL
        sign = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        kind = "" if parameter.annotation is parameter.empty else f": {_type(parameter.annotation)}"
        yield f"{sign}{parameter.name}{kind}{_default(parameter.default, bool(kind))}"


def _default(value: Any, typed: bool) -> str:
    if value is inspect.Parameter.empty:
        return ""
    plain = isinstance(value, str | int | float | bool | tuple | None)
    shown = repr(value) if plain else "..."  # other objects have an address in their repr, which changes
    return f" = {shown}" if typed else f"={shown}"


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", text)


def docstring(value: Any) -> list[str]:
    """Return a docstring as Markdown, with its examples as code."""
    blocks = (inspect.getdoc(value) or "").split("\n\n")
    lines: list[str] = []
    for block in filter(None, blocks):
        code = block.startswith(">>>") or all(line.startswith("    ") for line in block.splitlines())
        fence = "```pycon" if block.startswith(">>>") else "```python"
        lines += ["", OF_DOCSTRING, fence, inspect.cleandoc(block), "```"] if code else ["", block]
    return lines[1:]


def _members(value: type) -> Iterator[tuple[str, str]]:
    """Return the public methods and properties of a class with the first line of each docstring."""
    for name, member in vars(value).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield name, _first(member)
        elif inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            function = member if inspect.isfunction(member) else member.__func__
            parts = [part for part in _parameters(inspect.signature(function)) if part not in ("self", "cls")]
            yield f"{name}({', '.join(parts)})", _first(function)


def _first(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
