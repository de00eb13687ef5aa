"""Skipped input: documents that raise an error, and shards that no worker survives, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from theodolite.storage.files import read_json, write_json
from theodolite.storage.location import Location

FILE = "left-out.json"
SHOWN = 3


@dataclass(frozen=True, slots=True)
class SkippedDocument:
    """A document that raises an error on every machine."""

    shard: int
    document: int  # its number in the corpus
    name: str  # file name, or start of the text
    reason: str


@dataclass(frozen=True, slots=True)
class SkippedShard:
    """A shard that was skipped completely."""

    shard: int
    documents: int
    reason: str


@dataclass
class Skipped:
    """All skipped documents and shards; stored in a file for resumed runs."""

    by_document: dict[tuple[int, int], SkippedDocument] = field(default_factory=dict)  # by shard and document
    shards: dict[int, SkippedShard] = field(default_factory=dict)  # by index

    def __bool__(self) -> bool:
        return bool(self.by_document or self.shards)

    @property
    def documents(self) -> int:
        """Number of skipped documents."""
        return len(self.by_document) + sum(lost.documents for lost in self.shards.values())

    def add(self, skipped: Iterable[SkippedDocument]) -> None:
        """Skip these documents from now on."""
        self.by_document |= {(each.shard, each.document): each for each in skipped}

    def without(self, shard: int, documents: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """Return the documents of a shard that are not skipped."""
        return [numbered for numbered in documents if (shard, numbered[0]) not in self.by_document]

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return all as plain values for JSON."""
        return {
            "documents": [asdict(each) for _, each in sorted(self.by_document.items())],
            "shards": [asdict(lost) for _, lost in sorted(self.shards.items())],
        }

    def describe(self) -> str:
        """Return one line with the first few and their reasons."""
        each = [
            *(f"document {p.document} ({p.name}): {p.reason}" for _, p in sorted(self.by_document.items())),
            *(
                f"all of shard {lost.shard}, {lost.documents:,} documents: {lost.reason}"
                for _, lost in sorted(self.shards.items())
            ),
        ]
        more = f"; and {len(each) - SHOWN:,} more, in survey.json" if len(each) > SHOWN else ""
        count = "1 document was" if self.documents == 1 else f"{self.documents:,} documents were"
        return f"{count} skipped: {'; '.join(each[:SHOWN])}{more}"

    def save(self, folder: Location) -> None:
        """Write left-out.json."""
        write_json(folder / FILE, self.to_dict())

    @classmethod
    def load(cls, folder: Location) -> Skipped:
        """Read left-out.json; without it nothing is skipped."""
        if not (folder / FILE).is_file():
            return cls()
        read = read_json(folder / FILE)
        documents = [SkippedDocument(**each) for each in read["documents"]]
        shards = [SkippedShard(**each) for each in read["shards"]]
        made = cls(shards={each.shard: each for each in shards})
        made.add(documents)
        return made
