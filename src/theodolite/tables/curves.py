"""scales.parquet, spectra.parquet, jackknife.parquet: dimension by scale, eigenvalues, numbers without a group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.columns import column_names
from theodolite.measures.intrinsic_dimension import SCALES
from theodolite.measures.spectrum import shares
from theodolite.measures.uncertainty import Estimate

Array = NDArray[np.float64]
TABLES = {table: column_names(table) for table in ("scales", "spectra", "jackknife")}
TYPES = (
    dict.fromkeys(("layer", "scale", "rank", "n", "group"), "int64")
    | dict.fromkeys(("dimension", "se", "eigenvalue", "value"), "float64")
    | dict.fromkeys(("share", "cumulative"), "float32")
    | dict.fromkeys(("population", "column"), "str")
)


def scale_curve(estimates: Sequence[Estimate] = (), n: int = 0) -> pd.DataFrame:
    """Return the dimension at every scale that the `n` distinct vectors of a sample define."""
    found = zip(SCALES, estimates, strict=False)
    rows = [(scale, one.value, one.se, n) for scale, one in found if one.reason is None]
    return pd.DataFrame(rows, columns=TABLES["scales"][2:])


def spectrum_curve(eigenvalues: Array) -> pd.DataFrame:
    """Return every rank with its share of the variance; no rows for no eigenvalues. (dim,)"""
    columns = (np.arange(1, len(eigenvalues) + 1), eigenvalues, *shares(eigenvalues))
    return pd.DataFrame(dict(zip(TABLES["spectra"][2:], columns, strict=True)))


def with_layer_columns(parts: Sequence[tuple[int, str, pd.DataFrame]]) -> pd.DataFrame:
    """Return one table of (layer, population, rows), these two as columns."""
    layers, populations, rows = zip(*parts, strict=True)
    of = np.repeat(np.arange(len(parts)), [len(some) for some in rows])
    table: pd.DataFrame = pd.concat(rows, ignore_index=True)
    return table.assign(layer=np.array(layers)[of], population=pd.Series(populations).take(of).array)


def curve_table(name: str, parts: Sequence[tuple[int, str, pd.DataFrame]] = ()) -> pd.DataFrame:
    """Return one table of (layer, population, rows), also where there are none."""
    columns = TABLES[name]
    held = [part for part in parts if len(part[2])]
    table = with_layer_columns(held) if held else pd.DataFrame(columns=columns)
    # Only the columns of another type: DataFrame.astype takes long for each column, however few rows there are.
    return table[columns].astype({name: TYPES[name] for name in columns if table[name].dtype != TYPES[name]})
