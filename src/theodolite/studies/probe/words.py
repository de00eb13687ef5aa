"""Lists of words with their classes: from a .csv file, from pairs, or from WordNet."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from theodolite.errors import InputError, TheodoliteError, nearest
from theodolite.sources.text.windows import repair_surrogates

COLUMNS = ("word", "label")


class Entry(NamedTuple):
    """A word and one of its classes; a word of several classes has several entries."""

    word: str
    label: str


def read_word_list(path: str | Path) -> list[Entry]:
    """Read a .csv file with the columns word and label, in UTF-8 with or without a byte-order mark."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"--words {file}: file not found.")
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            places = _find_columns(file, header)
            return [_parse_row(file, reader.line_num, row, places) for row in reader if any(map(str.strip, row))]
    except UnicodeDecodeError as error:
        raise InputError(
            f"--words {file} is not UTF-8 (byte {error.start}); save it as UTF-8 and try again."
        ) from None
    except csv.Error as error:
        raise InputError(f"--words {file} is not a valid .csv file: {error}.") from None


def make_entries(pairs: Sequence[tuple[str, str]]) -> list[Entry]:
    """Return pairs of word and class as entries; reject an empty word or class."""
    entries = [
        Entry(repair_surrogates(str(word)).strip(), repair_surrogates(str(label)).strip()) for word, label in pairs
    ]
    for number, entry in enumerate(entries):
        if not all(entry):
            raise InputError(f"words: the {COLUMNS[0 if not entry.word else 1]} of pair {number} is empty.")
    return entries


def _find_columns(file: Path, header: Sequence[str]) -> list[int]:
    for name in COLUMNS:
        if name not in header:
            listed = ", ".join(map(repr, header[:8])) or "nothing"
            raise InputError(
                f"--words {file}: the first line must name the columns word and label; {name!r} is missing "
                f"(got {listed}).{nearest(name, list(header))}"
            )
        if header.count(name) > 1:
            raise InputError(f"--words {file}: the column {name!r} appears {header.count(name)} times.")
    return [header.index(name) for name in COLUMNS]


def _parse_row(file: Path, line: int, row: Sequence[str], places: Sequence[int]) -> Entry:
    found = [row[place].strip() if place < len(row) else "" for place in places]
    for name, value in zip(COLUMNS, found, strict=True):
        if not value:
            raise InputError(f"--words {file}, line {line}: the {name} is empty.")
    return Entry(*found)


PARTS_OF_SPEECH = {
    "n": "noun",
    "v": "verb",
    "a": "adj",
    "s": "adj",
    "r": "adv",
}  # s: satellite adjective
INSTALL_HINT = (
    "Run `pip install nltk` and `python -m nltk.downloader wordnet`, "
    "or `pip install wn` and `python -m wn download oewn:2024`; or give --words FILE.csv"
)
Synsets = Iterable[tuple[str, str, Sequence[str]]]  # part of speech, lexicographer file, words of a synset


def read_wordnet(classes: Sequence[str]) -> list[Entry]:
    """Return the words of WordNet classes: parts of speech (noun) or lexicographer files (noun.animal).

    Only single words are returned; a word in several of the classes has one entry per class.
    """
    names = list(dict.fromkeys(name.strip() for name in classes if name.strip()))
    if len(names) < 2:
        raise InputError(
            "--wordnet requires at least two classes, such as noun.animal,noun.food or noun,verb,adj "
            f"(got {', '.join(names) or 'none'})."
        )
    found: dict[Entry, None] = {}
    seen: set[str] = set()
    for part, file, words in _read_synsets():
        seen |= {part, file}
        for name in names:
            if name in (part, file):
                found |= dict.fromkeys(Entry(word, name) for word in words if _is_single_word(word))
    missing = [name for name in names if name not in seen]
    if missing:
        known = sorted(filter(None, seen))
        raise InputError(
            f"--wordnet {missing[0]!r} is not a class of WordNet.{nearest(missing[0], known)} "
            f"Its classes: {', '.join(known)}."
        )
    return sorted(found)


def _is_single_word(word: str) -> bool:
    return not any(mark in word for mark in " _-.")


def _read_synsets() -> Synsets:
    """Return the synsets of WordNet from the first library that has its data."""
    problems = []
    for library, read in WORDNET_LIBRARIES.items():
        try:
            return read(import_module(library))
        except ImportError:
            problems.append(f"{library} is not installed")
        except LookupError:  # raised by nltk if the data is missing
            problems.append(f"{library} is installed without WordNet")
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in WORDNET_LIBRARIES:
                raise
            problems.append(f"{library} is installed without WordNet")
    raise TheodoliteError(f"--wordnet: WordNet was not found ({'; '.join(problems)}). {INSTALL_HINT}.")


def _from_nltk(nltk: Any) -> Synsets:
    corpus = import_module("nltk.corpus").wordnet
    corpus.ensure_loaded()  # so that a LookupError is raised here and not during iteration
    return (
        (PARTS_OF_SPEECH[each.pos()], str(each.lexname()), each.lemma_names()) for each in corpus.all_synsets()
    )


def _from_wn(wn: Any) -> Synsets:
    known = sorted(each.specifier() for each in wn.lexicons(lang="en"))
    if not known:
        raise LookupError("no English lexicon")
    english = wn.Wordnet(known[-1])  # the newest edition if several are installed
    return (
        (PARTS_OF_SPEECH.get(each.pos, ""), str(each.lexfile() or ""), [str(word) for word in each.lemmas()])
        for each in english.synsets()
    )


WORDNET_LIBRARIES: dict[str, Callable[[Any], Synsets]] = {"nltk": _from_nltk, "wn": _from_wn}
