"""Text corpora: numbered documents that can be read repeatedly."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import filterfalse
from pathlib import Path
from typing import Any

from theodolite.corpora.chat import write_conversation
from theodolite.corpora.fields import FILE, LENGTH, bin_length
from theodolite.corpora.file_search import find_files, find_reader
from theodolite.corpora.filters import KeptDocuments, Tally, filter_documents
from theodolite.corpora.hf_datasets import DatasetName, find_dataset, is_dataset, list_columns, read_dataset
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.text_readers import Labelled, label_of, list_fields, missing_column, read_record
from theodolite.errors import InputError, nearest

TEXTS = 1024  # documents in memory that are processed together


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents from files, from a dataset or from memory.

    A document is a text that is not blank. Documents are numbered from 0 across all files, before any filter, so
    that the same documents have the same numbers as lines, JSON, Parquet or a list. Can be pickled.
    """

    name: str
    options: CorpusOptions
    files: tuple[Path, ...] = ()
    texts: tuple[str, ...] = field(default=(), repr=False)
    dataset: DatasetName | None = None

    @property
    def plain(self) -> bool:
        """Whether reading needs only Python, so that a forked process can do it."""
        return self.dataset is None and not any(path.suffix.lower() == ".parquet" for path in self.files)

    def check_columns(self) -> None:
        """Reject the name of a field or column that nothing in this corpus has."""
        endings = {path.name.lower().removesuffix(".gz").rpartition(".")[2] for path in self.files}
        for option, value, read in (
            ("field", self.options.field, "jsonl" in endings),
            ("column", self.options.column, "parquet" in endings or self.dataset is not None),
        ):
            if value != "text" and not read:
                kinds = ".jsonl files" if option == "field" else ".parquet files and datasets"
                raise InputError(
                    f"--{option} '{value}' has no effect on {self.name}: it applies to {kinds} only. Omit it."
                )

    def documents(self) -> Iterator[tuple[int, str]]:
        """Yield (document number, text) of the documents kept, in order, from the start each time."""
        for block in self.blocks(Tally()):
            yield from zip(block.numbers.tolist(), block.texts, strict=True)

    def blocks(self, tally: Tally) -> Iterator[KeptDocuments]:
        """Yield what `documents` does, many at a time, and count in the tally the documents read and removed."""
        kept = False
        for block in filter_documents(self._all_documents(), self.options, tally):
            kept = True
            yield block
        if not kept:
            raise self._none_kept(tally)

    def _all_documents(self) -> Iterator[list[str]]:
        """Yield every document before filters, in non-empty blocks."""
        for start in range(0, len(self.texts), TEXTS):
            if block := _drop_blank(self.texts[start : start + TEXTS]):
                yield self._with_length(block)
        for path in self.files:
            for block in _blocks(path, self.options):
                yield self._with_file(block, path) if self.options.by == FILE else self._with_length(block)
        if self.dataset is not None:
            blocks = filter(None, map(_drop_blank, read_dataset(self.dataset, self.options)))
            yield from map(self._with_length, blocks)

    def _with_file(self, texts: list[str], path: Path) -> list[str]:
        """Return documents whose value is the path of their file below the folder that all files share."""
        root = os.path.commonpath([file.parent for file in self.files])
        name = path.relative_to(root).as_posix()
        return [Labelled(text, label_of(text), name) for text in texts]

    def _with_length(self, texts: list[str]) -> list[str]:
        """Return documents whose value is their length, if that groups them."""
        if self.options.by != LENGTH:
            return texts
        return [Labelled(text, label_of(text), bin_length(len(text))) for text in texts]

    def no_field(self, by: str) -> InputError:
        """Return the error for a field that no document has."""
        found = dict.fromkeys(name for path in self.files for name in list_fields(path, self.options))
        if self.dataset is not None:
            found |= dict.fromkeys(list_columns(self.dataset))
        texts = {self.options.find_field(found), self.options.find_column(found)}
        present = [*(name for name in found if name not in texts), *((FILE,) if self.files else ()), LENGTH]
        return InputError(
            f"--by '{by}': no document of {self.name} has a value in this field. Fields to group by: "
            f"{', '.join(present)}.{nearest(by, present)}"
        )

    def _none_kept(self, tally: Tally) -> InputError:
        if not tally.read:
            return _blank(self.name)
        counts = ", ".join(f"{option} removed {count:,}" for option, count in tally.removed.items())
        return InputError(
            f"CORPUS '{self.name}' has {tally.read:,} documents, of which the filters keep none ({counts}); "
            "relax them."
        )


