"""Classes of sentence pairs: what a file of them must look like, and what is said of one that does not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.errors import InputError
from theodolite.sources import units
from theodolite.sources.text.windows import encodable

Pairs = dict[str, list[tuple[str, str]]]
SHAPE = '{"class": [["one sentence", "the other"], ...], ...}'


def read_pairs(pairs: str | Path | Mapping[str, Sequence[Sequence[str]]]) -> Pairs:
    """Return classes of pairs from a .json file or from a mapping, in their order, checked.

    >>> read_pairs({"warm-cold": [["A warm day.", "A cold day."]]})
    {'warm-cold': [('A warm day.', 'A cold day.')]}
    """
    if isinstance(pairs, Mapping):
        return _checked(pairs, "pairs")
    path = Path(pairs)
    if not path.is_file():
        raise InputError(f"PAIRS {str(path)!r}: there is no such file; wanted a .json file, {SHAPE}.")
    try:
        given = json.loads(path.read_bytes(), object_pairs_hook=_once)
    except UnicodeDecodeError:
        raise InputError(f"PAIRS {str(path)!r} is not UTF-8; save it as such.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"PAIRS {str(path)!r} is no JSON ({error}); wanted {SHAPE}.") from None
    return _checked(given, f"PAIRS {str(path)!r}")


def without_mirrors(pairs: Pairs) -> tuple[Pairs, list[str]]:
    """Leave out classes that are an earlier one turned around, and say so: they would count every test twice.

    >>> without_mirrors({"a-b": [("a", "b")], "b-a": [("b", "a")]})[0]
    {'a-b': [('a', 'b')]}
    """
    kept: Pairs = {}
    told = []
    for name, members in pairs.items():
        turned = sorted((b, a) for a, b in members)
        same = next((other for other, there in kept.items() if sorted(there) in (turned, sorted(members))), None)
        if same is None:
            kept[name] = members
        else:
            how = "again" if sorted(kept[same]) == sorted(members) else "turned around"
            told.append(f"{name} is {same} {how}; left out.")
    return kept, told


def _once(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its items; JSON would quietly keep only the last of two classes of one name."""
    made = dict(items)
    if len(made) < len(items):
        names = [name for name, _ in items]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"PAIRS: the class {twice!r} is there twice; join the two or rename one.")
    return made


def _checked(given: Any, where: str) -> Pairs:
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"{where} holds no classes of pairs; wanted {SHAPE}.")
    found: Pairs = {}
    for name, pairs in given.items():
        if not isinstance(pairs, Sequence) or isinstance(pairs, str):
            raise InputError(f"{where}: the class {name!r} is no list of pairs; wanted {SHAPE}.")
        if not pairs:
            raise InputError(f"{where}: the class {name!r} is empty; give it pairs or leave it out.")
        written = units.encodable(str(name))
        found[written] = [_pair(pair, written, number, where) for number, pair in enumerate(pairs, 1)]
    return found


def _pair(pair: Any, name: str, number: int, where: str) -> tuple[str, str]:
    two = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
    if not two or not all(isinstance(each, str) and each.strip() for each in pair):
        raise InputError(f"{where}: pair {number} of {name!r} is not two sentences that say something.")
    return encodable(pair[0]), encodable(pair[1])
