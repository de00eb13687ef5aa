"""Both libraries are stood in for: neither is needed to install or test, and nothing is fetched."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from theodolite.errors import InputError, TheodoliteError
from theodolite.studies.probe.word_list import Entry
from theodolite.studies.probe.wordnet import wordnet_words

SYNSETS = [
    ("n", "noun.animal", ["bear", "brown_bear", "Ursus"]),
    ("n", "noun.food", ["turkey", "bear's-garlic"]),
    ("n", "noun.animal", ["turkey"]),
    ("v", "verb.motion", ["bear", "run"]),
    ("s", "adj.all", ["quick"]),
    ("a", "adj.all", ["slow"]),
]


def nltk(monkeypatch: pytest.MonkeyPatch, *, here: bool = True) -> None:
    def made(part: str, file: str, words: list[str]) -> SimpleNamespace:
        return SimpleNamespace(pos=lambda: part, lexname=lambda: file, lemma_names=lambda: words)

    def loaded() -> None:
        if not here:
            raise LookupError("Resource wordnet not found.")

    corpus = ModuleType("nltk.corpus")
    corpus.wordnet = SimpleNamespace(  # type: ignore[attr-defined]
        ensure_loaded=loaded, all_synsets=lambda: [made(*each) for each in SYNSETS]
    )
    monkeypatch.setitem(sys.modules, "nltk", ModuleType("nltk"))
    monkeypatch.setitem(sys.modules, "nltk.corpus", corpus)


def wn(monkeypatch: pytest.MonkeyPatch, lexicons: list[str]) -> list[str]:
    opened = []

    def made(part: str, file: str, words: list[str]) -> SimpleNamespace:
        return SimpleNamespace(pos=part, lexfile=lambda: file, lemmas=lambda: [w.replace("_", " ") for w in words])

    def opening(lexicon: str) -> SimpleNamespace:
        opened.append(lexicon)
        return SimpleNamespace(synsets=lambda: [made(*each) for each in SYNSETS])

    module = ModuleType("wn")
    module.lexicons = lambda lang: [SimpleNamespace(specifier=lambda n=n: n) for n in lexicons]  # type: ignore[attr-defined]
    module.Wordnet = opening  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wn", module)
    return opened


@pytest.fixture(autouse=True)
def neither(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nltk", "nltk.corpus", "wn"):
        monkeypatch.setitem(sys.modules, name, None)


WANTED = [Entry("Ursus", "noun.animal"), Entry("bear", "noun.animal"), Entry("turkey", "noun.animal")]


def test_classes_are_files_or_parts_of_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    nltk(monkeypatch)
    assert wordnet_words(["noun.animal", " noun.food"]) == [*WANTED, Entry("turkey", "noun.food")]
    parts = wordnet_words(["noun", "verb", "adj"])
    assert [label for word, label in parts if word == "bear"] == ["noun", "verb"]
    assert [word for word, label in parts if label == "adj"] == ["quick", "slow"]


def test_wn_serves_where_nltk_has_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    nltk(monkeypatch, here=False)
    opened = wn(monkeypatch, ["oewn:2021", "oewn:2024"])
    assert wordnet_words(["noun.animal", "verb"])[:2] == WANTED[:2]
    assert opened == ["oewn:2024"]


def test_without_wordnet_the_way_to_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TheodoliteError, match=r"nltk is not installed; wn is not installed.*pip install nltk"):
        wordnet_words(["noun", "verb"])
    nltk(monkeypatch, here=False)
    wn(monkeypatch, [])
    with pytest.raises(TheodoliteError, match="nltk is installed without WordNet; wn is installed without"):
        wordnet_words(["noun", "verb"])


def test_unknown_and_single_classes_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    nltk(monkeypatch)
    with pytest.raises(InputError, match=r"'noun.animals' is no class of WordNet. Did you mean 'noun.animal'"):
        wordnet_words(["noun.animals", "verb"])
    with pytest.raises(InputError, match="wants two classes or more"):
        wordnet_words(["noun"])
