"""What was left out: documents that raise, and shards that no worker survives, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from theodolite.surveys.files import read_json, write_json
from theodolite.surveys.storage import Place

FILE = "left-out.json"
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Poison:
    """A document that raises wherever it is read."""

    shard: int
    document: int  # its number in the corpus
    name: str  # the file's name, or how the text begins
    reason: str


@dataclass(frozen=True, slots=True)
class LostShard:
    """A shard that was given up whole."""

    shard: int
    documents: int
    reason: str


@dataclass
class LeftOut:
    """All of them; kept in a file, so that a run that is taken up knows what its sums lack."""

    poisons: dict[tuple[int, int], Poison] = field(default_factory=dict)  # by shard and document
    shards: dict[int, LostShard] = field(default_factory=dict)  # by index

    def __bool__(self) -> bool:
        return bool(self.poisons or self.shards)

    @property
    def documents(self) -> int:
        """How many documents are missing."""
        return len(self.poisons) + sum(lost.documents for lost in self.shards.values())

    def add(self, poisons: Iterable[Poison]) -> None:
        """Leave these documents out from now on."""
        self.poisons |= {(poison.shard, poison.document): poison for poison in poisons}

    def without(self, shard: int, documents: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """Return the documents of a shard that may be folded."""
        return [numbered for numbered in documents if (shard, numbered[0]) not in self.poisons]

    def listed(self) -> dict[str, list[dict[str, Any]]]:
        """Return them as JSON has them."""
        return {
            "documents": [asdict(poison) for _, poison in sorted(self.poisons.items())],
            "shards": [asdict(lost) for _, lost in sorted(self.shards.items())],
        }

    def told(self) -> str:
        """Say in one line which they are and why."""
        each = [
            *(f"document {p.document} ({p.name}): {p.reason}" for _, p in sorted(self.poisons.items())),
            *(
                f"shard {lost.shard} whole, {lost.documents:,} documents: {lost.reason}"
                for _, lost in sorted(self.shards.items())
            ),
        ]
        more = f"; and {len(each) - SHOWN:,} more, in survey.json" if len(each) > SHOWN else ""
        count = "1 document was" if self.documents == 1 else f"{self.documents:,} documents were"
        return f"{count} left out: {'; '.join(each[:SHOWN])}{more}"

    def save(self, folder: Place) -> None:
        """Write left-out.json."""
        write_json(folder / FILE, self.listed())

    @classmethod
    def load(cls, folder: Place) -> LeftOut:
        """Read left-out.json; nothing is left out where there is none."""
        if not (folder / FILE).is_file():
            return cls()
        read = read_json(folder / FILE)
        poisons = [Poison(**each) for each in read["documents"]]
        shards = [LostShard(**each) for each in read["shards"]]
        made = cls(shards={each.shard: each for each in shards})
        made.add(poisons)
        return made
