from __future__ import annotations

from pathlib import Path

import pytest

from theodolite import samples
from theodolite.errors import InputError
from theodolite.studies.probe.word_list import Entry, checked, read_words

EXAMPLES = samples.path("words.csv").parent


def written(folder: Path, content: str | bytes) -> Path:
    file = folder / "words.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def test_a_mark_quotes_other_columns_and_any_script_are_read(tmp_path: Path) -> None:
    text = '\ufeffnote,"Word",label\r\n1,naïve,"a, b"\r\n\r\n2,"say ""so""",b\r\n3, 東京 ,b\r\n,don\'t,$x$\r\n'
    assert read_words(written(tmp_path, text)) == [
        Entry("naïve", "a, b"),
        Entry('say "so"', "b"),
        Entry("東京", "b"),
        Entry("don't", "$x$"),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("words,class\ncat,a\n", "there is no 'word' in 'words', 'class'. Did you mean 'words'?"),
        ("word,class\ncat,a\n", "there is no 'label'"),
        ("", "there is no 'word' in nothing"),
        ("word,label,word\ncat,a,b\n", "the column 'word' is there 2 times"),
        ("word,label\ncat,\n", "line 2: there is no label"),
        ("word,label\ncat\n", "line 2: there is no label"),
        ("word,label\n,a\n", "line 2: there is no word"),
        (b"word,label\ncaf\xe9,a\n", "is not UTF-8"),
        ('word,label\n"cat,a\n', "is no .csv that can be read"),
    ],
)
def test_bad_files_are_answered(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(InputError) as told:
        read_words(written(tmp_path, content))
    assert words in str(told.value)


def test_a_missing_file_and_empty_pairs_are_answered(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_words(tmp_path / "none.csv")
    with pytest.raises(InputError, match="pair 1 has no label"):
        checked([("a", "b"), ("c", " ")])


@pytest.mark.parametrize(("name", "classes"), [("words.csv", 6), ("parts-of-speech.csv", 3)])
def test_the_examples_are_lists_of_distinct_entries(name: str, classes: int) -> None:
    entries = read_words(EXAMPLES / name)
    assert len(set(entries)) == len(entries) >= 300
    assert len({entry.label for entry in entries}) == classes
