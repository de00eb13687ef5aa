"""Every format gives the same documents under the same numbers."""

import gzip
import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.scan import scan
from theodolite.corpora.text_corpus import open_corpus
from theodolite.corpora.text_readers import line_blocks

TEXTS = ["one", " two words ", "", "naïve 日本 🜨", " \t ", "NUL \0 and \x0b\x0c\x1c\x85\u2028 stay", "last"]
DOCUMENTS = list(enumerate(text for text in TEXTS if text.strip()))


def write(path: Path, texts: list[str], column: str = "text") -> Path:
    """Write the texts in the format of the file extension."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"id": range(len(texts)), column: texts}), path, row_group_size=2)
        return path
    records = [json.dumps({"id": 1, column: text}) for text in texts] if ".jsonl" in path.name else texts
    data = "".join(record + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path: Path | str, **options: str) -> list[tuple[int, str]]:
    return list(open_corpus(path, CorpusOptions(**options)).documents())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.gz", "a.parquet", "A.TXT"])
def test_every_format_gives_the_same_documents(tmp_path: Path, name: str) -> None:
    corpus = open_corpus(write(tmp_path / name, TEXTS))
    assert list(corpus.documents()) == DOCUMENTS
    assert list(corpus.documents()) == DOCUMENTS, "and again from the start"
    assert scan(corpus).sha256 == scan(open_corpus(TEXTS)).sha256


def test_an_iterator_can_be_read_repeatedly() -> None:
    corpus = open_corpus(iter(TEXTS))
    assert list(corpus.documents()) == list(corpus.documents()) == DOCUMENTS
    assert corpus.name == "list_iterator of 7"


def test_a_corpus_can_be_pickled(tmp_path: Path) -> None:
    corpus = open_corpus(write(tmp_path / "a.txt", TEXTS), CorpusOptions(limit=2))
    assert list(pickle.loads(pickle.dumps(corpus)).documents()) == DOCUMENTS[:2]


def test_a_name_of_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "novels").mkdir()
    monkeypatch.chdir(tmp_path)
    corpus = open_corpus("novels")
    assert corpus.name == "novels"
    assert list(corpus.documents()) == [(0, "call me"), (1, "it was")]


def test_a_glob_is_sorted_and_may_mix_extensions(tmp_path: Path) -> None:
    for name in ["b.txt", "a.parquet", "d.txt.gz", "c.jsonl"]:
        write(tmp_path / name, [name, "x"])
    write(tmp_path / "._b.txt", ["hidden"])
    (tmp_path / "e.txt").write_bytes(b"")
    order = ["a.parquet", "b.txt", "c.jsonl", "d.txt.gz"]
    assert [text for _, text in read(f"{tmp_path}/[a-e].*")] == [text for name in order for text in (name, "x")]
    assert [number for number, _ in read(tmp_path / "*.*")] == list(range(8))


def test_a_glob_descends_into_folders_and_an_existing_name_is_not_a_glob(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "a[1].txt", ["deep"])
    assert read(str(tmp_path / "**" / "*.txt")) == [(0, "deep")]
    assert read(str(tmp_path / "sub" / "a[1].txt")) == [(0, "deep")]


def test_field_and_column(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.jsonl", ["x"], "body"), field="body") == [(0, "x")]
    assert read(write(tmp_path / "a.parquet", ["x"], "bo.dy"), column="bo.dy") == [(0, "x")]


def test_null_is_blank(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": null}\n\n{"text": "x"}\n', encoding="utf-8")
    pq.write_table(pa.table({"text": pa.array([None, "x"], pa.string())}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.jsonl") == read(tmp_path / "a.parquet") == [(0, "x")]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_every_arrow_type_of_strings(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(
        pa.table({"text": pa.array(["x", None, "y", "x"], pa.string()).cast(kind)}), tmp_path / "a.parquet"
    )
    assert read(tmp_path / "a.parquet") == [(0, "x"), (1, "y"), (2, "x")]


def test_a_byte_order_mark_is_dropped_and_windows_line_ends_are_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rstill\r\r\n\r\nno end\r")
    assert read(tmp_path / "a.txt") == [(0, "one"), (1, "two\rstill\r"), (2, "no end\r")]
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "x"}\r\n')
    assert read(tmp_path / "a.jsonl") == [(0, "x")]


def test_invalid_bytes_are_replaced_on_request(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\n\xe6\x97\nok\n")
    assert read(tmp_path / "a.txt", encoding_errors="replace") == [(0, "caf\ufffd"), (1, "\ufffd"), (2, "ok")]
    bad_strings(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", encoding_errors="replace") == [(0, "ok"), (1, "caf\ufffd")]


def bad_strings(path: Path) -> None:
    """Write a column of Arrow strings of which one is not UTF-8, as careless writers do."""
    offsets, data = pa.py_buffer(b"\0\0\0\0\2\0\0\0\2\0\0\0\6\0\0\0"), pa.py_buffer(b"okcaf\xe9")
    column = pa.StringArray.from_buffers(3, offsets, data, pa.py_buffer(b"\5"))
    pq.write_table(pa.table({"text": column}), path)


def test_lone_surrogates_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(r'{"text": "a \ud800"}' + "\n", encoding="utf-8")
    corpus = open_corpus(tmp_path / "a.jsonl")
    assert list(corpus.documents()) == [(0, "a \ud800")]
    assert scan(corpus).characters == 3


@given(
    st.binary(max_size=60).map(lambda raw: bytes(b"\n\r\xc3\xa9a\0\xf0 "[byte % 8] for byte in raw)),
    st.integers(1, 9),
)
def test_lines_do_not_depend_on_the_size_of_blocks(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, block: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    path.write_bytes(raw)
    whole = raw.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    numbered = [
        (first + place, line)
        for first, lines in line_blocks(path, "replace", block)
        for place, line in enumerate(lines)
    ]
    assert numbered == list(enumerate(whole if whole[-1] else whole[:-1], 1))
