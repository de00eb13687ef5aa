"""Word lists from WordNet, where nltk or wn is installed and has its data: nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from theodolite.errors import InputError, TheodoliteError, nearest
from theodolite.studies.probe.word_list import Entry

PARTS = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}  # s: an adjective near another in meaning
WAY = (
    "`pip install nltk` and `python -m nltk.downloader wordnet` get it, "
    "or `pip install wn` and `python -m wn download oewn:2024`; or give --words FILE.csv"
)
Senses = Iterable[tuple[str, str, Sequence[str]]]  # part of speech, lexicographer's file, words of a synset


def wordnet_words(classes: Sequence[str]) -> list[Entry]:
    """Return the words of WordNet's classes: parts of speech (noun) or lexicographers' files (noun.animal).

    Only single words, as they are spelled; a word that is in several of the classes comes once for each.
    """
    wanted = list(dict.fromkeys(name.strip() for name in classes if name.strip()))
    if len(wanted) < 2:
        raise InputError("--wordnet wants two classes or more, such as noun.animal,noun.food or noun,verb,adj.")
    found: dict[Entry, None] = {}
    seen: set[str] = set()
    for part, file, words in _senses():
        seen |= {part, file}
        for name in wanted:
            if name in (part, file):
                found |= dict.fromkeys(Entry(word, name) for word in words if _single(word))
    missing = [name for name in wanted if name not in seen]
    if missing:
        known = sorted(filter(None, seen))
        raise InputError(
            f"--wordnet {missing[0]!r} is no class of WordNet.{nearest(missing[0], known)} "
            f"It has {', '.join(known)}."
        )
    return sorted(found)


def _single(word: str) -> bool:
    return not any(mark in word for mark in " _-.")


def _senses() -> Senses:
    """Return WordNet's synsets from the first library that has them."""
    said = []
    for library, read in SOURCES.items():
        try:
            return read(import_module(library))
        except ImportError:
            said.append(f"{library} is not installed")
        except LookupError:  # nltk's word for data that is not there
            said.append(f"{library} is installed without WordNet")
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in SOURCES:
                raise
            said.append(f"{library} is installed without WordNet")
    raise TheodoliteError(f"--wordnet: WordNet is not here ({'; '.join(said)}). {WAY}.")


def _from_nltk(nltk: Any) -> Senses:
    corpus = import_module("nltk.corpus").wordnet
    corpus.ensure_loaded()  # LookupError here, and not half way through
    return ((PARTS[each.pos()], str(each.lexname()), each.lemma_names()) for each in corpus.all_synsets())


def _from_wn(wn: Any) -> Senses:
    known = sorted(each.specifier() for each in wn.lexicons(lang="en"))
    if not known:
        raise LookupError("no English lexicon")
    english = wn.Wordnet(known[-1])  # one, where several editions are there: the newest
    return (
        (PARTS.get(each.pos, ""), str(each.lexfile() or ""), [str(word) for word in each.lemmas()])
        for each in english.synsets()
    )


SOURCES: dict[str, Callable[[Any], Senses]] = {"nltk": _from_nltk, "wn": _from_wn}
