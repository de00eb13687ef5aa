"""What a laboratory found, as exhibits see it: tables, wherever they came from."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from theodolite.errors import DamagedError
from theodolite.studies.surveyed import Surveyed


def tables_of(survey: Surveyed, names: Sequence[str]) -> list[pd.DataFrame]:
    """Return tables of a laboratory's folder; a missing one is damage."""
    missing = [name for name in names if name not in survey.tables]
    if missing:
        raise DamagedError(f"{survey.folder}: there is no {missing[0]}.parquet in it.")
    return [survey.tables[name] for name in names]
