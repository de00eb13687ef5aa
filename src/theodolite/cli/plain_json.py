"""Tables of a laboratory as JSON: every digit, null for what is undefined."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def plain_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table.

    >>> import pandas as pd
    >>> plain_rows(pd.DataFrame({"layer": [0, 1], "step": [float("nan"), 0.5]}))
    [{'layer': 0, 'step': None}, {'layer': 1, 'step': 0.5}]
    """
    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return rows
