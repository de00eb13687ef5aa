"""Each error of a corpus is one sentence with a fix; its words are asserted."""

import gzip
import os
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.scan import scan
from theodolite.corpora.text_corpus import open_corpus
from theodolite.errors import InputError


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def error_message(what: str | Path | Iterable[str], **options: object) -> str:
    """Return the message of the error that opening and scanning raises."""
    with pytest.raises(InputError) as caught:
        scan(open_corpus(what, CorpusOptions(**options)))  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_missing_file_error_names_similar_files(working_folder: Path) -> None:
    (working_folder / "reviews.txt").touch()
    (working_folder / "reviews.md").touch()
    assert error_message("review.txt") == (
        "CORPUS 'review.txt' is neither a file nor a corpus of the catalogue; give a file ending in one of "
        ".txt, .txt.gz, .jsonl, .jsonl.gz, .parquet, a glob of these, or a name of the catalogue: "
        "novels, wikitext-2. Did you mean 'reviews.txt'?"
    )


def test_a_missing_name_error_names_the_catalogue() -> None:
    assert error_message("wikitxt2").endswith("Did you mean 'wikitext-2'?")
    assert error_message("nowhere/at/all.jsonl").endswith("a name of the catalogue: novels, wikitext-2.")


@pytest.mark.parametrize("what", ["a text in place of a file " * 30, "a\0b"])
def test_an_invalid_name_is_missing(what: str) -> None:
    assert "is neither a file nor a corpus of the catalogue" in error_message(what)
    assert len(error_message(what)) < 400


def test_a_folder(working_folder: Path) -> None:
    (working_folder / "data").mkdir()
    assert (
        error_message("data")
        == "CORPUS requires files, but 'data' is a folder; give a glob in quotes, such as 'data/*.txt'."
    )
    (working_folder / "data" / "a.jsonl.gz").touch()
    assert error_message(Path("data")).endswith("such as 'data/*.jsonl.gz'.")


def test_a_glob_that_matches_nothing(working_folder: Path) -> None:
    (working_folder / "sub.txt").mkdir()
    assert error_message("*.txt") == (
        "CORPUS '*.txt' matches no file; check the pattern (in a shell, put it in quotes) and the folder."
    )


