"""A corpus of files: numbered, looked at one by one, each giving pieces that a source can decode."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from theodolite.errors import InputError
from theodolite.sources.corpus.filters import NumberHashes
from theodolite.sources.files.bad import BadFileError
from theodolite.sources.files.finding import MediaFile
from theodolite.sources.files.options import MediaOptions

Piece = TypeVar("Piece")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Look(Generic[Piece]):
    """What looking at a file found: its pieces, the size of each, and a word for the table of counts."""

    pieces: tuple[Piece, ...]
    sizes: tuple[float, ...]
    sort: str


@dataclass(slots=True)
class Tally:
    """How many files were looked at, and those left out: (name, reason)."""

    read: int = 0
    sampled_out: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MediaCorpus(Generic[Piece]):
    """Files of one kind. A file is a document, numbered from 0 in the order of names, before any filter. Pickles.

    `look` decodes a file and returns its pieces: the one that an image is, or the clips into which a recording is
    cut; it raises BadFileError for a file that cannot be used.
    """

    name: str
    kind: Literal["audio", "images"]
    files: tuple[MediaFile, ...] = field(repr=False)
    options: MediaOptions
    look: Callable[[MediaFile], Look[Piece]] = field(repr=False)

    def looked(self, tally: Tally) -> Iterator[tuple[int, MediaFile, Look[Piece]]]:
        """Yield (file number, file, what was found) of the files kept, in order."""
        kept = 0
        hash_of = NumberHashes(self.options.seed)
        for number, file in enumerate(self.files):
            tally.read = number + 1
            if self.options.sample is not None and hash_of(number) >= int(self.options.sample * 2**64):
                tally.sampled_out += 1
                continue
            try:
                found = self.look(file)
            except BadFileError as error:
                if not self.options.skip_bad:
                    raise
                tally.skipped.append((error.name, error.reason))
                continue
            yield number, file, found
            kept += 1
            if kept == self.options.limit:
                return
        if not kept:
            raise self._none_kept(tally)

    def _none_kept(self, tally: Tally) -> InputError:
        bad = "; ".join(f"'{name}' {reason}" for name, reason in tally.skipped[:_NAMED])
        more = f" and {len(tally.skipped) - _NAMED:,} more" if len(tally.skipped) > _NAMED else ""
        return InputError(
            f"CORPUS '{self.name}' has {tally.read:,} files, of which none can be kept: --sample removed "
            f"{tally.sampled_out:,}, {len(tally.skipped):,} cannot be used{f' ({bad}{more})' if bad else ''}."
        )
