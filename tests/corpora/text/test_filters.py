"""Filters against the definition written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.scan import scan
from theodolite.corpora.text_corpus import open_corpus
from theodolite.hashing import mix

texts = st.lists(st.text("ab \u2028\x1c\n", min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=30)
MANY = [f"document {number}" for number in range(9_000)]


def numbers(corpus: list[str], **options: object) -> list[int]:
    return [number for number, _ in open_corpus(corpus, CorpusOptions(**options)).documents()]  # type: ignore[arg-type]


def naive(corpus: list[str], options: CorpusOptions) -> list[tuple[int, str]]:
    """One filter after the other, on everything at once."""
    kept = list(enumerate(corpus))
    if options.sample is not None:
        kept = [(n, text) for n, text in kept if int(mix(options.seed, n)) / 2**64 < options.sample]
    if options.min_words is not None:
        kept = [(n, text) for n, text in kept if len(text.split()) >= options.min_words]
    if options.max_words is not None:
        kept = [(n, text) for n, text in kept if len(text.split()) < options.max_words]
    return kept[: options.limit]


@given(
    texts,
    st.none() | st.integers(0, 2),
    st.none() | st.integers(3, 5),
    st.none() | st.floats(0.2, 1),
    st.integers(-3, 3),
    st.none() | st.integers(1, 9),
)
def test_filters_keep_what_the_definition_keeps(
    corpus: list[str], fewest: int | None, below: int | None, sample: float | None, seed: int, limit: int | None
) -> None:
    options = CorpusOptions(min_words=fewest, max_words=below, sample=sample, seed=seed, limit=limit)
    expected = naive(corpus, options)
    if not expected:
        return
    opened = open_corpus(corpus, options)
    assert list(opened.documents()) == expected
    found = scan(opened)
    assert found.documents == len(expected)
    stopped = limit is not None and len(expected) == limit
    assert found.read == (expected[-1][0] + 1 if stopped else len(corpus))


def test_a_sample_has_the_requested_size() -> None:
    share = len(numbers(MANY, sample=0.2)) / len(MANY)
    assert abs(share - 0.2) < 5 * np.sqrt(0.2 * 0.8 / len(MANY))
    assert numbers(MANY, sample=1.0) == list(range(len(MANY)))


def test_a_sample_depends_on_the_seed_and_on_nothing_but_number_and_seed() -> None:
    kept = numbers(MANY, sample=0.2)
    assert numbers(MANY, sample=0.2, seed=1) != kept
    assert numbers(MANY[::-1], sample=0.2) == kept, "texts do not matter"
    assert numbers(MANY[:5_000], sample=0.2) == [number for number in kept if number < 5_000]
    assert numbers(MANY, sample=0.2, limit=100) == kept[:100]
    assert set(numbers(MANY, sample=0.1)) < set(kept), "a smaller sample lies within a larger"


def test_a_sample_and_the_pilot_are_independent() -> None:
    sampled = open_corpus(MANY, CorpusOptions(sample=0.5))
    pilot = {number for number, _ in scan(open_corpus(MANY)).pilot}
    share = len(pilot & {number for number, _ in sampled.documents()}) / len(pilot)
    assert 0.3 < share < 0.7


@pytest.mark.parametrize(("words", "kept"), [(1, [0, 1, 2]), (2, [1, 2]), (3, [2])])
def test_min_words_is_inclusive(words: int, kept: list[int]) -> None:
    assert numbers(["a", "a b", "a  b\tc"], min_words=words) == kept


@pytest.mark.parametrize(("words", "kept"), [(2, [0]), (3, [0, 1]), (4, [0, 1, 2])])
def test_max_words_is_exclusive(words: int, kept: list[int]) -> None:
    assert numbers(["a", "a b", "a  b\tc"], max_words=words) == kept
