"""Memory: what a survey will need, worked out before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psutil

from theodolite.errors import InputError
from theodolite.sources.layers import Layer
from theodolite.statistics.fold import WIDEST, most_sampled

SHARE = 0.8  # of the memory that is free, unless --memory says otherwise


def needed(
    layers: Sequence[Layer], types: int, *, sample_size: int, populations: int, contextuality: bool = False
) -> int:
    """Return the bytes that the statistics will hold: unit tables, matrices and samples.

    Twice the sums of one layer's units are added, for the tables that are read off at the end.
    """
    cells = 1 if populations == 1 else 2
    total = 0
    for layer in layers:
        table = 8 * types * (layer.dim + 3) * (2 if contextuality else 1)
        matrices = 8 * layer.dim**2 * cells if layer.dim <= WIDEST else 0
        samples = min(sample_size, most_sampled(layer.dim)) * (4 * layer.dim + 24) * cells
        total += table + matrices + samples
    widest = max((layer.dim for layer in layers), default=0)
    return total + 3 * 8 * types * widest + 8 * 9 * types * len(layers) * populations


def check(
    layers: Sequence[Layer],
    bound: int,
    count: Callable[[], int],
    *,
    budget: int | None,
    sample_size: int,
    populations: int,
    contextuality: bool = False,
) -> dict[str, int]:
    """Refuse a run that would not fit, and return the estimate.

    `bound` is how many units there can be at the most. Only if that many would not fit are they counted, which
    takes a pass over the corpus without the model.
    """
    allowed = budget if budget is not None else int(SHARE * psutil.virtual_memory().available)

    def of(units: int) -> int:
        return needed(layers, units, sample_size=sample_size, populations=populations, contextuality=contextuality)

    types, need = bound, of(bound)
    if need > allowed:
        types = count()
        need = of(types)
    if need > allowed:
        fewer = int(len(layers) * allowed / need)
        hint = f"; about {fewer} would fit" if fewer else ""
        raise InputError(
            f"This survey needs about {size(need)} for {len(layers)} layers and {types:,} units; "
            f"{size(allowed)} may be used. Survey fewer layers at a time (--layers{hint}), "
            "choose coarser --units, or allow more with --memory."
        )
    return {"types": types, "bytes": need, "budget": allowed}


def parse_size(text: str) -> int:
    """Return bytes from "8G", "512M" or a plain number.

    >>> parse_size("1.5G")
    1610612736
    """
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    bare = text.strip().upper().removesuffix("B").removesuffix("I")
    scale = units.get(bare[-1:], 1)
    try:
        value = float(bare.rstrip("KMGT")) * scale
    except ValueError:
        value = -1
    if not 0 < value < 2**63:  # so written, NaN fails too
        raise InputError(f"--memory {text!r} is no size; write it as 8G, 512M or a number of bytes.")
    return int(value)


def size(count: int) -> str:
    """Return bytes for people.

    >>> size(3 * 2**30)
    '3.0 GB'
    """
    value, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.1f} {units[0]}" if units[0] != "bytes" else f"{count} bytes"
