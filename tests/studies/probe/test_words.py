""""""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from theodolite import samples
from theodolite.errors import InputError, TheodoliteError
from theodolite.studies.probe.words import Entry, make_entries, read_word_list, read_wordnet

EXAMPLES = samples.path("words.csv").parent


def written(folder: Path, content: str | bytes) -> Path:
    file = folder / "words.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def test_a_mark_quotes_other_columns_and_any_script_are_read(tmp_path: Path) -> None:
    text = '\ufeffnote,"Word",label\r\n1,naïve,"a, b"\r\n\r\n2,"say ""so""",b\r\n3, 東京 ,b\r\n,don\'t,$x$\r\n'
    assert read_word_list(written(tmp_path, text)) == [
        Entry("naïve", "a, b"),
        Entry('say "so"', "b"),
        Entry("東京", "b"),
        Entry("don't", "$x$"),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("words,class\ncat,a\n", "'word' is missing (got 'words', 'class'). Did you mean 'words'?"),
        ("word,class\ncat,a\n", "'label' is missing"),
        ("", "'word' is missing (got nothing)"),
        ("word,label,word\ncat,a,b\n", "the column 'word' appears 2 times"),
        ("word,label\ncat,\n", "line 2: the label is empty"),
        ("word,label\ncat\n", "line 2: the label is empty"),
        ("word,label\n,a\n", "line 2: the word is empty"),
        (b"word,label\ncaf\xe9,a\n", "is not UTF-8"),
        ('word,label\n"cat,a\n', "is not a valid .csv file"),
    ],
)
def test_bad_files_are_rejected(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(InputError) as error:
        read_word_list(written(tmp_path, content))
    assert words in str(error.value)


def test_a_missing_file_and_empty_pairs_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="file not found"):
        read_word_list(tmp_path / "none.csv")
    with pytest.raises(InputError, match="the label of pair 1 is empty"):
        make_entries([("a", "b"), ("c", " ")])


@pytest.mark.parametrize(("name", "classes"), [("words.csv", 6), ("parts-of-speech.csv", 3)])
def test_the_examples_are_lists_of_distinct_entries(name: str, classes: int) -> None:
    entries = read_word_list(EXAMPLES / name)
    assert len(set(entries)) == len(entries) >= 300
    assert len({entry.label for entry in entries}) == classes


SYNSETS = [
    ("n", "noun.animal", ["bear", "brown_bear", "Ursus"]),
    ("n", "noun.food", ["turkey", "bear's-garlic"]),
    ("n", "noun.animal", ["turkey"]),
    ("v", "verb.motion", ["bear", "run"]),
    ("s", "adj.all", ["quick"]),
    ("a", "adj.all", ["slow"]),
]


def nltk(monkeypatch: pytest.MonkeyPatch, *, installed: bool = True) -> None:
    def made(part: str, file: str, words: list[str]) -> SimpleNamespace:
        return SimpleNamespace(pos=lambda: part, lexname=lambda: file, lemma_names=lambda: words)

    def loaded() -> None:
        if not installed:
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
    assert read_wordnet(["noun.animal", " noun.food"]) == [*WANTED, Entry("turkey", "noun.food")]
    parts = read_wordnet(["noun", "verb", "adj"])
    assert [label for word, label in parts if word == "bear"] == ["noun", "verb"]
    assert [word for word, label in parts if label == "adj"] == ["quick", "slow"]


def test_wn_serves_where_nltk_has_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    nltk(monkeypatch, installed=False)
    opened = wn(monkeypatch, ["oewn:2021", "oewn:2024"])
    assert read_wordnet(["noun.animal", "verb"])[:2] == WANTED[:2]
    assert opened == ["oewn:2024"]


def test_without_wordnet_the_error_gives_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TheodoliteError, match=r"nltk is not installed; wn is not installed.*pip install nltk"):
        read_wordnet(["noun", "verb"])
    nltk(monkeypatch, installed=False)
    wn(monkeypatch, [])
    with pytest.raises(TheodoliteError, match="nltk is installed without WordNet; wn is installed without"):
        read_wordnet(["noun", "verb"])


def test_unknown_and_single_classes_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    nltk(monkeypatch)
    with pytest.raises(InputError, match=r"'noun.animals' is not a class of WordNet. Did you mean 'noun.animal'"):
        read_wordnet(["noun.animals", "verb"])
    with pytest.raises(InputError, match="requires at least two classes"):
        read_wordnet(["noun"])
