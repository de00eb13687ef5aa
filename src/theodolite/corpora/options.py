"""Options of corpora: which field holds the text, which documents or files are kept."""

from collections.abc import Collection
from dataclasses import dataclass

from theodolite.corpora.chat import FIELD
from theodolite.errors import InputError

TOP = 32
"""Groups by a field of the corpus, by default."""


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """Which field or column holds the text, and which documents are kept.

    A document of w words (counted as `str.split` does) is kept if min_words <= w < max_words. `sample` keeps that
    fraction of the documents, each by a hash of (seed, document number); `limit` keeps the first `limit` of the
    documents that pass all other filters.
    """

    field: str = "text"
    column: str = "text"
    min_words: int | None = None
    max_words: int | None = None
    sample: float | None = None
    seed: int = 0
    limit: int | None = None
    encoding_errors: str = "strict"
    target: str | None = None  # the field or column of the label, where documents have one
    chat: bool = False  # documents are lists of messages
    by: str | None = None  # the field or column whose values group the documents

    def __post_init__(self) -> None:
        if self.chat and self.target is not None:
            raise InputError(f"--chat and --target '{self.target}' cannot be combined. Omit one of them.")
        _check_at_least("--min-words", self.min_words, 0)
        # A blank text is not a document, so "fewer than 1 word" would keep nothing.
        _check_at_least("--max-words", self.max_words, 2)
        _check_at_least("--limit", self.limit, 1)
        self._check_words()
        if self.sample is not None and not 0 < self.sample <= 1:  # written this way, NaN fails too
            raise InputError(
                f"--sample requires a fraction above 0 and at most 1 (got {self.sample!r}); "
                "for one document in ten give 0.1."
            )
        if self.encoding_errors not in ("strict", "replace"):
            raise InputError(
                f"--encoding-errors requires 'strict' or 'replace' (got {self.encoding_errors!r}); "
                "'replace' puts U+FFFD in place of bytes that are not UTF-8."
            )

    def find_field(self, present: Collection[str]) -> str:
        """Return which of the fields of a .jsonl file contains the document."""
        return self._find(self.field, present)

    def find_column(self, present: Collection[str]) -> str:
        """Return which of the columns of a .parquet file or a dataset contains the document."""
        return self._find(self.column, present)

    def _find(self, name: str, present: Collection[str]) -> str:
        """Conversations are in `messages`, or in the default "text" if only that is there."""
        by_default = self.chat and name == "text" and (FIELD in present or name not in present)
        return FIELD if by_default else name

    def _check_words(self) -> None:
        """Reject bounds that no document can meet."""
        if self.min_words is None or self.max_words is None or self.min_words < self.max_words:
            return
        raise InputError(
            f"--min-words {self.min_words} and --max-words {self.max_words} contradict each other: no document "
            f"has at least {self.min_words} and fewer than {self.max_words} words; "
            "give a --min-words below --max-words."
        )


def _check_at_least(option: str, value: int | None, least: int) -> None:
    """Reject a number that is not an integer or is below the minimum."""
    if value is None or (isinstance(value, int) and value >= least):
        return
    raise InputError(f"{option} requires an integer of at least {least} (got {value!r}); omit it for no limit.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaOptions:
    """Which files are kept.

    `sample` keeps that fraction of the files, each by a hash of (seed, file number), and `limit` the first `limit`
    of the usable ones, as for text. With `skip_bad`, files that cannot be used are skipped and counted; without
    it, the first of them is an error.
    """

    sample: float | None = None
    seed: int = 0
    limit: int | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        CorpusOptions(sample=self.sample, seed=self.seed, limit=self.limit)  # the same bounds and messages
