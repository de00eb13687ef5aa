"""Classes of sentence pairs: reading and checking them, and warnings about differences other than meaning."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import InputError
from theodolite.sources.text.windows import repair_surrogates
from theodolite.studies.sentences import shorten
from theodolite.studies.tokenization import name_examples
from theodolite.text import encodable

Pairs = dict[str, list[tuple[str, str]]]
FORMAT = '{"class": [["one sentence", "the other"], ...], ...}'
KEYS = "class pair a b swap tokens_a tokens_b punctuation_a punctuation_b".split()
MARKS = "same ids_equal punctuation_differs words_differ tokens_differ repeated".split()


def read_pairs(pairs: str | Path | Mapping[str, Sequence[Sequence[str]]]) -> Pairs:
    """Read and check classes of pairs from a .json file or a mapping, in their order.

    >>> read_pairs({"warm-cold": [["A warm day.", "A cold day."]]})
    {'warm-cold': [('A warm day.', 'A cold day.')]}
    """
    if isinstance(pairs, Mapping):
        return _check_classes(pairs, "pairs")
    path = Path(pairs)
    if not path.is_file():
        raise InputError(f"PAIRS {str(path)!r} does not exist; expected a .json file with {FORMAT}.")
    try:
        given = json.loads(path.read_bytes(), object_pairs_hook=_reject_repeated_names)
    except UnicodeDecodeError:
        raise InputError(f"PAIRS {str(path)!r} is not UTF-8; save it in UTF-8.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"PAIRS {str(path)!r} is not valid JSON ({error}); expected {FORMAT}.") from None
    return _check_classes(given, f"PAIRS {str(path)!r}")


def drop_mirrored(pairs: Pairs) -> tuple[Pairs, list[str]]:
    """Drop classes that repeat or reverse an earlier class, and return warnings: they would count tests twice.

    >>> drop_mirrored({"a-b": [("a", "b")], "b-a": [("b", "a")]})[0]
    {'a-b': [('a', 'b')]}
    """
    kept: Pairs = {}
    warnings = []
    for name, members in pairs.items():
        mirrored = sorted((b, a) for a, b in members)
        same = next(
            (other for other, others in kept.items() if sorted(others) in (mirrored, sorted(members))), None
        )
        if same is None:
            kept[name] = members
        else:
            verb = "repeats" if sorted(kept[same]) == sorted(members) else "reverses"
            warnings.append(f"The class {name} was omitted: it {verb} the class {same}.")
    return kept, warnings


def _reject_repeated_names(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object and reject repeated names; json would silently keep only the last of them."""
    built = dict(items)
    if len(built) < len(items):
        names = [name for name, _ in items]
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(f"PAIRS: the class {repeated!r} occurs twice; join the two or rename one.")
    return built


def _check_classes(given: Any, where: str) -> Pairs:
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"{where} contains no classes of pairs; expected {FORMAT}.")
    classes: Pairs = {}
    for name, pairs in given.items():
        if not isinstance(pairs, Sequence) or isinstance(pairs, str):
            raise InputError(f"{where}: the class {name!r} is not a list of pairs; expected {FORMAT}.")
        if not pairs:
            raise InputError(f"{where}: the class {name!r} is empty; add pairs or remove the class.")
        printable = encodable(str(name))
        classes[printable] = [_check_pair(pair, printable, number, where) for number, pair in enumerate(pairs, 1)]
    return classes


def _check_pair(pair: Any, name: str, number: int, where: str) -> tuple[str, str]:
    two = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
    if not two or not all(isinstance(sentence, str) and sentence.strip() for sentence in pair):
        raise InputError(
            f"{where}: pair {number} of {name!r} must consist of two sentences that are not empty; expected "
            f"{FORMAT}."
        )
    return repair_surrogates(pair[0]), repair_surrogates(pair[1])


