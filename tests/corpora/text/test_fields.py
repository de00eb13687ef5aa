"""Fields that group documents: values of every kind of corpus, the most frequent ones, bins, and errors."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.corpora import fields
from theodolite.corpora.fields import MISSING, OTHER, FieldChoice, FieldCounter, join_choices, name_bins, to_value
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.scan import scan
from theodolite.corpora.text_corpus import open_corpus
from theodolite.corpora.text_readers import value_of
from theodolite.errors import InputError

ROWS: list[dict[str, Any]] = [
    {"text": "one two", "language": "en", "year": 1999},
    {"text": "un deux", "language": "fr", "year": 2001},
    {"text": " ", "language": "de", "year": 1},
    {"text": "three four", "language": "en", "year": None},
    {"text": "five", "year": 1999},
]


def choose(values: list[Any], top: int = 32) -> FieldChoice:
    counter = FieldCounter("f", top)
    counter.add([to_value(value, "f") for value in values])
    return counter.choose()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS))
    pd.DataFrame(ROWS).to_parquet(tmp_path / "c.parquet")
    return {
        "jsonl": tmp_path / "c.jsonl",
        "parquet": tmp_path / "c.parquet",
        "memory": ROWS,
        "frame": pd.DataFrame(ROWS),
    }


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "memory", "frame"])
def test_values_travel_with_documents(files: dict[str, Any], kind: str) -> None:
    corpus = open_corpus(files[kind], CorpusOptions(by="language"))
    read = [(text, value_of(text)) for _, text in corpus.documents()]
    assert read == [("one two", "en"), ("un deux", "fr"), ("three four", "en"), ("five", None)]
    found = scan(corpus).by
    assert found is not None
    assert found.names == ("en", "fr", MISSING)
    assert found.documents == (2, 1, 1)
    assert found.describe() == [
        "--by f".replace("f", "language") + f": 1 of 4 documents have no value and are the group {MISSING}"
    ]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "memory", "frame"])
def test_the_corpus_is_the_same_with_and_without_a_field(files: dict[str, Any], kind: str) -> None:
    texts = [row["text"] for row in ROWS]
    assert scan(open_corpus(files[kind], CorpusOptions(by="year"))).sha256 == scan(open_corpus(texts)).sha256


@pytest.mark.parametrize("option", ["field", "column"])
def test_rows_in_memory_are_read_by_a_named_field(option: str) -> None:
    rows = [{"body": "one", "language": "en"}, {"body": None, "language": "fr"}, {"body": "two", "language": "fr"}]
    chosen = CorpusOptions(**{option: "body"})
    for what in (rows, pd.DataFrame(rows)):
        corpus = open_corpus(what, chosen)
        corpus.check_columns()
        assert list(corpus.documents()) == [(0, "one"), (1, "two")]
        grouped = scan(open_corpus(what, replace(chosen, by="language"))).by
        assert grouped is not None
        assert grouped.names == ("en", "fr")
    with pytest.raises(InputError, match=f"--{option} 'body' has no effect on list of 1"):
        open_corpus(["one"], chosen).check_columns()


def test_years_are_groups_in_order(files: dict[str, Any]) -> None:
    for kind in ("jsonl", "parquet"):  # a column of integers with a null is one of floats
        found = scan(open_corpus(files[kind], CorpusOptions(by="year"))).by
        assert found is not None
        assert found.names == ("1999", "2001", MISSING)
        assert found.code(1999) == found.code(1999.0) == 0
    many = choose([2001, 2001, 1999, 2010, 2010, 2010, None])
    assert [many.names[code] for code in many.shown] == ["1999", "2001", "2010", MISSING]


def test_files_and_lengths(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text("short\nsomewhat longer\n")
    where = str(tmp_path / "*" / "x.txt")
    by_file = scan(open_corpus(where, CorpusOptions(by="file"))).by
    assert by_file is not None
    assert by_file.names == ("a/x.txt", "b/x.txt")
    by_length = scan(open_corpus(where, CorpusOptions(by="length"))).by
    assert by_length is not None
    assert by_length.names == ("4 to 7", "8 to 15")
    assert by_length.documents == (2, 2)


def test_a_document_with_a_value_can_be_sent_to_a_worker(files: dict[str, Any]) -> None:
    (_, text), *_ = open_corpus(files["jsonl"], CorpusOptions(by="year")).documents()
    assert value_of(pickle.loads(pickle.dumps(text))) == 1999


def test_only_the_most_frequent_values_are_groups() -> None:
    values = [f"v{number}" for number in range(10_000)] + ["common"] * 3 + ["rare"] * 2
    found = choose(values, top=2)
    assert found.names == ("common", "rare", OTHER)
    assert found.documents == (3, 2, 10_000)
    assert found.distinct == 10_002
    assert found.code("v17") == 2
    assert found.describe() == [
        "--by f has 10,002 different values: the 2 most frequent are groups, the others (10,000 documents) are "
        "together in (other). Change the number with --by-top"
    ]


def test_numbers_with_many_values_are_binned_by_quantiles() -> None:
    numbers = np.random.default_rng(0).lognormal(size=20_000).tolist()
    found = choose([*numbers, None, float("nan")], top=32)
    assert len(found) == fields.NUMBER_BINS + 1
    assert found.documents[-1] == 2
    assert max(found.documents[:-1]) < 1.02 * min(found.documents[:-1])
    assert found.edges == pytest.approx(np.quantile(numbers, np.arange(1, 8) / 8).tolist())
    assert [found.names[code] for code in found.shown] == [*name_bins(found.edges or ()), MISSING]
    assert "about equal size" in found.describe()[1]
    assert choose([0.5, 1.5, 0.5]).names == ("0.5", "1.5")  # few different numbers are groups themselves


def test_the_sample_of_numbers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "SAMPLED", 1000)
    counter = FieldCounter("f", 4)
    for start in range(0, 50_000, 70):
        counter.add([float(number) for number in range(start, start + 70)])
    assert len(counter._numbers) <= 1000
    found = counter.choose()
    assert found.edges == pytest.approx([12_500, 25_000, 37_500], abs=200)


def test_equal_numbers_give_fewer_bins() -> None:
    found = choose([0.0] * 900 + list(range(1, 101)), top=32)
    assert sum(found.documents) == 1000
    assert len(found) == len(found.edges or ()) + 1 < fields.NUMBER_BINS


@given(values=st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 5)), min_size=1))
def test_every_value_has_a_group_and_counts_agree(values: list[Any]) -> None:
    found = choose(values, top=3)
    codes = found.codes([to_value(value, "f") for value in values])
    assert np.bincount(codes, minlength=len(found)).tolist() == list(found.documents)
    assert sorted(found.shown) == list(range(len(found)))
    assert FieldChoice.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_a_value_that_was_not_counted_is_an_error() -> None:
    with pytest.raises(InputError, match="'zz' was not there when the values were counted"):
        choose(["a", "b"]).code("zz")


def test_wrong_fields_are_rejected(files: dict[str, Any], tmp_path: Path) -> None:
    for kind in ("jsonl", "parquet"):
        with pytest.raises(InputError, match=r"no document of .* has a value in this field") as error:
            scan(open_corpus(files[kind], CorpusOptions(by="lang")))
        assert "Fields to group by: language, year, file, length. Did you mean 'language'" in str(error.value)
    with pytest.raises(InputError, match="Fields to group by: length"):
        scan(open_corpus(["one", "two"], CorpusOptions(by="language")))
    (tmp_path / "t.jsonl").write_text('{"text": "a", "tags": ["x"]}\n')
    with pytest.raises(InputError, match=r"--by 'tags' requires texts or numbers, but .* type list"):
        scan(open_corpus(tmp_path / "t.jsonl", CorpusOptions(by="tags")))
    with pytest.raises(InputError, match="a document has a value of 300 characters"):
        to_value("x" * 300, "text")


def test_too_many_values_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "MOST_DISTINCT", 10)
    with pytest.raises(InputError, match="more than 10 different values"):
        choose([f"{number}" for number in range(11)])


def test_joining_keeps_only_groups_that_both_know() -> None:
    first, second = choose(["a"] * 3 + ["b"] * 2 + ["c"], top=2), choose(["a", "c", "c", None], top=2)
    joined = join_choices(first, second)
    # Of c the first survey has documents in (other), so that its group would be incomplete.
    assert joined.choice.names == ("a", "b", OTHER, MISSING)
    assert joined.choice.documents == (4, 2, 3, 1)
    assert joined.first == [0, 1, 2]
    assert joined.second == [2, 0, 3]


def test_joining_parts_of_one_corpus_changes_nothing() -> None:
    found = choose(["a", "b", "b"], top=1)
    joined = join_choices(found, found, same_corpus=True)
    assert joined.choice == found
    assert joined.first == joined.second == [0, 1]


def test_bins_that_differ_cannot_be_joined() -> None:
    one, other = (choose(list(range(start, start + 100)), top=8) for start in (0, 50))
    with pytest.raises(InputError, match="different bins"):
        join_choices(one, other)
