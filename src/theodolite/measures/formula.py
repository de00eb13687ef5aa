"""Formula ids: the same word means different things in different tools, so every number names its formula."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Formula:
    """What one column of the tables means."""

    id: str
    columns: tuple[str, ...]  # the columns of the tables that hold it
    definition: str
    cost: str
    citation: str
    error: str = ""  # how its error bar is made, where it has one

    @property
    def anchor(self) -> str:
        """Where docs/measures.md tells of it."""
        return anchor(self.id)


def anchor(id: str) -> str:  # noqa: A002
    """Return a formula's anchor in docs/measures.md: its id as GitHub and Markdown make one of a heading.

    >>> anchor("anisotropy-svd/centred"), anchor("p-holm")
    ('anisotropy-svdcentred', 'p-holm')
    """
    return re.sub(r"[^\w-]", "", id.lower())


_formulas: dict[str, Formula] = {}


def formula(
    id: str,  # noqa: A002
    *columns: str,
    definition: str,
    cost: str,
    citation: str,
    error: str = "",
) -> Callable[[Function], Function]:
    """Register the formula that the decorated function computes."""

    def register(function: Function) -> Function:
        if id in _formulas:
            raise ValueError(f"formula id {id!r} is taken")
        _formulas[id] = Formula(id, columns, definition, cost, citation, error)
        return function

    return register


def formulas() -> dict[str, Formula]:
    """Return every formula by id, sorted."""
    import importlib
    import pkgutil

    from theodolite import measures

    for module in pkgutil.iter_modules(measures.__path__):
        importlib.import_module(f"theodolite.measures.{module.name}")
    return dict(sorted(_formulas.items()))


def formula_of_column(table: str = "layers") -> dict[str, str]:
    """Return the formula id behind every column of a table that has one, error bars included.

    A column "tokens.q" is the column q of tokens.parquet; a plain "q" is that of every other table.
    """
    ids: dict[str, str] = {}
    own: dict[str, str] = {}
    for known in formulas().values():
        for column in known.columns:
            home, _, name = column.rpartition(".")
            if home in ("", table):
                (own if home else ids)[name] = known.id
        ids |= dict.fromkeys(re.findall(r"\w+_se\b", known.error), known.id)
    return ids | own
