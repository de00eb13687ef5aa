"""Corpora of media files: find, number, filter and scan files of sound or images.

A document is a reference (a path and a label) until a source decodes it. The scan decodes each file once, so that
files that cannot be used are known by name before a survey starts.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Generic, Literal, TypeVar

from theodolite.corpora.file_search import MediaFile
from theodolite.corpora.filters import NumberHashes
from theodolite.corpora.options import MediaOptions
from theodolite.corpora.shards import Shard, ShardCutter
from theodolite.errors import InputError
from theodolite.hashing import mix


class BadFileError(InputError):
    """One file of a corpus cannot be used; with --skip-bad it is skipped and counted instead.

    >>> print(BadFileError("a/b.wav", "is silent"))
    CORPUS: 'a/b.wav' is silent; fix or remove it, or give --skip-bad to skip and count such files.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"CORPUS: '{name}' {reason}; fix or remove it, or give --skip-bad to skip and count such files."
        )
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[type["BadFileError"], tuple[str, str]]:
        return type(self), (self.name, self.reason)


Piece = TypeVar("Piece")
_SHOWN = 5  # skipped files named in an error


@dataclass(frozen=True, slots=True)
class DecodedFile(Generic[Piece]):
    """The pieces of a file, the size of each, and the category under which the file is counted."""

    pieces: tuple[Piece, ...]
    sizes: tuple[float, ...]
    sort: str


@dataclass(slots=True)
class Tally:
    """Counts of the files read and sampled out, and the skipped files as (name, reason)."""

    read: int = 0
    sampled_out: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MediaCorpus(Generic[Piece]):
    """Files of one kind. A file is a document, numbered from 0 in the order of names, before any filter.

    `decode` reads a file and returns its pieces: one image, or the clips of a recording; it raises BadFileError
    for a file that cannot be used. Can be pickled.
    """

    name: str
    kind: Literal["audio", "images"]
    files: tuple[MediaFile, ...] = field(repr=False)
    options: MediaOptions
    decode: Callable[[MediaFile], DecodedFile[Piece]] = field(repr=False)

    def decode_files(self, tally: Tally) -> Iterator[tuple[int, MediaFile, DecodedFile[Piece]]]:
        """Yield (file number, file, its pieces) of the files kept, in order."""
        kept = 0
        hash_of = NumberHashes(self.options.seed)
        for number, file in enumerate(self.files):
            tally.read = number + 1
            if self.options.sample is not None and hash_of(number) >= int(self.options.sample * 2**64):
                tally.sampled_out += 1
                continue
            try:
                found = self.decode(file)
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
        bad = "; ".join(f"'{name}' {reason}" for name, reason in tally.skipped[:_SHOWN])
        more = f" and {len(tally.skipped) - _SHOWN:,} more" if len(tally.skipped) > _SHOWN else ""
        return InputError(
            f"CORPUS '{self.name}' has {tally.read:,} files, of which none can be used: --sample removed "
            f"{tally.sampled_out:,}, {len(tally.skipped):,} cannot be used{f' ({bad}{more})' if bad else ''}."
        )


_BLOCK = 2**20
_PILOT_SHARE = 20  # at most one twentieth of the corpus: 5%
_GRAIN = 1000  # sizes are counted in thousandths, so that shards do not depend on rounding


@dataclass(frozen=True, slots=True)
class MediaScan(Generic[Piece]):
    """The result of one pass over a corpus of files.

    `pieces` holds (file number, piece) in order, `shards` runs of them; a piece is a small reference to decode
    later, and a long recording has several of one number. `size` is in seconds (audio) or images. `read` counts
    files before filters, `skipped` names the unusable ones with the reason. `sorts` counts kept files by
    sample rate ("16000 Hz") or size ("640x427"), `labels` by label.
    """

    sha256: str
    documents: int
    size: float
    read: int
    pieces: tuple[tuple[int, Piece], ...] = field(repr=False)
    shards: tuple[Shard, ...] = field(repr=False)
    pilot: tuple[tuple[int, Piece], ...] = field(repr=False)
    skipped: tuple[tuple[str, str], ...]
    sorts: dict[str, int]
    labels: dict[str, int]


def scan_media(
    corpus: MediaCorpus[Piece],
    *,
    shard_size: float,
    pilot_size: float,
    pilot_least: float,
    pilot_pieces: int = 300,
) -> MediaScan[Piece]:
    """Decode every file once. Memory: one block of a file and the list of pieces.

    The sha256 is over the kept files in order of name: for each, the length of the name's UTF-8 form and that of
    the file as 8 bytes each, little-endian, then the name and the bytes. A shard ends once it holds
    `shard_size`. The pilot consists of the pieces of smallest hash of (file number, number of the piece) until
    the next would exceed 5% of the corpus, between `pilot_least` and `pilot_size`.
    """
    tally, digest, cutter = Tally(), sha256(), ShardCutter(max(1, round(shard_size * _GRAIN)))
    pieces: list[tuple[int, Piece]] = []
    ranked: list[tuple[int, int, float]] = []  # (hash, place in `pieces`, size)
    sorts, labels = Counter[str](), Counter[str]()
    documents = 0
    for number, file, found in corpus.decode_files(tally):
        _hash_file(digest.update, file.name, file.path)
        documents += 1
        sorts[found.sort] += 1
        labels[file.label] += 1
        for ordinal, (piece, size) in enumerate(zip(found.pieces, found.sizes, strict=True)):
            ranked.append((int(mix(number, ordinal)), len(pieces), size))
            pieces.append((number, piece))
            cutter.add(round(size * _GRAIN))
    total = sum(size for _, _, size in ranked)
    budget = min(pilot_size, max(pilot_least, total / _PILOT_SHARE))
    pilot = _choose_pilot(heapq.nsmallest(max(1, pilot_pieces), ranked), budget)
    return MediaScan(
        sha256=digest.hexdigest(),
        documents=documents,
        size=total,
        read=tally.read,
        pieces=tuple(pieces),
        shards=cutter.finish(),
        pilot=tuple(pieces[place] for place in sorted(pilot)),
        skipped=tuple(tally.skipped),
        sorts=dict(sorted(sorts.items())),
        labels=dict(sorted(labels.items())),
    )


def shard_pieces(
    found: MediaScan[Piece], shards: Sequence[Shard]
) -> Iterator[tuple[Shard, list[tuple[int, Piece]]]]:
    """Yield each of these shards with its (file number, piece) pairs, sorted by start."""
    for shard in sorted(shards, key=lambda shard: shard.start):
        yield shard, list(found.pieces[shard.start : shard.stop])


def _choose_pilot(ranked: list[tuple[int, int, float]], budget: float) -> list[int]:
    """Return the indices of pieces until the next would exceed the budget; the first is kept whatever its size."""
    chosen, total = list[int](), 0.0
    for _, place, size in ranked:
        total += size
        if chosen and total > budget:
            break
        chosen.append(place)
    return chosen


def _hash_file(add: Callable[[bytes], None], name: str, path: Path) -> None:
    form = name.encode("utf-8", "surrogateescape")
    add(len(form).to_bytes(8, "little") + path.stat().st_size.to_bytes(8, "little") + form)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            add(block)
