"""A corpus: numbered documents that can be read again and again."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import filterfalse
from pathlib import Path

from theodolite.errors import InputError
from theodolite.sources.corpus.dataset import DatasetName, find_dataset, is_dataset, read_dataset
from theodolite.sources.corpus.files import find_files, reader_of
from theodolite.sources.corpus.filters import Kept, Tally, keep
from theodolite.sources.corpus.options import CorpusOptions

TEXTS = 1024  # of those in memory, looked at together


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents from files, from a dataset, or from memory where there is neither.

    A document is a text that is not blank; documents are numbered from 0 across all files, before any filter,
    so that the same documents have the same numbers as lines, as JSON, as Parquet and as a list. Pickles.
    """

    name: str
    options: CorpusOptions
    files: tuple[Path, ...] = ()
    texts: tuple[str, ...] = field(default=(), repr=False)
    dataset: DatasetName | None = None

    @property
    def plain(self) -> bool:
        """Say whether reading takes nothing but Python, so that it may go on in a copy of the process."""
        return self.dataset is None and not any(path.suffix.lower() == ".parquet" for path in self.files)

    def documents(self) -> Iterator[tuple[int, str]]:
        """Yield (document number, text) of those kept, in order, from the start each time."""
        for block in self.blocks(Tally()):
            yield from zip(block.numbers.tolist(), block.texts, strict=True)

    def blocks(self, tally: Tally) -> Iterator[Kept]:
        """Yield what `documents` does, many at a time, and leave in the tally how many were read and removed."""
        kept = False
        for block in keep(self._every(), self.options, tally):
            kept = True
            yield block
        if not kept:
            raise self._none_kept(tally)

    def _every(self) -> Iterator[list[str]]:
        """Yield every document before filters, many at a time, never none."""
        for start in range(0, len(self.texts), TEXTS):
            if block := _written(self.texts[start : start + TEXTS]):
                yield block
        for path in self.files:
            yield from _blocks(path, self.options)
        if self.dataset is not None:
            yield from filter(None, map(_written, read_dataset(self.dataset, self.options)))

    def _none_kept(self, tally: Tally) -> InputError:
        if not tally.read:
            return _blank(self.name)
        counts = ", ".join(f"{option} removed {count:,}" for option, count in tally.removed.items())
        return InputError(
            f"CORPUS '{self.name}' has {tally.read:,} documents, of which the filters keep none ({counts}); "
            "loosen them."
        )


def open_corpus(
    what: str | Path | Iterable[str],
    options: CorpusOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> Corpus:
    """Return the corpus that a user means: a name of the catalogue, a file, a glob, hf:NAME, strings in memory.

    Looks at once at whether the files are there and of a known kind, and at the first documents of each, so
    that a wrong `field` or `column` is told now. An iterable is held in memory.

    >>> list(open_corpus(["one", " ", "two words"], CorpusOptions(min_words=2)).documents())
    [(1, 'two words')]
    """
    options = options or CorpusOptions()
    if options.target is not None and not str(what).removesuffix(".gz").endswith((".jsonl", ".parquet")):
        raise InputError(f"--target '{options.target}' wants a .jsonl or .parquet corpus, which {what} is not.")
    if not isinstance(what, str | Path):
        return _from_memory(what, options)
    if is_dataset(what):
        return _from_dataset(str(what), options)
    corpus = Corpus(str(what), options, files=find_files(what, progress))
    begun = [next(_blocks(path, options), None) is not None for path in corpus.files]
    if not any(begun):
        raise _blank(corpus.name)
    return corpus


def _from_dataset(what: str, options: CorpusOptions) -> Corpus:
    corpus = Corpus(what, options, dataset=find_dataset(what))
    if next(corpus._every(), None) is None:
        raise _blank(what)
    return corpus


def _from_memory(what: Iterable[str], options: CorpusOptions) -> Corpus:
    kind = type(what).__name__
    # Sets have no order to number documents by; mappings and bytes would give keys and integers.
    if isinstance(what, bytes | bytearray | Set | Mapping) or not isinstance(what, Iterable):
        raise InputError(
            "corpus wants a path, a name of the catalogue or strings in a fixed order, but a value of type "
            f"{kind} came; give a list of strings."
        )
    texts = tuple(what)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"corpus wants strings, but document {index} of the {kind} is of type {type(text).__name__}; "
                "convert it or leave it out."
            )
    name = f"{kind} of {len(texts):,}"
    if not any(_written(texts)):
        raise _blank(name)
    return Corpus(name, options, texts=texts)


def _blocks(path: Path, options: CorpusOptions) -> Iterator[list[str]]:
    """Yield the documents of one file, some hundreds at a time, never none."""
    reader = reader_of(path)
    assert reader is not None, f"find_files let '{path}' through"
    return filter(None, map(_written, reader(path, options)))


def _written(texts: Iterable[str | None]) -> list[str]:
    """Return the texts that are not blank: documents, wherever they came from."""
    return list(filterfalse(str.isspace, filter(None, texts)))


def _blank(name: str) -> InputError:
    return InputError(
        f"CORPUS '{name}' is empty or blank; wanted at least one document with more than white space in it; "
        "check that it is the right one."
    )
