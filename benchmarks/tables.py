"""The stages of a survey after its fold: making the tables and writing the folder.

    python -m benchmarks.tables --device cuda
    python -m benchmarks.tables --massive 2000

The sums are synthetic, with the size of the paper's survey of BERT: 13 layers of 768 coordinates, 30,000 units
that follow Zipf's law, 12.3 million positions, samples of 4,096. Every unit has its own mean, and one coordinate
is at 20. With `--massive`, that many units also occur at a massive position, so that no two populations are equal.
The sums are written while the tables are made, as in a survey. With a device the sums are on the device at the
start, as after a fold: `handed_over_s` is the time until everything except the sums by unit is on the CPU; those
follow in the background. The times of stages are summed over threads, so they can exceed the elapsed time.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks.results import Row, format_seconds
from benchmarks.runner import run_from_command_line
from theodolite.batch import GROUPS
from theodolite.engines.gpu import move_from_device, move_to_device, sums_on_device, write_in_background
from theodolite.models.layers import Layer
from theodolite.sources.units import Unit, Units
from theodolite.state.pilot import LayerPilot, Pilot
from theodolite.state.state import State
from theodolite.statistics.cells import CELLS, POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.norms import bin_edges
from theodolite.surveys.folder import save
from theodolite.surveys.survey import Survey
from theodolite.tables.tables import make_tables

SPREAD = 0.7
"""Standard deviation of a unit's vectors in each coordinate; that of the means is 1."""
STAGES = {
    "eigenvalues": ("tables.shape", "_spectral"),
    "nearest neighbours": ("tables.shape", "neighbourhood"),
    "dimensions and curves": ("tables.shape", "_dimensions"),
    "batches": ("tables.shape", "_batches"),
    "partition function": ("tables.shape", "_directional_numbers"),
    "sums of a population": ("statistics.moments", "add_tables"),
    "units": ("tables.layer_row", "unit_moments"),
    "sets of units": ("tables.unit_sets", "decompositions"),
    "bootstrap of fits": ("tables.layer_row", "bootstrap_errors"),
    "jackknife": ("tables.layer_row", "estimate_without_groups"),
    "coordinates": ("tables.tables", "coordinate_rows"),
    "rows of units": ("tables.tables", "unbiased"),
    "joining": ("tables.tables", "_token_rows"),
    "sums from the device": ("devices", "_copy_from_device"),
    "sums to the disk": ("state.state", "write_tensors"),
    "tables to the disk": ("surveys.folder", "write_table"),
    "checksums": ("surveys.folder", "checksum"),
}
"""The functions that are timed, by the module that calls them."""


@dataclass(frozen=True)
class Size:
    """The size of the synthetic survey."""

    layers: int = 13
    dim: int = 768
    units: int = 30_000
    positions: int = 12_300_000
    sample: int = 4096
    massive: int = 0  # units that also occur at a massive position


QUICK = Size(2, 48, 400, 40_000, 300, 20)


