"""The scan: one pass before a survey that decodes every file once, and says what is there and where shards lie."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Generic

from theodolite.hashing import mix
from theodolite.sources.corpus.shards import Shard, ShardCutter
from theodolite.sources.files.corpus import MediaCorpus, Piece, Tally

_BLOCK = 2**20
_LARGEST_SHARE = 20  # one part in twenty: 5%
_GRAIN = 1000  # sizes are counted in whole thousandths, so that shards do not depend on rounding


@dataclass(frozen=True, slots=True)
class MediaScan(Generic[Piece]):
    """What one pass over a corpus of files found.

    `pieces` holds (file number, piece) in order, `shards` runs of them; a piece is a small reference to decode
    later, and a long recording has several of one number. `size` is in seconds (audio) or images. `read` counts
    files before filters, `skipped` names those that cannot be used, with the reason. `sorts` counts kept files by
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
    """Look at every file once; memory is one block of a file and the list of pieces.

    The sha256 is over the kept files in order of name: for each, the length of the name's UTF-8 form and that of
    the file as 8 bytes each, little-endian, then the name and the bytes. A shard closes once it holds
    `shard_size`. The pilot is the pieces of smallest hash of (file number, place among the file's pieces) up to
    where the next would pass 5% of the corpus, within `pilot_least` and `pilot_size`.
    """
    tally, digest, cutter = Tally(), sha256(), ShardCutter(max(1, round(shard_size * _GRAIN)))
    pieces: list[tuple[int, Piece]] = []
    ranked: list[tuple[int, int, float]] = []  # (hash, place in `pieces`, size)
    sorts, labels = Counter[str](), Counter[str]()
    documents = 0
    for number, file, found in corpus.looked(tally):
        _add_file(digest.update, file.name, file.path)
        documents += 1
        sorts[found.sort] += 1
        labels[file.label] += 1
        for ordinal, (piece, size) in enumerate(zip(found.pieces, found.sizes, strict=True)):
            ranked.append((int(mix(number, ordinal)), len(pieces), size))
            pieces.append((number, piece))
            cutter.add(round(size * _GRAIN))
    total = sum(size for _, _, size in ranked)
    budget = min(pilot_size, max(pilot_least, total / _LARGEST_SHARE))
    pilot = _chosen(heapq.nsmallest(max(1, pilot_pieces), ranked), budget)
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
    """Yield each wanted shard with its (file number, piece) pairs, by rising start."""
    for shard in sorted(shards, key=lambda shard: shard.start):
        yield shard, list(found.pieces[shard.start : shard.stop])


def _chosen(ranked: list[tuple[int, int, float]], budget: float) -> list[int]:
    """Return the places up to where the next would pass the budget; the first is taken whatever its size."""
    chosen, held = list[int](), 0.0
    for _, place, size in ranked:
        held += size
        if chosen and held > budget:
            break
        chosen.append(place)
    return chosen


def _add_file(add: Callable[[bytes], None], name: str, path: Path) -> None:
    form = name.encode("utf-8", "surrogateescape")
    add(len(form).to_bytes(8, "little") + path.stat().st_size.to_bytes(8, "little") + form)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            add(block)