def pairs_table(pairs: Pairs, tokens: Sequence[int], ids: Sequence[tuple[int, ...]] | None = None) -> pd.DataFrame:
    """Return one row per pair: its sentences, their tokens and punctuation, and how they differ.

    `same`: the two sentences are equal; `ids_equal`: the model reads the same tokens; `repeated`: the pair
    occurred before, in this class or another; `swap`: the words that only one sentence has. tokens, ids: two per
    pair, without special tokens.
    """
    rows, seen = [], set[tuple[str, str]]()
    counts, known = iter(tokens), iter(ids or ())
    for name, members in pairs.items():
        for number, (a, b) in enumerate(members, 1):
            left, right = punctuation(a), punctuation(b)
            sizes = next(counts), next(counts)
            read = (next(known), next(known)) if ids else (a, b)
            differ = (left != right, len(a.split()) != len(b.split()), sizes[0] != sizes[1])
            marks = (a == b, read[0] == read[1], *differ, (a, b) in seen)
            seen.add((a, b))
            rows.append(
                dict(zip(KEYS, (name, number, a, b, swap(a, b), *sizes, left, right), strict=True))
                | dict(zip(MARKS, marks, strict=True))
            )
    return pd.DataFrame(rows, columns=[*KEYS, *MARKS])


def punctuation(sentence: str) -> str:
    """Return the punctuation marks of a sentence, in order.

    >>> punctuation("On a dim day, it's over.")
    ",'."
    """
    return "".join(char for char in sentence if unicodedata.category(char).startswith("P"))


def swap(a: str, b: str) -> str:
    """Return the words that only a has and those that only b has, ignoring case and punctuation.

    >>> swap("The actress won.", "The actor won")
    'actress > actor'
    """
    one, other = (Counter(re.findall(r"[^\W_]+", text.lower())) for text in (a, b))
    return f"{' '.join((one - other).elements())} > {' '.join((other - one).elements())}"


def find_template(a: str, b: str) -> str:
    """Return the first sentence with the words that only it has left open.

    >>> find_template("The actress won.", "The actor won")
    'the _ won.'
    """
    words = re.split(r"([^\W_]+)", a.lower())
    only = Counter(words[1::2]) - Counter(re.findall(r"[^\W_]+", b.lower()))
    return "".join("_" if place % 2 and only[word] else word for place, word in enumerate(words))


def _swap_warnings(table: pd.DataFrame) -> list[str]:
    """Warn about classes whose pairs all change the same words: they show the effect of these words only."""
    changes = table.groupby("class", sort=False)["swap"].agg(["nunique", "first", "size"])
    constant = changes[(changes["nunique"] == 1) & (changes["size"] > 1)]
    if not len(constant):
        return []
    names = ", ".join(f"{name} ({row['first']})" for name, row in constant.iterrows())
    return [
        f"All pairs of these classes change the same words: {names}. p generalises to other sentences, not words."
    ]


def _equal_warnings(table: pd.DataFrame) -> list[str]:
    """Name the pairs of different sentences that the model reads as the same tokens."""
    equal = table[table["ids_equal"] & ~table["same"]]
    if not len(equal):
        return []
    named = [f"{row['class']}: {shorten(row['a'])} and {shorten(row['b'])}" for _, row in equal.iterrows()]
    return [
        f"{len(equal)} of {len(table)} pairs have equal token ids, so their difference is 0: "
        f"{name_examples(named, '; ')}."
    ]


def pair_warnings(table: pd.DataFrame) -> list[str]:
    """Return a warning for each difference other than meaning that may be mistaken for a direction."""
    descriptions = {
        "punctuation_differs": "differ in punctuation, which also moves vectors (--matched omits them)",
        "words_differ": "differ in their number of words",
        "tokens_differ": "differ in their number of tokens",
        "same": "contain the same sentence twice, so their difference is 0",
        "repeated": "occur more than once, which makes p too small",
    }
    warnings = []
    for mark, words in descriptions.items():
        counts = table[table[mark]].groupby("class", sort=False).size()
        if len(counts):
            by_class = ", ".join(f"{name} {count}" for name, count in counts.items())
            warnings.append(f"{int(counts.sum())} of {len(table)} pairs {words}: {by_class}.")
    return [*warnings, *_equal_warnings(table), *_swap_warnings(table)]
