"""Documents read in blocks, compared with one by one."""

from __future__ import annotations

from hashlib import sha256
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from theodolite.corpora.filters import Tally, count_words, filter_documents
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.scan import MOST_WORDS, _frame_texts, scan
from theodolite.corpora.shards import ShardCutter
from theodolite.corpora.text_corpus import Corpus, open_corpus
from theodolite.corpora.text_readers import Labelled
from theodolite.hashing import mix

SPACED = st.text(st.sampled_from("ab \t\n\r\x0b\x1c\x85\xa0\u1680\u2003\u3000\u200bé🙂\ud800"), max_size=12)
OPTIONS = st.builds(
    CorpusOptions,
    min_words=st.none() | st.integers(0, 3),
    max_words=st.none() | st.integers(4, 6),
    sample=st.none() | st.sampled_from([0.2, 0.7, 1.0]),
    seed=st.integers(0, 3),
    limit=st.none() | st.integers(1, 9),
)


@given(st.lists(SPACED | st.text(max_size=20), max_size=30))
def test_words_are_counted_as_split_counts_them(texts: list[str]) -> None:
    assert count_words(texts).tolist() == [len(text.split()) for text in texts]


def test_every_white_space_character_separates_words() -> None:
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    assert count_words([f"a{space}b" for space in spaces]).tolist() == [2] * len(spaces)


def one_by_one(texts: list[str], options: CorpusOptions) -> tuple[list[tuple[int, str]], int, dict[str, int]]:
    """The definition of the filters, document by document."""
    kept, removed = list[tuple[int, str]](), dict[str, int]()
    for number, text in enumerate(texts):
        words, why = len(text.split()), None
        if options.sample is not None and int(mix(options.seed, number)) >= int(options.sample * 2**64):
            why = "--sample"
        elif options.min_words is not None and words < options.min_words:
            why = "--min-words"
        elif options.max_words is not None and words >= options.max_words:
            why = "--max-words"
        if why is not None:
            removed[why] = removed.get(why, 0) + 1
            continue
        kept.append((number, text))
        if len(kept) == options.limit:
            return kept, number + 1, removed
    return kept, len(texts), removed


@given(st.lists(SPACED, max_size=40), OPTIONS, st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_filters_of_blocks_equal_filters_of_documents(
    texts: list[str], options: CorpusOptions, sizes: list[int]
) -> None:
    edges = [0, *(end for end in accumulate(sizes) if end < len(texts)), len(texts)]
    tally = Tally()
    blocks = filter_documents((texts[start:stop] for start, stop in pairwise(edges)), options, tally)
    found = [pair for block in blocks for pair in zip(block.numbers.tolist(), block.texts, strict=True)]
    assert (found, tally.read, tally.removed) == one_by_one(texts, options)


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 60), st.integers(1, 12))
def test_shards_of_many_lengths_equal_shards_of_one_length(
    lengths: list[int], shard_chars: int, block: int
) -> None:
    one, many = ShardCutter(shard_chars), ShardCutter(shard_chars)
    for length in lengths:
        one.add(length)
    for start in range(0, len(lengths), block):
        many.add_all(np.array(lengths[start : start + block], dtype=np.int64))
    assert many.finish() == one.finish()


@given(st.lists(SPACED.filter(str.strip), min_size=1, max_size=20))
def test_the_histogram_of_words(texts: list[str]) -> None:
    texts = [*texts, "w " * 300]
    naive = [0] * (MOST_WORDS + 1)
    for text in texts:
        naive[min(len(text.split()), MOST_WORDS)] += 1
    assert list(scan(open_corpus(texts)).words) == naive


def test_labels_and_lone_surrogates_are_hashed() -> None:
    parts = ["plain", "a text", "its label", "\ud800 é"]
    forms = [part.encode("utf-8", "surrogatepass") for part in parts]
    naive = b"".join(len(form).to_bytes(8, "little") + form for form in forms)
    texts = ["plain", Labelled("a text", "its label"), "\ud800 é"]
    assert _frame_texts(texts) == naive
    assert scan(open_corpus(texts)).sha256 == sha256(naive).hexdigest()


def test_blocks_of_files_are_numbered_across_them(tmp_path: Path) -> None:
    for name, text in {"a": "one\n\n \ntwo\r\n", "b": "\n", "c": "three"}.items():
        (tmp_path / f"{name}.txt").write_bytes(text.encode())
    corpus = open_corpus(str(tmp_path / "*.txt"))
    blocks = [(block.numbers.tolist(), block.texts) for block in corpus.blocks(Tally())]
    assert blocks == [([0, 1], ["one", "two"]), ([2], ["three"])]
    assert list(corpus.documents()) == [(0, "one"), (1, "two"), (2, "three")]


def test_lengths_of_every_number_of_bytes_are_hashed() -> None:
    texts = ["x" * length for length in (1, 127, 128, 255, 256, 65_535, 65_536, 300_000)]
    naive = b"".join(len(text).to_bytes(8, "little") + text.encode() for text in texts)
    assert _frame_texts(texts, plain=True) == _frame_texts(texts) == naive
    assert scan(open_corpus(texts)).sha256 == sha256(naive).hexdigest()


def test_only_formats_read_in_pure_python_are_read_in_a_forked_process() -> None:
    plain = CorpusOptions()
    assert Corpus("list", plain, texts=("a",)).plain
    assert Corpus("file", plain, files=(Path("a.txt"), Path("b.jsonl.gz"))).plain
    assert not Corpus("file", plain, files=(Path("a.txt"), Path("b.PARQUET"))).plain
