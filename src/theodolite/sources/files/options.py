"""What a user can say about a corpus of files besides its name."""

from dataclasses import dataclass

from theodolite.sources.corpus.options import CorpusOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaOptions:
    """Which files are kept.

    `sample` keeps that fraction of the files, each by a hash of (seed, file number), and `limit` the first so many
    of those that can be used, as for text. With `skip_bad` files that cannot be used are left out and counted;
    without, the first of them is an error.
    """

    sample: float | None = None
    seed: int = 0
    limit: int | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        CorpusOptions(sample=self.sample, seed=self.seed, limit=self.limit)  # the same bounds, the same words