def open_corpus(
    what: str | Path | Iterable[Any],
    options: CorpusOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> Corpus:
    """Open a corpus: a name of the catalogue, a file, a glob, hf:NAME or strings in memory.

    Checks at once that the files exist and are of a known kind, and reads the first documents of each, so that a
    wrong `field` or `column` is reported early. An iterable is held in memory.

    >>> list(open_corpus(["one", " ", "two words"], CorpusOptions(min_words=2)).documents())
    [(1, 'two words')]
    """
    options = options or CorpusOptions()
    if options.target is not None and not str(what).removesuffix(".gz").endswith((".jsonl", ".parquet")):
        raise InputError(f"--target '{options.target}' requires a .jsonl or .parquet corpus (got {what}).")
    if not isinstance(what, str | Path):
        return _from_memory(what, options)
    if is_dataset(what):
        return _from_dataset(str(what), options)
    corpus = Corpus(str(what), options, files=find_files(what, progress))
    has_documents = [next(_blocks(path, options), None) is not None for path in corpus.files]
    if not any(has_documents):
        raise _blank(corpus.name)
    return corpus


def _from_dataset(what: str, options: CorpusOptions) -> Corpus:
    corpus = Corpus(what, options, dataset=find_dataset(what))
    if next(corpus._all_documents(), None) is None:
        raise _blank(what)
    return corpus


def _from_memory(what: Iterable[Any], options: CorpusOptions) -> Corpus:
    kind, is_missing = type(what).__name__, getattr(what, "isna", None)
    # Sets have no order to number documents by; mappings and bytes would give keys and integers.
    if isinstance(what, bytes | bytearray | Set | Mapping) or not isinstance(what, Iterable):
        raise InputError(
            "corpus requires a path, a name of the catalogue or strings in a fixed order (got a value of type "
            f"{kind}); give a list of strings."
        )
    frame = hasattr(what, "iterrows")  # a DataFrame of pandas: to iterate over it gives the names of its columns
    # For a row in memory, field and column mean the same.
    rows = replace(options, field=options.column if options.field == "text" else options.field)
    texts: tuple[Any, ...] = _read_frame(what, rows) if frame else tuple(what)
    if not texts:
        raise InputError(f"corpus is an empty {kind}: give at least one document.")
    if all(isinstance(each, dict) for each in texts) and _reads_rows(rows, texts[0]):
        texts = tuple(read_record(each, rows, f"document {at}") or "" for at, each in enumerate(texts))
        options = replace(options, field="text", column="text")  # they have had their effect
    elif options.chat:
        written = (write_conversation(each, f"document {index}", "corpus") for index, each in enumerate(texts))
        texts = tuple(text or "" for text in written)
    for index, text in enumerate(texts):
        if isinstance(text, str):
            continue
        wrong = f"corpus requires strings, but document {index} of the {kind} is"
        if isinstance(text, dict):
            raise InputError(
                f"{wrong} of type dict; give the text of each, such as [row['text'] for row in rows]. Dicts are "
                "read only with by='FIELD', or with a --column other than 'text'."
            )
        if is_missing is not None and is_missing().iloc[index]:
            raise InputError(f"{wrong} missing ({text}); remove missing values with .dropna().")
        raise InputError(
            f"{wrong} of type {type(text).__name__}; "
            f"convert or remove it{', or read conversations with --chat' if isinstance(text, list) else ''}."
        )
    name = f"{kind} of {len(texts):,}"
    if not any(_drop_blank(texts)):
        raise _blank(name)
    return Corpus(name, options, texts=texts)


def _read_frame(frame: Any, options: CorpusOptions) -> tuple[dict[str, Any], ...]:
    """Return the rows of a DataFrame, with missing values as None; reject it if no option names a column."""
    columns = list(frame.columns)
    if frame.empty:
        return ()
    if not _reads_rows(options, columns):
        advice = f"give one of them, such as frame[{columns[0]!r}], or name it with --column"
        if "text" in columns:
            advice = "give that of the texts, frame['text']"
        raise InputError(f"corpus is a DataFrame with the columns {', '.join(map(repr, columns))}; {advice}.")
    if (column := options.find_field(columns)) not in columns:
        raise missing_column("the DataFrame", column, [str(name) for name in columns])
    present = frame.astype(object).where(frame.notna(), None)
    return tuple(present.to_dict("records"))


def _reads_rows(options: CorpusOptions, row: Collection[str]) -> bool:
    """Return whether options say that documents are rows with fields.

    With `chat` a dict may also be a message of the only conversation, which is not in a list.
    """
    return options.by is not None or options.field != "text" or (options.chat and options.find_field(row) in row)


def _blocks(path: Path, options: CorpusOptions) -> Iterator[list[str]]:
    """Yield the documents of one file, in non-empty blocks of several hundred."""
    reader = find_reader(path)
    assert reader is not None, f"find_files accepted '{path}'"
    return filter(None, map(_drop_blank, reader(path, options)))


def _drop_blank(texts: Iterable[str | None]) -> list[str]:
    """Return the texts that are not blank."""
    return list(filterfalse(str.isspace, filter(None, texts)))


def _blank(name: str) -> InputError:
    return InputError(
        f"CORPUS '{name}' contains no text: it is empty, or every document is blank. Check that it is the "
        "right one."
    )
