"""p-values of differences from a baseline that respect documents.

Numbers of a survey are known without each of 20 groups of documents, whose spread gives standard errors. If both
surveys read the same documents, their groups are the same, and the spread of the differences is used. If not, the
two vary independently. Few groups are why quantiles are those of Student's t: with 20 groups 19 degrees of freedom
for a paired difference, and for independent ones between 19 and 38 (Welch).

The rows of two stores are compared by permutation tests over the sampled vectors that both kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from theodolite.checks.cells import Cell
from theodolite.checks.rules import Rule
from theodolite.checks.subject import STORE, VECTORS, Subject
from theodolite.errors import InputError, nearest
from theodolite.measures.resampling import MIN_GROUPS, group_error
from theodolite.measures.two_samples import Samples
from theodolite.stores.compare import ASPECTS, MIN_LABELLINGS, PERMUTATIONS, ROWS, run_tests
from theodolite.stores.duplicates import hash_contents
from theodolite.stores.scan import Scan
from theodolite.tables.document_groups import BY_UNIT, WITHOUT_UNITS
from theodolite.tables.unit_sets import NEEDED

Array = NDArray[np.float64]
GROUPS = 20
DOCUMENT_COLUMNS = frozenset(
    [*WITHOUT_UNITS, *BY_UNIT, *(f"{prefix}{name}" for prefix in NEEDED for name in (*WITHOUT_UNITS, *BY_UNIT))]
)
"""Columns whose `_se` is over groups of documents."""


class Spread(NamedTuple):
    """The standard errors of numbers over documents, and the number of groups they come from."""

    se: Array | float
    groups: int


def p_of_difference(
    difference: Array | float, ignored: Array | float, se: Array | float, freedom: Array | float
) -> Array:
    """Return the two-sided p-values of differences that exceed what is ignored, by Student's t.

    >>> p_of_difference(np.array([2.0, 1e-9]), 1e-6, np.array([1.0, 0.0]), 1e9).round(3)
    array([0.046, 1.   ])
    """
    excess = np.abs(np.asarray(difference, dtype=np.float64)) - ignored
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stats.t.sf(excess / se, freedom)
    return np.where(excess > 0, p, 1.0)


def combine_spreads(first: Spread, other: Spread) -> tuple[Array, Array]:
    """Return standard errors of the differences of independent numbers, and degrees of freedom (Welch).

    >>> se, freedom = combine_spreads(Spread(3.0, 20), Spread(4.0, 20))
    >>> float(se), round(float(freedom), 1)
    (5.0, 35.2)
    """
    squares = np.square(first.se), np.square(other.se)
    total = squares[0] + squares[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = total**2 / (squares[0] ** 2 / (first.groups - 1) + squares[1] ** 2 / (other.groups - 1))
    fewest = float(min(first.groups, other.groups) - 1)
    return np.sqrt(total), np.where(total > 0, freedom, fewest)


@dataclass
class SurveyTests:
    """Tests of the numbers of two surveys, or of two steps of series."""

    subject: Subject
    baseline: Subject
    paired: bool = field(init=False)
    _estimates: dict[tuple[int, str, str], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = [(one.facts.get("identity") or {}).get("corpus") for one in (self.subject, self.baseline)]
        self.paired = known[0] is not None and known[0] == known[1]

    def fill(self, rule: Rule, cell: Cell, where: str) -> None:
        """Set se and p of a cell; a number that is undefined on one side only is broken at once."""
        if rule.table != "layers" or rule.column not in DOCUMENT_COLUMNS:
            raise InputError(
                f"{where}: {rule.table}.{rule.column} is not known by group of documents, so it cannot be tested; "
                "use absolute or relative."
            )
        if cell.value is None or cell.baseline is None:
            cell.broken = (cell.value is None) != (cell.baseline is None)
            return
        mine, theirs = (self._groups(one, rule, cell) for one in (self.subject, self.baseline))
        if self.paired and mine is not None and theirs is not None and mine.index.equals(theirs.index):
            se, freedom = group_error((mine - theirs).to_numpy(np.float64)), np.asarray(len(mine) - 1.0)
        else:
            spreads = [self._spread(one, rule, cell, where) for one in (self.subject, self.baseline)]
            se, freedom = combine_spreads(*spreads)
        if np.isnan(se):
            self._reject(self.subject, rule, cell, where)
        cell.se = float(se)
        p = p_of_difference(cell.value - cell.baseline, rule.ignore * abs(cell.baseline), se, freedom)
        cell.p = float(p)

    def _groups(self, one: Subject, rule: Rule, cell: Cell) -> pd.Series[Any] | None:
        """Return the number without each group of documents; None if it was not stored."""
        if "jackknife" not in one.tables:
            return None
        key = (id(one), cell.population, rule.column)
        if key not in self._estimates:
            table = one.table("jackknife")
            rows = table[(table["population"] == cell.population) & (table["column"] == rule.column)]
            self._estimates[key] = {
                int(str(layer)): part.set_index("group")["value"] for layer, part in rows.groupby("layer")
            }
        found: pd.Series[Any] | None = self._estimates[key].get(cell.layer)
        return found

    def _spread(self, one: Subject, rule: Rule, cell: Cell, where: str) -> Spread:
        values = self._groups(one, rule, cell)
        if values is not None and len(values) >= MIN_GROUPS:
            return Spread(float(group_error(values.to_numpy(np.float64))), len(values))
        rows = one.table("layers")
        row = rows[(rows["layer"] == cell.layer) & (rows["population"] == cell.population)]
        se = row[f"{rule.column}_se"].iloc[0] if f"{rule.column}_se" in row else np.nan
        if pd.isna(se):
            self._reject(one, rule, cell, where)
        return Spread(float(se), GROUPS)

    def _reject(self, one: Subject, rule: Rule, cell: Cell, where: str) -> None:
        raise InputError(
            f"{where}: {rule.column} has no standard error at layer {cell.layer} of {one.name}, which needs at "
            f"least {MIN_GROUPS} groups of documents. Read more documents, or use absolute or relative."
        )


def compare_vectors(subject: Subject, baseline: Subject) -> pd.DataFrame:
    """Return the tests of the sampled vectors of two stores, one row per aspect, with `p` and `value`.

    Equal vectors count as one document, which may be on both sides; every other row is a document of its own.
    """
    samples = [_sampled_vectors(one) for one in (subject, baseline)]
    vectors = np.concatenate(samples[::-1]).astype(np.float64)
    second = np.repeat([False, True], [len(samples[1]), len(samples[0])])
    _, codes = np.unique(hash_contents(vectors.astype(np.float32)), return_inverse=True)
    if min(map(len, samples)) < np.log2(MIN_LABELLINGS):
        raise InputError(f"{subject.name} and {baseline.name} have too few vectors to test.")
    lengths = np.linalg.norm(vectors, axis=1)
    if baseline.facts["settings"]["metric"] == "cosine":
        vectors /= lengths[:, None]
    table = run_tests(Samples(vectors, second, codes.astype(np.int64), lengths=lengths, permutations=PERMUTATIONS))
    return table.set_index("test")


def check_aspect(rule: Rule, subject: Subject, where: str) -> None:
    """Reject a rule about the vectors of a store that cannot be tested."""
    if subject.kind != STORE:
        raise InputError(f"{where}: only stores have a table {VECTORS!r}.")
    if rule.column not in ASPECTS:
        known = list(ASPECTS)
        raise InputError(
            f"{where}: {rule.column!r} is not an aspect of vectors that can be tested."
            f"{nearest(rule.column, known) or f' There are {known}.'}"
        )
    if not rule.test:
        raise InputError(f"{where}: the vectors of a store can only be tested; use test = true.")


def _sampled_vectors(one: Subject) -> NDArray[np.float32]:
    sums = one.source.sums
    if not sums:
        raise InputError(f"{one.name} kept no sampled vectors, which tests need. Run `theodolite store` again.")
    rows = Scan.from_state(sums).sample.sorted()
    found: NDArray[np.float32] = rows["vector"][:ROWS].numpy()
    return found
