"""What a user can say about a corpus besides its name."""

from dataclasses import dataclass

from theodolite.errors import InputError


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """Which field or column holds the text, and which documents are kept.

    A document of w words (as `str.split` counts) is kept if min_words <= w < max_words. `sample` keeps that
    fraction of the documents, each by a hash of (seed, document number); `limit` keeps the first so many
    documents of those that all other filters keep.
    """

    field: str = "text"
    column: str = "text"
    min_words: int | None = None
    max_words: int | None = None
    sample: float | None = None
    seed: int = 0
    limit: int | None = None
    encoding_errors: str = "strict"
    target: str | None = None  # the field or column of a label, where documents have one

    def __post_init__(self) -> None:
        _at_least("--min-words", self.min_words, 0)
        # Blank documents are none, so "fewer than 1 word" would keep nothing.
        _at_least("--max-words", self.max_words, 2)
        _at_least("--limit", self.limit, 1)
        self._check_words()
        if self.sample is not None and not 0 < self.sample <= 1:  # so written, NaN fails too
            raise InputError(
                f"--sample wants a fraction above 0 and at most 1, but {self.sample!r} came; "
                "for one document in ten give 0.1."
            )
        if self.encoding_errors not in ("strict", "replace"):
            raise InputError(
                f"--encoding-errors wants 'strict' or 'replace', but {self.encoding_errors!r} came; "
                "'replace' puts U+FFFD in place of bytes that are not UTF-8."
            )

    def _check_words(self) -> None:
        """Refuse bounds that no document can meet."""
        if self.min_words is None or self.max_words is None or self.min_words < self.max_words:
            return
        raise InputError(
            f"--min-words {self.min_words} and --max-words {self.max_words} contradict each other: no document "
            f"has at least {self.min_words} and fewer than {self.max_words} words; "
            "give a --min-words below --max-words."
        )


def _at_least(option: str, value: int | None, least: int) -> None:
    """Refuse a number that is not whole or below the least that makes sense."""
    if value is None or (isinstance(value, int) and value >= least):
        return
    raise InputError(
        f"{option} wants a whole number of at least {least}, but {value!r} came; leave it out for no such bound."
    )
