"""Groups of documents by a field of the corpus: the values are counted first, and the most frequent are kept."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from theodolite.corpora.options import TOP
from theodolite.errors import InputError
from theodolite.text import encodable, pluralize

LENGTH, FILE = "length", "file"
"""Fields that every text corpus has: characters of the document in powers of two, and the name of its file."""
OTHER, MISSING = "(other)", "(missing)"
"""The groups of the values that are not among the most frequent, and of documents without a value."""
MOST_DISTINCT = 1_000_000
LONGEST = 200  # characters of a value
NUMBER_BINS = 8
"""Groups of about equal size into which numbers are binned if they have too many different values."""
SAMPLED = 2**16  # numbers from which the edges of the bins are computed

Value = str | float | None


def to_value(given: object, name: str) -> Value:
    """Return a value of a field as a text or a number, None if it is missing; reject anything else.

    >>> to_value(True, "spam"), to_value(" ", "language"), to_value(1999.0, "year"), to_value(None, "year")
    ('true', None, 1999.0, None)
    """
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(given, bytes | list | dict | tuple | np.ndarray):
        raise InputError(
            f"--by '{name}' requires texts or numbers, but a document has a value of type {type(given).__name__}. "
            "Name another field."
        )
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, int | float):
        return None if math.isnan(given) else given
    text = "" if given is None else str(given)  # dates too
    if len(text) > LONGEST:
        raise InputError(
            f"--by '{name}': a document has a value of {len(text):,} characters ('{text[:40]}...'). A group has a "
            f"name of at most {LONGEST}. Name another field."
        )
    return None if not text or text.isspace() else encodable(text)


def bin_length(characters: int) -> str:
    """Return the name of the power of two that a length is in.

    >>> bin_length(1), bin_length(300)
    ('1', '256 to 511')
    """
    low = 1 << max(characters.bit_length() - 1, 0)
    return str(low) if low == 1 else f"{low} to {2 * low - 1}"


def _name(value: Value) -> str:
    """Return the name of a value; whole numbers have no decimals."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return MISSING if value is None else str(value)


