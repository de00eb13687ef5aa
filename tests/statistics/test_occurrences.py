"""The units that are sampled depend on the units themselves, not on the order in which they were numbered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from theodolite.batch import Batch
from theodolite.sources.rows import locate_rows
from theodolite.sources.units import Unit, Units
from theodolite.statistics.frame import Frame
from theodolite.statistics.occurrences import Occurrences
from theodolite.statistics.rows import Rows

WORDS = [f"word{number}" for number in range(40)]
FRAME = Frame(torch.zeros(3), contextuality=True, occurrences=(6, 4))


def fold(documents: Sequence[int], units: Units) -> Occurrences:
    """Fold documents in this order, each of 30 words; the vectors depend only on document and position."""
    statistic = Occurrences(FRAME)
    for document in documents:
        rng = np.random.default_rng(document)
        codes = np.array([units.add(Unit(WORDS[at], WORDS[at])) for at in rng.integers(len(WORDS), size=30)])
        states = torch.from_numpy(rng.normal(size=(30, 3))).float()
        where = locate_rows(
            1,
            document=np.full(30, document),
            window=0,
            position=np.arange(30),
            unit=codes,
            context=np.arange(30, dtype=np.uint64),
            units=units,
        )
        statistic.update(Rows.of(Batch(0, states, where), FRAME))
    return statistic


def chosen(statistic: Occurrences, units: Units) -> dict[str, list[list[float]]]:
    """Return the vectors of each sampled word, sorted."""
    rows = statistic.population(range(len(statistic.cells)))
    found: dict[str, list[list[float]]] = {}
    for code, vector in zip(rows["unit"].tolist(), rows["vector"].tolist(), strict=True):
        found.setdefault(units.known[code].key, []).append(vector)
    return {word: sorted(vectors) for word, vectors in found.items()}


@given(order=st.permutations(range(8)), cut=st.integers(0, 8))
@settings(derandomize=True)
@pytest.mark.parametrize("kind", ["word", "label"])
def test_any_order_and_any_split_of_the_documents_chooses_the_same(kind: str, order: list[int], cut: int) -> None:
    units = Units(kind)
    whole = chosen(fold(range(8), units), units)
    assert len(whole) == 6
    other = Units(kind)
    assert chosen(fold(order, other), other) == whole
    mine, theirs = Units(kind), Units(kind)
    first, second = fold(order[:cut], mine), fold(order[cut:], theirs)
    second.recode(torch.tensor([mine.add(unit) for unit in theirs.known], dtype=torch.int64))
    first.merge(second)
    assert chosen(first, mine) == whole


def test_states_of_older_versions_are_hashed_by_code() -> None:
    units = Units("word")
    statistic = fold(range(3), units)
    old = {name: values for name, values in statistic.state().items() if not name.endswith(".hash")}
    restored = Occurrences.restore(FRAME, old)
    assert set(restored.state()) == set(statistic.state())


def test_codes_that_do_not_depend_on_the_order_need_no_hash() -> None:
    units = Units("id", [Unit(word, word) for word in WORDS])
    where = locate_rows(
        1,
        document=np.zeros(2, dtype=np.int64),
        window=0,
        position=np.arange(2),
        unit=np.array([3, 5]),
        context=np.arange(2, dtype=np.uint64),
        units=units,
    )
    assert where.unit_hash is None


def test_hashes_follow_units_that_are_forgotten_or_replaced() -> None:
    units = Units("word", [Unit(word, word) for word in "abc"])
    before = units.hash_keys(np.arange(3))
    units.forget(2)
    units.add(Unit("d", "d"))
    units.replace(0, Unit("c", "c"))
    after = units.hash_keys(np.arange(3))
    assert after[0] == before[2]
    assert after[1] == before[1]
    assert after[2] not in before
