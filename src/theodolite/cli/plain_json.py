"""Tables of a laboratory as JSON: every digit, null for what is undefined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def plain_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table.

    >>> import pandas as pd
    >>> plain_rows(pd.DataFrame({"layer": [0, 1], "step": [float("nan"), 0.5]}))
    [{'layer': 0, 'step': None}, {'layer': 1, 'step': 0.5}]
    """
    import pandas as pd

    return [
        {str(name): None if pd.isna(value) else value for name, value in record.items()}
        for record in table.to_dict("records")
    ]
