"""Why a survey's table of layers leaves a number out."""

from __future__ import annotations

import json
from collections import Counter

from theodolite.studies.surveyed import Surveyed

UNDEFINED = "undefined at every layer"


def why_undefined(survey: Surveyed, population: str, column: str) -> str:
    """Return the reason that most layers of a population give for a column, else that it is undefined."""
    rows = survey.layers[survey.layers["population"] == population]
    said = [row for row in rows.get("undefined", ()) if isinstance(row, str)]
    reasons = [json.loads(row).get(column) for row in said]
    found = Counter(str(reason) for reason in reasons if reason).most_common(1)
    return f"{column} is undefined ({found[0][0]})" if found else f"{column} is {UNDEFINED}"