def run(quick: bool = False, device: str = "", massive: int = 0, rounds: int = 2) -> dict[str, Any]:
    """Make the tables and the folder several times, and the tables once with one thread."""
    size = QUICK if quick else Size(massive=massive)
    state, layers = make_sums(size)
    on = {"device": device} if device else {}
    spent: dict[str, list[float]] = {"handed over": [], "tables": [], "files": [], "plain": []}
    stages: list[dict[str, float]] = []
    with TemporaryDirectory() as folder:
        for number in range(rounds + 1):  # the first is a warm-up
            with time_stages() as found:
                handed = _move_and_return(device, state) if device else 0.0
                left = sums_on_device(state.folds)
                started = time.perf_counter()
                with write_in_background(state, Path(folder)) as state_written:
                    tables = make_tables(state, layers, tuple(POPULATIONS), spare=2**40, on_device=left, **on)
                    made = time.perf_counter()
                    save(Survey({"layers": []}, tables, state, pilot(state)), Path(folder), state_written)
                written = time.perf_counter()
            names = [path for path in Path(folder).iterdir() if path.is_file()]
            bytes_ = sum(path.stat().st_size for path in names)
            plain = _plain_write(Path(folder) / "plain", bytes_)
            if number or not rounds:
                for name, taken in zip(spent, (handed, made - started, written - made, plain), strict=True):
                    spent[name].append(taken)
                stages.append(found)
    best = min(range(len(stages)), key=lambda number: spent["tables"][number])
    handed_s, tables_s, files_s, plain_s = (min(taken) for taken in spent.values())
    started = time.perf_counter()
    make_tables(state, layers, tuple(POPULATIONS), workers=1)
    one_thread = time.perf_counter() - started
    where = f"on {device}" if device else "with all threads"
    return {
        "rows": [
            Row(
                f"tables {where} over one thread",
                tables_s / one_thread,
                1.0,
                format_seconds(tables_s),
                format_seconds(one_thread),
            ).to_dict(),
            Row(
                "writing the folder over writing as many bytes",
                files_s / plain_s,
                None,
                f"{format_seconds(files_s)} for {bytes_ / 1e6:.0f} MB",
                format_seconds(plain_s),
            ).to_dict(),
        ],
        "after_the_fold_s": handed_s + tables_s + files_s,
        "handed_over_s": spent["handed over"],
        "tables_s": spent["tables"],
        "files_s": spent["files"],
        "stages_s": {name: round(taken, 4) for name, taken in sorted(stages[best].items(), key=lambda x: -x[1])},
    }


def _move_and_return(device: str, state: State) -> float:
    """Move the sums to the device and back as in a survey; return the seconds of moving them back."""
    contexts = move_to_device(state, device)
    for context in contexts:
        context.finish()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    started = time.perf_counter()
    move_from_device(state, contexts)
    spent = time.perf_counter() - started
    for context in contexts:
        context.close()
    return spent


