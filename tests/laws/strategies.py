"""Hypothesis strategies for the laws: frames and batches with all difficult kinds of vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.batch import GROUPS, Batch, Places
from theodolite.statistics.frame import Frame
from theodolite.statistics.rare_units import KeptUnits

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
UNITS = 9
MAX_ROWS = 60
BY_GROUPS = 3
MAX_SAMPLED = 8
DIFFICULTIES = ("zero", "duplicates", "nonfinite", "offset", "long first", "short", "huge")
"""Zero vectors; equal vectors; NaN and infinity; one coordinate at 3,000; first rows 150 times as long; norms
whose squares underflow or overflow in float32."""


@dataclass(frozen=True, repr=False)
class Sample:
    """A frame and one batch for it; `recipe` describes them when a law fails."""

    frame: Frame
    batch: Batch
    recipe: str

    def __repr__(self) -> str:
        return f"Sample({self.recipe})"

    @property
    def reach(self) -> float:
        """A bound for the distance of any finite row from 0 or from the centre."""
        states = self.batch.states.double()
        norms = torch.linalg.vector_norm(states, dim=1)
        longest = norms[norms.isfinite()].max().item() if norms.isfinite().any() else 0.0
        return longest + torch.linalg.vector_norm(self.frame.centre.double()).item()

    def split(self, points: list[int], *, whole_windows: bool) -> list[Batch]:
        """Split the batch at these rows or at the starts of their windows; parts may be empty."""
        rows, window = len(self.batch.places), self.batch.places.window
        cuts = [point % (rows + 1) for point in points]
        if whole_windows:
            cuts = [cut if cut == rows else int((window < window[cut]).sum()) for cut in cuts]
        edges = [0, *sorted(cuts), rows]
        return [self.rows(start, stop) for start, stop in pairwise(edges)]

    def rows(self, start: int, stop: int) -> Batch:
        part = torch.arange(start, stop)
        return Batch(0, self.batch.states[part], self.batch.places.take(part))

    def again(self, seed: int) -> Batch:
        """Return the same rows at other positions: new keys, the same units."""
        return replace(self.batch, places=replace(self.batch.places, key=_keys(len(self.batch.places), seed)))


@st.composite
def samples(draw: st.DrawFn, min_rows: int = 0, difficulties: tuple[str, ...] = DIFFICULTIES) -> Sample:
    dim, rows = draw(st.integers(1, 24)), draw(st.integers(min_rows, MAX_ROWS))
    chosen = draw(st.sets(st.sampled_from(difficulties)))
    seed = draw(st.integers(0, 2**20))
    random = torch.Generator().manual_seed(seed)
    first = torch.rand(rows, generator=random) < draw(st.sampled_from([0.0, 0.1, 1.0]))
    dtype = draw(st.sampled_from(DTYPES))
    states = _states(rows, dim, first, chosen, random).to(dtype)
    length = draw(st.integers(1, 9))  # of a window
    places = Places(
        unit=torch.randint(UNITS, (rows,), generator=random),
        group=torch.randint(GROUPS, (rows,), generator=random),
        first=first,
        key=_keys(rows, seed),
        context=torch.randint(5, (rows,), generator=random),
        window=torch.arange(rows) // length,
        by=torch.randint(BY_GROUPS, (rows,), generator=random),
        position=torch.arange(rows) % length,
    )
    frame = Frame(
        centre=draw(centres(dim, states)),
        massive_above=draw(st.sampled_from([math.inf, 10.0, math.sqrt(dim), 0.0])),
        separate_first=draw(st.booleans()),
        separate_massive=draw(st.booleans()),
        sample_size=draw(st.integers(0, MAX_SAMPLED)),
        contextuality=True,
        layer_scores=True,
        occurrences=(draw(st.integers(1, UNITS)), draw(st.integers(1, MAX_SAMPLED))),
        frequent=tuple(sorted(draw(st.sets(st.integers(0, UNITS))))),
        kept=draw(kept_units()),
        by_groups=BY_GROUPS,
        by_matrices=draw(st.integers(0, BY_GROUPS)),
        by_rows=draw(st.sampled_from([0, 1, 5, 20, 1000])),
    )
    recipe = f"{rows} x {dim} {dtype}, {int(first.sum())} first, seed {seed}: {', '.join(sorted(chosen))}; {frame}"
    return Sample(frame, Batch(0, states, places), recipe)


@st.composite
def kept_units(draw: st.DrawFn) -> KeptUnits | None:
    """All units have a vector, or some of them; one unit is not in the counts at all."""
    if draw(st.booleans()):
        return None
    weights = torch.tensor(
        draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=UNITS - 1, max_size=UNITS - 1))
    )
    return KeptUnits(2, torch.arange(UNITS - 1), torch.ones(UNITS - 1, dtype=torch.int64), weights.double())


@st.composite
def centres(draw: st.DrawFn, dim: int, states: Tensor) -> Tensor:
    """Zero, the coordinate-wise median as in the pilot, or any vector."""
    kind = draw(st.sampled_from(["zero", "median", "anywhere"]))
    finite = states.float()[states.isfinite().all(dim=1)]
    if kind == "median" and len(finite):
        return finite.median(dim=0).values
    scale = 0.0 if kind == "zero" else 10.0
    return scale * torch.randn(dim, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))


def _states(rows: int, dim: int, first: Tensor, difficulties: set[str], random: torch.Generator) -> Tensor:
    states = torch.randn(rows, dim, generator=random, dtype=torch.float64)
    chosen_rows = torch.rand(len(DIFFICULTIES), rows, generator=random) < 0.2
    if "offset" in difficulties:
        states[:, dim // 2] += 3000
    if "duplicates" in difficulties:
        states[1::2] = states[: rows - rows % 2 : 2]
    if "long first" in difficulties:
        states[first] *= 150
    if "short" in difficulties:
        states[chosen_rows[5]] *= 1e-25
    if "huge" in difficulties:
        states[chosen_rows[6]] *= 1e22
    if "zero" in difficulties:
        states[chosen_rows[0]] = 0
    if "nonfinite" in difficulties:
        which = torch.arange(int(chosen_rows[2].sum())) % 3
        states[chosen_rows[2], 0] = torch.tensor([math.nan, math.inf, -math.inf], dtype=torch.float64)[which]
    return states


def _keys(rows: int, seed: int) -> Tensor:
    """Return distinct keys in random order, also distinct between seeds."""
    random = torch.Generator().manual_seed(seed)
    return torch.randperm(2**12, generator=random)[:rows] * 2**40 + seed
