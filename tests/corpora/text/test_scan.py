"""The scan: shards, sha256 and pilot as pure functions of the documents kept."""

import gzip
import random
import tracemalloc
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.corpora import text_readers
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.scan import Scan, scan
from theodolite.corpora.shards import Shard, shard_documents
from theodolite.corpora.text_corpus import open_corpus
from theodolite.errors import InputError
from theodolite.hashing import mix

texts = st.lists(st.text(min_size=1, max_size=9).filter(str.strip), min_size=1, max_size=40)
MIB = 2**20


@given(texts, st.integers(1, 40))
def test_shards_cover_every_document_once(corpus: list[str], shard_chars: int) -> None:
    shards = scan(open_corpus(corpus), shard_chars=shard_chars).shards
    covered = [ordinal for shard in shards for ordinal in range(shard.start, shard.stop)]
    assert covered == list(range(len(corpus)))
    assert [shard.index for shard in shards] == list(range(len(shards)))
    for shard in shards:
        lengths = [len(text) for text in corpus[shard.start : shard.stop]]
        assert sum(lengths[:-1]) < shard_chars, "it closed no later than it should"
        assert sum(lengths) >= shard_chars or shard is shards[-1], "and no earlier"


@given(texts, st.integers(1, 20), st.integers(1, 30), st.randoms(use_true_random=False))
def test_any_split_into_shards_equals_the_corpus(
    corpus: list[str], shard_chars: int, limit: int, chance: random.Random
) -> None:
    opened = open_corpus(corpus, CorpusOptions(limit=limit))
    shards = list(scan(opened, shard_chars=shard_chars).shards)
    chance.shuffle(shards)
    cut = chance.randint(0, len(shards))
    parts = [*shard_documents(opened, shards[:cut]), *shard_documents(opened, shards[cut:])]
    parts.sort(key=lambda part: part[0].index)
    assert [document for _, documents in parts for document in documents] == list(opened.documents())


def test_requested_shards_are_in_order_and_reading_stops_after_the_last(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\nthree\n" + b"x" * 300_000 + b"\n\xff\n")
    opened = open_corpus(path)
    got = list(shard_documents(opened, [Shard(1, 2, 3), Shard(0, 0, 1)]))
    assert got == [(Shard(0, 0, 1), [(0, "one")]), (Shard(1, 2, 3), [(2, "three")])]
    assert list(shard_documents(opened, [])) == []


def test_overlapping_shards_are_rejected() -> None:
    with pytest.raises(ValueError, match="shards must not overlap"):
        list(shard_documents(open_corpus(["a", "b"]), [Shard(0, 0, 2), Shard(1, 1, 2)]))


def test_a_corpus_that_shrank_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    opened = open_corpus(str(path))
    shards = scan(opened).shards
    path.write_text("one\n", encoding="utf-8")
    with pytest.raises(
        InputError, match="now keeps fewer than 2 documents, so it has changed since it was scanned;"
    ):
        list(shard_documents(opened, shards))


def naive_sha256(corpus: list[str]) -> str:
    forms = [text.encode("utf-8", "surrogatepass") for text in corpus]
    return sha256(b"".join(len(form).to_bytes(8, "little") + form for form in forms)).hexdigest()


@given(texts)
def test_sha256_and_counts_equal_their_definition(corpus: list[str]) -> None:
    found = scan(open_corpus(corpus))
    assert found.sha256 == naive_sha256(corpus)
    assert (found.documents, found.read, found.characters) == (len(corpus), len(corpus), len("".join(corpus)))


def test_sha256_depends_on_boundaries_but_not_on_removed_documents() -> None:
    assert scan(open_corpus(["ab", "c"])).sha256 != scan(open_corpus(["a", "bc"])).sha256
    filtered = open_corpus(["a b", "c", "d e"], CorpusOptions(min_words=2))
    assert scan(filtered).sha256 == scan(open_corpus(["a b", "d e"])).sha256


def naive_pilot(corpus: list[str], documents: int, chars: int, per_document: int) -> list[tuple[int, str]]:
    budget = min(chars, max(8_192, len("".join(corpus)) * 0.05))
    ranked = sorted(range(len(corpus)), key=lambda number: int(mix(number)))[:documents]
    chosen: list[tuple[int, str]] = []
    for number in ranked:
        cut = corpus[number][:per_document]
        if chosen and sum(len(text) for _, text in chosen) + len(cut) > budget:
            break
        chosen.append((number, cut))
    return sorted(chosen)


@pytest.mark.parametrize("count", [1, 3, 40, 2_000])
@pytest.mark.parametrize(
    ("documents", "chars", "per_document"), [(300, 32_768, 2_048), (5, 32_768, 100), (300, 50, 80)]
)
def test_the_pilot_is_the_smallest_hashes_within_the_budget(
    count: int, documents: int, chars: int, per_document: int
) -> None:
    chance = random.Random(count)
    corpus = ["x" * chance.randint(1, 4_000) for _ in range(count)]
    found = scan(open_corpus(corpus), pilot_documents=documents, pilot_chars=chars, per_document=per_document)
    assert list(found.pilot) == naive_pilot(corpus, documents, chars, per_document)


def test_the_pilot_is_chosen_across_the_corpus_by_number_only() -> None:
    def pilot(corpus: list[str]) -> list[int]:
        return [number for number, _ in scan(open_corpus(corpus), pilot_documents=100).pilot]

    chosen = pilot(["same length"] * 10_000)
    assert len(chosen) == 100
    assert 35 <= sum(number < 5_000 for number in chosen) <= 65
    assert pilot(["other words"] * 10_000) == chosen, "texts do not matter"
    assert set(pilot(["same length"] * 8_000)) >= {number for number in chosen if number < 8_000}


def test_the_pilot_has_at_least_one_document() -> None:
    found = scan(open_corpus(["x" * 100_000]), per_document=50_000)
    assert [(number, len(text)) for number, text in found.pilot] == [(0, 50_000)]


def peak_of_scan(path: Path) -> tuple[Scan, int]:
    tracemalloc.start()
    try:
        return scan(open_corpus(path)), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LINE = "the quick brown fox jumps over the lazy dog " * 25


def test_memory_is_bounded_on_a_large_gzip_file(tmp_path: Path) -> None:
    lines = 50 * MIB // (len(LINE) + 1) + 1
    with gzip.open(tmp_path / "a.txt.gz", "wb", compresslevel=1) as stream:
        for _ in range(lines):
            stream.write(LINE.encode() + b"\n")
    found, peak = peak_of_scan(tmp_path / "a.txt.gz")
    assert found.documents == lines
    # Two blocks of 256 KiB as bytes and as text, and the pilot's 300 documents of up to 2,048 characters.
    assert peak < 6 * MIB


def test_memory_is_bounded_on_one_large_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, rows = random.Random(0), 20_000
    column = pa.array([chance.randbytes(500).hex() for _ in range(rows)])
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet", row_group_size=rows, use_dictionary=False)
    size = (tmp_path / "a.parquet").stat().st_size
    del column

    def most_held() -> int:
        before = int(pa.total_allocated_bytes())
        documents = open_corpus(tmp_path / "a.parquet").documents()
        return max(int(pa.total_allocated_bytes()) - before for _ in documents)

    assert 0 < most_held() < size / 3
    monkeypatch.setattr(text_readers, "_STREAMED", {})
    assert most_held() > size, "the library's defaults fetch the row group whole"