@contextmanager
def time_stages() -> Iterator[dict[str, float]]:
    """Time every stage while the context is open."""
    found: dict[str, float] = defaultdict(float)
    lock = threading.Lock()

    def time_calls(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            started = time.perf_counter()
            made = call(*args, **options)
            made = list(made) if isinstance(made, Iterator) else made  # a generator does its work when it is read
            with lock:
                found[name] += time.perf_counter() - started
            return made

        return wrapped

    originals = []
    for name, (module_name, function) in STAGES.items():
        module = import_module(f"theodolite.{module_name}")
        original = getattr(module, function)
        originals.append((module, function, original))
        setattr(module, function, time_calls(name, original))
    try:
        yield found
    finally:
        for module, function, original in reversed(originals):
            setattr(module, function, original)


def _plain_write(path: Path, size: int) -> float:
    """Return the seconds to write as many bytes and wait for the disk."""
    import os

    block = b"\0" * min(size, 1 << 26)
    started = time.perf_counter()
    with path.open("wb") as stream:
        for start in range(0, size, len(block)):
            stream.write(block[: size - start])
        stream.flush()
        os.fsync(stream.fileno())
    spent = time.perf_counter() - started
    path.unlink()
    return spent


# The sums


def make_sums(size: Size) -> tuple[State, list[Layer]]:
    """Return the sums as after a fold; the layers are multiples of one another."""
    units = [Unit(f"unit{code}", f"unit{code}", code, code < 2) for code in range(size.units)]
    layers = [Layer(index, f"block {index}", size.dim) for index in range(size.layers)]
    one = _Sums(size)
    folds = {layer.index: one.fold(1 + layer.index / 16) for layer in layers}
    return State(folds, Units("token", units), positions=size.positions), layers


def pilot(state: State) -> Pilot:
    """Return a pilot with the centres of the sums."""
    return Pilot({index: LayerPilot(1.0, fold.frame.centre.clone()) for index, fold in state.folds.items()}, {})


class _Sums:
    """The sums of one layer: ordinary positions of every unit, first positions of unit 0, massive ones of some."""

    def __init__(self, size: Size) -> None:
        self.size, dim = size, size.dim
        random = torch.Generator().manual_seed(0)
        self.centre = torch.zeros(dim)
        self.centre[dim // 3] = 20.0
        means = torch.randn(size.units, dim, generator=random)
        share = 1 / torch.arange(3, size.units + 3, dtype=torch.float64)
        n = (share / share.sum() * size.positions).round().long().clamp_min(1)
        self.cells: dict[int, dict[str, Tensor]] = {}
        for cell, codes, times, by in (
            (0, torch.arange(size.units), n, 1.0),
            (1, torch.arange(1), torch.tensor([size.positions // 30]), 1.0),
            (2, torch.arange(2, 2 + size.massive), torch.full((size.massive,), 3), 40.0),
        ):
            if len(codes):
                self.cells[cell] = self._cell(codes, times, by * means[codes], random)

    def _cell(self, codes: Tensor, n: Tensor, means: Tensor, random: torch.Generator) -> dict[str, Tensor]:
        size, dim = self.size, self.size.dim
        total = means.double() * n[:, None]
        within = SPREAD**2 * dim * n.double()
        drawn = torch.multinomial(n.double(), min(size.sample, int(n.sum())), replacement=True, generator=random)
        noise = SPREAD * torch.randn(len(drawn), dim, generator=random)
        groups = torch.full((GROUPS,), int(n.sum()) // GROUPS)
        groups[0] += int(n.sum()) - int(groups.sum())
        drift = 1 + 0.01 * torch.randn(GROUPS, generator=random).double()[:, None]
        norms = torch.linalg.vector_norm(means + self.centre, dim=1).double()
        at = torch.searchsorted(bin_edges(), norms).clamp(1, len(bin_edges()) - 1) - 1
        return {
            "codes": codes,
            "n": n,
            "sum": total,
            "squares": (total.square().sum(1) / n) + within,
            "products": total.T @ (total / n[:, None]) + SPREAD**2 * n.sum() * torch.eye(dim, dtype=torch.float64),
            "histogram": torch.bincount(at, weights=n.double(), minlength=len(bin_edges()) - 1).long(),
            "lengths": torch.stack([norms.min(), norms.max()]),
            "key": torch.randint(0, 2**62, (len(drawn),), generator=random),
            "unit": codes[drawn],
            "context": torch.randint(0, 2**62, (len(drawn),), generator=random),
            "vector": means[drawn] + noise + self.centre,
            "groups": groups,
            "drift": drift,
        }

    def fold(self, by: float) -> LayerFold:
        """Return the layer with the distances from the centre multiplied by a factor."""
        dim, size = self.size.dim, self.size
        fold = LayerFold(Frame(self.centre, massive_above=1e3, sample_size=size.sample))
        state = {name: tensor.clone() for name, tensor in fold.state().items()}
        for cell, sums in self.cells.items():
            name, n, total = CELLS[cell], int(sums["n"].sum()), sums["sum"].sum(0) * by
            state |= {f"moments.{name}.{part}": sums[part].clone() for part in ("codes", "n")}
            state[f"moments.{name}.sum"] = sums["sum"] * by
            state[f"moments.{name}.squares"] = sums["squares"] * by**2
            direction = (total / n + self.centre) / (dim**0.5 * by)
            state["directions.n"][cell], state["directions.sum"][cell] = n, n * direction
            state["directions.squares"][cell] = n / dim
            state["scatter.n"][cell], state["scatter.sum"][cell] = n, total
            state[f"scatter.{name}.products"] = sums["products"] * by**2
            state["norms.counts"][cell] = sums["histogram"]
            state["norms.lowest"][cell], state["norms.highest"][cell] = sums["lengths"].tolist()
            state |= {f"sample.{name}.{part}": sums[part].clone() for part in ("key", "unit", "context")}
            state[f"sample.{name}.vector"] = (sums["vector"] - self.centre) * by + self.centre
            groups = sums["groups"]
            state["groups.n"][cell], state["groups.directed"][cell] = groups, groups
            state["groups.sum"][cell] = groups[:, None] / n * total * sums["drift"]
            state["groups.squares"][cell] = groups / n * float(sums["squares"].sum()) * by**2
            state["groups.directions"][cell] = groups[:, None] * direction * sums["drift"]
        fold.load(state)
        return fold


if __name__ == "__main__":
    run_from_command_line(run, __doc__, device="", massive=0, rounds=2)
