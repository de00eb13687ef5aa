"""Rules: what may differ from the baseline and by how much, as a TOML file.

    level = 0.05

    [[rule]]
    column = "mean_cosine"
    test = true

    [[rule]]
    column = "effective_rank"
    layers = "4-6"
    relative = 0.1

A rule is about a column of a table at some layers of one population. It is a test, or limits: the difference from
the baseline may be `absolute` + `relative` |baseline|, and the number itself between `min` and `max`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, first_line, nearest
from theodolite.text import format_number

SCHEMA = 1
LEVEL = 0.05
IGNORE = 0.001
LIMITS = ("absolute", "relative", "min", "max")
KINDS = (*LIMITS, "test", "equal")
KEYS = ("name", "table", "column", "layers", "population", "where", *KINDS, "ignore")


@dataclass(frozen=True)
class Rule:
    """One rule.

    layers      numbers, a text such as "0-3,-1", or None for all of them
    population  None: the default population of the baseline
    where       rows of the table by the values of other columns, such as {"unit": "the"}
    test        whether the difference from the baseline is tested; `ignore` is the share of the baseline's number
                by which it may differ anyway
    equal       whether the value, which may be text, must be that of the baseline
    """

    column: str
    table: str = "layers"
    layers: int | str | tuple[int, ...] | None = None
    population: str | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    test: bool = False
    ignore: float = 0.0
    absolute: float | None = None
    relative: float | None = None
    min: float | None = None
    max: float | None = None
    equal: bool = False
    name: str = ""

    @property
    def title(self) -> str:
        """The name that was given, or what the rule is about."""
        if self.name:
            return self.name
        table = "" if self.table == "layers" else f"{self.table}."
        rows = "".join(f" of {value}" for value in self.where.values())
        return f"{table}{self.column}{rows}"

    @property
    def limit(self) -> str:
        """What the rule allows, in words."""
        parts = []
        if self.test:
            parts.append(f"no significant change above {format_number(100 * self.ignore)}%")
        elif self.absolute is not None or self.relative is not None:
            ways = [format_number(self.absolute)] if self.absolute is not None else []
            ways += [f"{format_number(100 * self.relative)}%"] if self.relative is not None else []
            parts.append(f"within {' + '.join(ways)} of the baseline")
        parts += [f"at least {format_number(self.min)}"] if self.min is not None else []
        parts += [f"at most {format_number(self.max)}"] if self.max is not None else []
        parts += ["equal to the baseline"] if self.equal else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Rules:
    """Rules with the level of all tests together, and what they were written from."""

    rules: tuple[Rule, ...]
    level: float = LEVEL
    baseline: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    """The file, as messages name it."""


def read_rules(path: str | Path) -> Rules:
    """Read a file of rules; the message of an error names the file and the rule."""
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"--rules {path}: there is no such file. Write one with --init.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--rules {path} cannot be read: {first_line(error)}.") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"--rules {path} is not valid TOML: {first_line(error)}.") from None
    return parse_rules(content, f"--rules {path}")


def parse_rules(content: Mapping[str, Any], source: str = "--rules") -> Rules:
    """Return the rules of a dict as a TOML file has them.

    >>> parse_rules({"rule": [{"column": "mean_cosine", "max": 0.9}]}).rules[0].limit
    'at most 0.9'
    """
    if content.get("schema", SCHEMA) != SCHEMA:
        raise InputError(f"{source} has schema {content['schema']!r}; this version reads schema {SCHEMA}.")
    unknown = [key for key in content if key not in ("schema", "level", "baseline", "rule")]
    if unknown:
        hint = nearest(unknown[0], ["schema", "level", "baseline", "rule"])
        raise InputError(f"{source}: {unknown[0]!r} is not a key of a file of rules.{hint}")
    level = content.get("level", LEVEL)
    if not _is_number(level) or not 0 < level < 1:
        raise InputError(f"{source}: level must be between 0 and 1 (got {level!r}).")
    given = content.get("rule", [])
    if not isinstance(given, list) or not given:
        raise InputError(f"{source} has no rules. Each begins with [[rule]] and names a column.")
    rules = tuple(_parse(one, f"{source}, rule {number}") for number, one in enumerate(given, 1))
    return Rules(rules, float(level), content.get("baseline", {}), source)


def _parse(given: Any, where: str) -> Rule:
    if not isinstance(given, Mapping):
        raise InputError(f"{where} is not a table of keys. Each rule begins with [[rule]].")
    for key in given:
        if key not in KEYS:
            raise InputError(f"{where}: {key!r} is not a key of a rule.{nearest(key, list(KEYS))}")
    if not isinstance(given.get("column"), str):
        raise InputError(f'{where} names no column; add one, such as column = "mean_cosine".')
    for key in ("name", "table", "population"):
        if key in given and not isinstance(given[key], str):
            raise InputError(f"{where}: {key} must be text (got {given[key]!r}).")
    for key in (*LIMITS, "ignore"):
        if key in given and not _is_number(given[key]):
            raise InputError(f"{where}: {key} must be a number (got {given[key]!r}).")
        if key in ("absolute", "relative", "ignore") and given.get(key, 0) < 0:
            raise InputError(f"{where}: {key} must be at least 0 (got {given[key]!r}).")
    for key in ("test", "equal"):
        if key in given and not isinstance(given[key], bool):
            raise InputError(f"{where}: {key} must be true or false (got {given[key]!r}).")
    _check_kinds(given, where)
    if not isinstance(given.get("where", {}), Mapping):
        raise InputError(f'{where}: where must name columns and values, such as {{ unit = "the" }}.')
    layers = given.get("layers")
    if isinstance(layers, list) and all(isinstance(one, int) for one in layers):
        layers = tuple(layers)
    elif layers is not None and (isinstance(layers, bool) or not isinstance(layers, int | str)):
        raise InputError(f'{where}: layers must be a number, a list of numbers or a text such as "0-3,-1".')
    return Rule(**{**given, "layers": layers})


def _check_kinds(given: Mapping[str, Any], where: str) -> None:
    """Reject a rule that asks for nothing, or for things that exclude each other."""
    chosen = [key for key in KINDS if key in given and given[key] is not False]
    if not chosen:
        raise InputError(f"{where} allows everything; add one of {', '.join(KINDS)}.")
    if "test" in chosen and {"absolute", "relative", "equal"} & set(chosen):
        raise InputError(f"{where}: test excludes absolute, relative and equal; ignore is its tolerance.")
    if "equal" in chosen and len(chosen) > 1:
        raise InputError(f"{where}: equal excludes {', '.join(key for key in chosen if key != 'equal')}.")
    if "ignore" in given and "test" not in chosen:
        raise InputError(f"{where}: ignore is for tests; use relative.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def format_rules(rules: Rules, comments: Sequence[str] = ()) -> str:
    """Return the rules as TOML, which `parse_rules` reads as the same rules; comments come first.

    >>> print(format_rules(Rules((Rule("q", test=True, ignore=0.001),), 0.04)))
    schema = 1
    level = 0.04
    <BLANKLINE>
    [[rule]]
    column = "q"
    test = true
    ignore = 0.001
    <BLANKLINE>
    """
    lines = [f"# {comment}" for comment in comments]
    lines += [f"schema = {SCHEMA}", f"level = {_toml(rules.level)}", ""]
    if rules.baseline:
        lines += ["[baseline]", *(f"{key} = {_toml(value)}" for key, value in rules.baseline.items()), ""]
    for rule in rules.rules:
        given = {key: getattr(rule, key) for key in KEYS}
        usual = Rule(rule.column)
        lines.append("[[rule]]")
        lines += [
            f"{key} = {_toml(value)}"
            for key, value in given.items()
            if key == "column" or value != getattr(usual, key)
        ]
        lines.append("")
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_escape(character) for character in value) + '"'
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(str(key))} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    return f"\\U{ord(character):08x}" if not 0xD800 <= ord(character) < 0xE000 else "?"
