"""Names for several surveys on one page, all different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from theodolite.report.tables import Tables


def labels(surveys: Sequence[Tables]) -> list[str]:
    """Return the name of each survey; with its units, and a number where even that is not enough.

    >>> import pandas as pd
    >>> def survey(name, units):
    ...     return Tables(name, {"units": units}, pd.DataFrame(), pd.DataFrame(), pd.DataFrame())
    >>> labels([survey("a", "id"), survey("b", "id")])
    ['a', 'b']
    >>> labels([survey("a", "id"), survey("a", "word"), survey("a", "word")])
    ['a, id', 'a, word (2)', 'a, word (3)']
    """
    names = [tables.name for tables in surveys]
    seen = Counter(names)
    names = [
        f"{name}, {tables.facts['units']}" if seen[name] > 1 and tables.facts.get("units") else name
        for name, tables in zip(names, surveys, strict=True)
    ]
    seen = Counter(names)
    return [f"{name} ({i})" if seen[name] > 1 else name for i, name in enumerate(names, 1)]