@dataclass(frozen=True)
class FieldChoice:
    """The groups of documents by one field, numbered from the most frequent, then (other) and (missing)."""

    field: str
    names: tuple[str, ...]
    documents: tuple[int, ...]  # of each group
    distinct: int  # different values, including those in (other)
    edges: tuple[float, ...] | None = None  # between the bins of numbers; None: every value is its own group
    matrices: int = 0  # groups with a matrix of second moments, from the first
    unit_rows: int = 0  # rows of sums by group and unit that each layer may keep
    sha256: str = ""  # of the values of all documents, in order

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self.names)}

    @cached_property
    def _bin_names(self) -> list[str]:
        return name_bins(self.edges or ())

    def name_of(self, value: Value) -> str:
        """Return the group of a value: a name of `names`."""
        if self.edges is not None and isinstance(value, int | float):
            return self._bin_names[bisect_right(self.edges, value)]
        name = _name(value)
        return name if name in self._codes or value is None else OTHER

    def code(self, value: Value) -> int:
        """Return the number of the group of a value."""
        name = self.name_of(value)
        if name not in self._codes:
            raise InputError(
                f"--by '{self.field}': the value {_name(value)!r} was not there when the values were counted, so "
                "the corpus has changed; restore it, or start a new survey."
            )
        return self._codes[name]

    def codes(self, values: Iterable[Value]) -> NDArray[np.int64]:
        """Return the numbers of the groups of values. (values,)"""
        return np.array([self.code(value) for value in values], dtype=np.int64)

    @property
    def shown(self) -> list[int]:
        """The numbers of the groups in the order to show them: numbers by size, others by frequency."""
        sizes = (
            {name: float(place) for place, name in enumerate(self._bin_names)} if self.edges is not None else {}
        )
        if self.edges is None:
            for name in (name for name in self.names if name not in (OTHER, MISSING)):
                if (size := _leading_number(name)) is None:
                    return list(range(len(self)))
                sizes[name] = size
        return sorted(range(len(self)), key=lambda code: sizes.get(self.names[code], math.inf))

    def to_dict(self) -> dict[str, Any]:
        """Return what survey.json records."""
        groups = [
            {"name": name, "documents": documents}
            for name, documents in zip(self.names, self.documents, strict=True)
        ]
        return {
            "field": self.field,
            "groups": groups,
            "distinct": self.distinct,
            "edges": None if self.edges is None else list(self.edges),
            "matrices": self.matrices,
            "unit_rows": self.unit_rows,
            "sha256": self.sha256,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Return the choice that survey.json records."""
        groups, edges = facts["groups"], facts["edges"]
        return cls(
            facts["field"],
            tuple(group["name"] for group in groups),
            tuple(group["documents"] for group in groups),
            facts["distinct"],
            None if edges is None else tuple(edges),
            facts["matrices"],
            facts.get("unit_rows", 0),  # older surveys have none
            facts["sha256"],
        )

    def describe(self, noun: str = "document") -> list[str]:
        """Return what a user should know: documents without a value, values without a group, bins."""
        documents, counts = sum(self.documents), dict(zip(self.names, self.documents, strict=True))
        notes = []
        if missing := counts.get(MISSING, 0):
            notes.append(
                f"--by {self.field}: {missing:,} of {pluralize(documents, noun)} have no value and are the "
                f"group {MISSING}"
            )
        if self.edges is not None:
            notes.append(
                f"--by {self.field}: its numbers are in {pluralize(len(self.edges) + 1, 'group')} of about equal "
                "size, since it has more different values than --by-top"
            )
        elif OTHER in counts:
            kept = len(self) - 1 - (MISSING in counts)
            notes.append(
                f"--by {self.field} has {self.distinct:,} different values: the {kept} most frequent are groups, "
                f"the others ({pluralize(counts[OTHER], noun)}) are together in {OTHER}. Change the number "
                "with --by-top"
            )
        if len(self) == 1:
            notes.append(f"--by {self.field} has one value ({self.names[0]}), so there is nothing to compare")
        return notes


def _leading_number(name: str) -> float | None:
    """Return the number that a name is, or starts with if it is a bin of lengths; None if it is none."""
    low, _, high = name.partition(" to ")
    try:
        return float(low) if not high or high.isdigit() else None
    except ValueError:
        return None


def name_bins(edges: Sequence[float]) -> list[str]:
    """Return the names of the bins between edges, with enough digits to distinguish the edges.

    >>> name_bins([0.5, 2.0])
    ['below 0.5', '0.5 to 2', '2 or more']
    """
    if not edges:
        return ["all numbers"]
    digits = next(
        (digits for digits in range(4, 17) if len({f"{edge:.{digits}g}" for edge in edges}) == len(edges)), 17
    )
    shown = [f"{edge:.{digits}g}" for edge in edges]
    return [
        f"below {shown[0]}",
        *(f"{a} to {b}" for a, b in pairwise(shown)),
        f"{shown[-1]} or more",
    ]


class FieldCounter:
    """Counts the values of a field in one pass. Memory: one entry per different value, at most a million.

    >>> counter = FieldCounter("language", top=1)
    >>> counter.add(["en", "en", "fr", None])
    >>> counter.choose().names
    ('en', '(other)', '(missing)')
    """

    def __init__(self, field: str, top: int = TOP) -> None:
        self.field, self.top = field, top
        self._counts = Counter[Value]()
        self._numbers: list[float] = []  # every `_stride`-th number
        self._stride, self._seen = 1, 0  # numbers seen
        self._texts = False
        self._digest = sha256()

    def add(self, values: Iterable[Value]) -> None:
        """Count the values of documents, in order."""
        found = list(values)
        self._counts.update(found)
        self._digest.update("".join(f"{value!r}\n" for value in found).encode("utf-8", "surrogatepass"))
        self._texts = self._texts or any(isinstance(value, str) for value in found)
        if not self._texts:
            self._sample([value for value in found if isinstance(value, int | float)])
        if len(self._counts) > MOST_DISTINCT:
            raise InputError(
                f"--by '{self.field}' has more than {MOST_DISTINCT:,} different values, too many to count. Name a "
                "field with fewer."
            )

    def _sample(self, numbers: Sequence[float]) -> None:
        first = -self._seen % self._stride
        self._numbers += numbers[first :: self._stride]
        self._seen += len(numbers)
        while len(self._numbers) > SAMPLED:
            self._numbers, self._stride = self._numbers[::2], 2 * self._stride

    def choose(self) -> FieldChoice:
        """Return the groups."""
        missing = self._counts.get(None, 0)
        counts = Counter[str]()
        for value, count in self._counts.items():
            if value is not None:
                counts[_name(value)] += count  # 1999 and 1999.0 are the same
        distinct, edges = len(counts), None
        if not self._texts and distinct > self.top:
            edges = _quantiles(self._numbers, min(NUMBER_BINS, self.top))
            choice = FieldChoice(self.field, (), (), distinct, edges)
            by_bin = Counter[str]()
            for value, count in self._counts.items():
                if value is not None:
                    by_bin[choice.name_of(value)] += count
            counts = by_bin
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        groups, rest = ordered[: self.top], sum(count for _, count in ordered[self.top :])
        groups += [(OTHER, rest)] * (rest > 0) + [(MISSING, missing)] * (missing > 0)
        return FieldChoice(
            self.field,
            tuple(name for name, _ in groups),
            tuple(count for _, count in groups),
            distinct,
            edges,
            sha256=self._digest.hexdigest(),
        )

    @property
    def has_values(self) -> bool:
        """Whether any document has a value."""
        return any(value is not None for value in self._counts)


def _quantiles(numbers: Sequence[float], bins: int) -> tuple[float, ...]:
    """Return the edges between bins of about equal size; fewer if many numbers are equal."""
    edges = np.unique(np.quantile(np.array(numbers, dtype=np.float64), np.arange(1, bins) / bins))
    return tuple(edges[edges > min(numbers)].tolist())


class JoinedChoice(NamedTuple):
    """The groups of two surveys together, and the number in it of each of their groups."""

    choice: FieldChoice
    first: list[int]
    second: list[int]


def join_choices(first: FieldChoice, second: FieldChoice, *, same_corpus: bool = False) -> JoinedChoice:
    """Return the groups of two surveys together.

    A value has a group only if both surveys know all of its documents: a survey that has it in (other) does not.
    `same_corpus` says that both counted the same documents, of which they surveyed different parts.
    """
    if first.edges != second.edges:
        raise InputError(
            f"--by '{first.field}': the numbers are in different bins, which depend on the corpus. Survey the "
            "corpora as one, or write the bins into the field as texts."
        )

    def complete(name: str) -> bool:
        return all(name in choice.names or OTHER not in choice.names for choice in (first, second))

    counts = Counter[str]()
    for choice in (first,) if same_corpus else (first, second):
        for name, documents in zip(choice.names, choice.documents, strict=True):
            counts[name if name == MISSING or complete(name) else OTHER] += documents
    last = {OTHER: 1, MISSING: 2}
    names = sorted(counts, key=lambda name: (last.get(name, 0), -counts[name], name))
    codes = [
        [names.index(name if name == MISSING or complete(name) else OTHER) for name in choice.names]
        for choice in (first, second)
    ]
    joined = FieldChoice(
        first.field,
        tuple(names),
        tuple(counts[name] for name in names),
        max(first.distinct, second.distinct),
        first.edges,
        min(first.matrices, second.matrices),
        min(first.unit_rows, second.unit_rows),
        first.sha256 if same_corpus else sha256(f"{first.sha256} {second.sha256}".encode()).hexdigest(),
    )
    return JoinedChoice(joined, *codes)
