"""Everything the page's script is given, as one JSON text that no token can break out of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from theodolite.report.payload.survey import survey_payload
from theodolite.report.tables import Tables


def payload(surveys: Sequence[Tables], more: Mapping[str, Any] | None = None) -> str:
    """Return the data of the page; `more` adds what other parts bring, by name."""
    data = {"surveys": [survey_payload(tables) for tables in surveys], **(more or {})}
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # It stands in a <script> element: without this sign nothing in it can end that, or begin a comment.
    return text.replace("<", "\\u003c")