@pytest.mark.parametrize("what", ["a.csv", "*.csv"])
def test_an_unknown_extension(working_folder: Path, what: str) -> None:
    (working_folder / "a.csv").write_text("x", encoding="utf-8")
    assert error_message(what) == (
        "CORPUS 'a.csv' has an unknown ending; expected one of .txt, .txt.gz, .jsonl, "
        ".jsonl.gz, .parquet: rename or convert the file, or use a narrower glob."
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe(working_folder: Path) -> None:
    os.mkfifo(working_folder / "a.txt")
    assert error_message("a.txt") == (
        "CORPUS requires a regular file, because it is read more than once, but 'a.txt' is not one; "
        "save it to a file first."
    )


@pytest.mark.parametrize("data", [b"", b"\n \r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_an_empty_or_blank_file(working_folder: Path, data: bytes) -> None:
    (working_folder / "a.txt").write_bytes(data)
    assert error_message("a.txt") == (
        "CORPUS 'a.txt' contains no text: it is empty, or every document is blank. Check that it is the right one."
    )


def test_other_blank_corpora(working_folder: Path) -> None:
    (working_folder / "a.jsonl").write_text('{"text": null}\n{"text": " "}\n', encoding="utf-8")
    pq.write_table(pa.table({"text": pa.array([None], pa.string())}), working_folder / "a.parquet")
    for what in ["a.jsonl", "a.parquet", "a.*", ["", " "]]:
        assert "contains no text" in error_message(what)
    assert error_message([]) == "corpus is an empty list: give at least one document."


def test_filtering_out_every_document_names_the_filter() -> None:
    corpus = ["a"] * 3 + ["a b c d"] * 1_200
    assert error_message(corpus, min_words=2, max_words=4) == (
        "CORPUS 'list of 1,203' has 1,203 documents, of which the filters keep none "
        "(--min-words removed 3, --max-words removed 1,200); relax them."
    )
    assert "(--sample removed 1)" in error_message(["a"], sample=1e-9)


def test_invalid_utf8(working_folder: Path) -> None:
    (working_folder / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\n\ntwo \xe9 three\n")
    assert error_message("a.txt") == (
        "CORPUS requires text in UTF-8, but 'a.txt' has the byte 0xe9 in line 3, at byte offset 13 of the file; "
        "fix the file, or give --encoding-errors replace."
    )
    assert (working_folder / "a.txt").read_bytes()[13] == 0xE9


def test_invalid_utf8_far_into_a_gzip_file(working_folder: Path) -> None:
    data = b"some words\n" * 100_000 + b"\xff"
    (working_folder / "a.jsonl").write_bytes(b'{"text": "x"}\n' * 100_000 + b"\xff")
    (working_folder / "a.txt.gz").write_bytes(gzip.compress(data))
    assert "byte 0xff in line 100001, at byte offset 1100000 of the file after decompression;" in error_message(
        "a.txt.gz"
    )
    assert "byte 0xff in line 100001, at byte offset 1400000 of the file;" in error_message("a.jsonl")


def test_invalid_utf8_in_a_column(working_folder: Path) -> None:
    column = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\2\0\0\0\6\0\0\0"), pa.py_buffer(b"okcaf\xe9"))
    pq.write_table(pa.table({"text": column}), working_folder / "a.parquet")
    assert error_message("a.parquet") == (
        "CORPUS requires text in UTF-8, but 'a.parquet' has the byte 0xe9 in row 1 (from 0) of column 'text', "
        "at byte offset 3 of the value; fix the file, or give --encoding-errors replace."
    )


@pytest.mark.parametrize("errors", ["strict", "replace"])
def test_files_in_other_encodings_are_reported(working_folder: Path, errors: str) -> None:
    (working_folder / "a.txt").write_bytes("some words\n".encode("utf-16"))
    assert error_message("a.txt", encoding_errors=errors) == (
        "CORPUS requires text in UTF-8, but 'a.txt' begins like a UTF-16 file; convert it to UTF-8."
    )
    (working_folder / "a.jsonl").write_bytes(gzip.compress(b"{}"))
    assert error_message("a.jsonl", encoding_errors=errors).endswith(
        "a gzip file; add the ending .gz to its name."
    )


@pytest.mark.parametrize(
    "line", ["{'text': 1}", '{"text": "x"', "x" * 9, '{"n": ' + "1" * 5_000 + "}", "[" * 10**5]
)
def test_invalid_json(working_folder: Path, line: str) -> None:
    (working_folder / "a.jsonl").write_text('{"text": "x"}\n\n' + line + "\n", encoding="utf-8")
    words = error_message("a.jsonl")
    assert words.startswith(
        "a.jsonl:3: CORPUS requires one JSON object per line, but this line is not valid JSON ("
    )
    assert words.endswith("); fix the line.")


@pytest.mark.parametrize(
    ("line", "kind"),
    [("[1]", "an array"), ("1.5", "a number"), ('"x"', "a string"), ("null", "null"), ("true", "a boolean")],
)
def test_a_line_that_is_not_an_object(working_folder: Path, line: str, kind: str) -> None:
    (working_folder / "a.jsonl").write_text(line, encoding="utf-8")
    assert error_message("a.jsonl") == (
        'a.jsonl:1: CORPUS requires one JSON object per line, such as {"text": "..."}, '
        f"got {kind}; fix the line."
    )


def test_a_line_without_the_field(working_folder: Path) -> None:
    (working_folder / "a.jsonl").write_text('{"text": "x"}\n{"id": 1, "texts": "y"}\n', encoding="utf-8")
    assert error_message("a.jsonl") == (
        "a.jsonl:2: the line has no field 'text' (its fields: 'id', 'texts'); "
        "name the field that holds the text with --field. Did you mean 'texts'?"
    )
    (working_folder / "b.jsonl").write_text("{}", encoding="utf-8")
    assert "(its fields: none)" in error_message("b.jsonl")


@pytest.mark.parametrize(("value", "kind"), [("1", "a number"), ("[]", "an array"), ("{}", "an object")])
def test_a_field_that_is_not_a_string(working_folder: Path, value: str, kind: str) -> None:
    (working_folder / "a.jsonl").write_text(f'{{"text": {value}}}\n', encoding="utf-8")
    assert error_message("a.jsonl") == (
        "a.jsonl:1: --field 'text' requires a string (or null, which counts as blank), "
        f"got {kind}; name a field that holds text."
    )


def test_a_missing_column(working_folder: Path) -> None:
    pq.write_table(pa.table({"id": [1], "texts": ["x"]}), working_folder / "a.parquet")
    assert error_message("a.parquet") == (
        "'a.parquet' has no column 'text' (its columns: 'id', 'texts'); "
        "name the column that holds the text with --column. Did you mean 'texts'?"
    )
    assert error_message("a.parquet", column="id") == (
        "--column 'id' requires strings, but in 'a.parquet' it is of type int64; name a column that holds text."
    )


def test_every_file_of_a_glob_is_checked_at_once(working_folder: Path) -> None:
    (working_folder / "a.txt").write_text("x\n", encoding="utf-8")
    pq.write_table(pa.table({"body": ["x"]}), working_folder / "b.parquet")
    with pytest.raises(InputError, match=r"'b\.parquet' has no column 'text'"):
        open_corpus("*")


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-9], lambda data: b"plain", lambda data: data[:99] + b"\0" * 99]
)
def test_a_damaged_gzip_file(working_folder: Path, spoil: object) -> None:
    packed = gzip.compress(os.urandom(2_000).hex().encode())
    (working_folder / "a.txt.gz").write_bytes(spoil(packed))  # type: ignore[operator]
    words = error_message("a.txt.gz")
    assert words.startswith("CORPUS requires a complete gzip file, but 'a.txt.gz' is damaged or truncated (")
    assert words.endswith("); download or compress it again.")


@pytest.mark.parametrize("cut", [slice(-20), slice(20, None), slice(0), slice(4)])
def test_a_damaged_parquet_file(working_folder: Path, cut: slice) -> None:
    pq.write_table(pa.table({"text": ["some words"] * 99}), working_folder / "a.parquet")
    (working_folder / "a.parquet").write_bytes((working_folder / "a.parquet").read_bytes()[cut])
    words = error_message("a.parquet")
    assert words.startswith("CORPUS requires a complete Parquet file, but 'a.parquet' could not be read (")
    assert words.endswith("); download or write it again.")
    assert "\n" not in words


def test_a_deleted_or_unreadable_file(working_folder: Path) -> None:
    (working_folder / "a.txt").write_text("x\n", encoding="utf-8")
    corpus = open_corpus("a.txt")
    (working_folder / "a.txt").unlink()
    with pytest.raises(InputError, match=r"CORPUS 'a.txt' could not be read \(No such file or directory\); check"):
        scan(corpus)


FRAME = pd.DataFrame({"lang": ["en", "fr", "de"], "text": ["one", "deux", None], "n": [1, 2, 3]})


def test_a_frame_is_not_read_as_the_names_of_its_columns() -> None:
    assert error_message(FRAME) == (
        "corpus is a DataFrame with the columns 'lang', 'text', 'n'; give that of the texts, frame['text']."
    )
    assert error_message(pd.DataFrame({"doc": ["a"], 0: ["b"]})) == (
        "corpus is a DataFrame with the columns 'doc', 0; give one of them, such as frame['doc'], or name it with "
        "--column."
    )
    assert error_message(FRAME.head(0), by="lang") == "corpus is an empty DataFrame: give at least one document."
    assert error_message(FRAME, column="txt") == (
        "the DataFrame has no column 'txt' (its columns: 'lang', 'text', 'n'); name the column that holds the "
        "text with --column. Did you mean 'text'?"
    )
    assert "field 'n' requires a string" in error_message(FRAME, column="n")


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_a_missing_value_of_a_series(missing: object) -> None:
    assert error_message(pd.Series(["a", missing], dtype=object)) == (
        f"corpus requires strings, but document 1 of the Series is missing ({missing}); remove missing values "
        "with .dropna()."
    )


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (["a", 1], "corpus requires strings, but document 1 of the list is of type int; convert or remove it."),
        ([None], "corpus requires strings, but document 0 of the list is of type NoneType;"),
        ([{"text": "a"}], "document 0 of the list is of type dict; give the text of each, such as [row['text']"),
        ([{"text": "a"}], "Dicts are read only with by='FIELD', or with a --column other than 'text'."),
        ({"a"}, "strings in a fixed order (got a value of type set); give a list of strings."),
        ({"a": "b"}, "(got a value of type dict);"),
        (b"a", "(got a value of type bytes);"),
        (3, "(got a value of type int);"),
    ],
)
def test_values_that_are_not_documents(what: Iterable[str], words: str) -> None:
    assert words in error_message(what)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"sample": 0.0},
            "--sample requires a fraction above 0 and at most 1 (got 0.0); for one document in ten",
        ),
        ({"sample": 1.5}, "(got 1.5)"),
        ({"sample": float("nan")}, "(got nan)"),
        ({"limit": 0}, "--limit requires an integer of at least 1 (got 0); omit it for no limit."),
        ({"limit": 2.5}, "(got 2.5)"),
        ({"min_words": -1}, "--min-words requires an integer of at least 0 (got -1)"),
        ({"max_words": 1}, "--max-words requires an integer of at least 2 (got 1)"),
        (
            {"min_words": 5, "max_words": 5},
            "--min-words 5 and --max-words 5 contradict each other: no document has at least 5 and fewer than 5 "
            "words; give a --min-words below --max-words.",
        ),
        ({"encoding_errors": "ignore"}, "--encoding-errors requires 'strict' or 'replace' (got 'ignore');"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, object], words: str) -> None:
    assert words in error_message(["a"], **options)
