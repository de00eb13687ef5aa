"""GeometryProbe: measure a model on a fixed set of texts while it trains, within a time budget."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from theodolite.errors import InputError, TheodoliteError, first_line, nearest
from theodolite.integrations.collapse import Collapse, CollapseDetector, CollapseWarning, Thresholds
from theodolite.integrations.measure import SAMPLE_COLUMNS, measure_layers
from theodolite.integrations.model_state import HASH_METHODS, hash_weights, preserve_state, unwrap_model
from theodolite.integrations.probe_set import ProbeSet, make_probe_set
from theodolite.integrations.series_writer import SeriesWriter
from theodolite.measures.columns import find_column
from theodolite.statistics.cells import POPULATIONS
from theodolite.studies.series import Series
from theodolite.tables.tables import LAYERS as COLUMNS


@dataclass
class Budget:
    """Limits the seconds spent measuring to a share of the seconds spent training. None sets no limit.

    The first measurement is always taken, even if it exceeds the budget. The next one waits until it fits.

    >>> now = iter([0.0, 0.0, 1.0, 30.0, 102.0])
    >>> budget = Budget(0.02, clock=lambda: next(now))
    >>> budget.start()
    >>> with_first = budget.fits()  # at 0 s
    >>> budget.spend(1.0)
    >>> with_first, budget.fits(), budget.fits(), budget.fits()  # at 1, 30 and 102 s
    (True, False, False, True)
    """

    share: float | None = 0.02
    clock: Callable[[], float] = time.monotonic
    spent: float = 0.0
    started: float | None = None
    _last: float | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start to count the training time, unless it is counted already."""
        if self.started is None:
            self.started = self.clock()

    def spend(self, seconds: float, expected: float | None = None) -> None:
        """Record the duration of a measurement; `expected` is that of the next one, if it differs."""
        self.spent += seconds
        self._last = seconds if expected is None else expected

    def fits(self) -> bool:
        """Return whether a measurement that takes as long as the last one fits into the budget."""
        now = self.clock()
        if self.share is None or self._last is None:
            return True
        return self.spent + self._last <= self.share * self._training(now)

    def describe(self, steps: int) -> str:
        """Return why a measurement does not fit after this many steps, and how often one would fit."""
        now, last, share = self.clock(), self._last or 0.0, self.share or 1.0
        training = self._training(now)
        every = f", that is every {last / share * steps / training:,.0f} steps" if training > 0 and steps else ""
        return (
            f"it takes {last:.2g} s, and share={share:g} of the training time allows one in "
            f"{last / share:.2g} s of training{every}"
        )

    @property
    def used(self) -> float:
        """The ratio of the seconds spent measuring to those spent training; NaN before any training."""
        training = self._training(self.clock())
        return self.spent / training if training > 0 else float("nan")

    def _training(self, now: float) -> float:
        return now - (self.started if self.started is not None else now) - self.spent


LOGGED = ("mean_cosine", "anisotropy_svd", "effective_rank")


class GeometryProbe:
    """Measures the layers of a model on a fixed probe set. The model and all random states are left unchanged.

    `texts` are strings, a file, or a catalogue name. `limit` keeps the first documents. Windows of up to
    `max_tokens` tokens are read until they hold `positions` tokens. `layers` are numbers as for
    `theodolite survey --layers`, or "all"; the default is six layers from the first to the last. A measurement is
    due at every multiple of `every` steps. It is skipped if measuring would take more than `share` of the training
    time (None: it is never skipped); the first skipped one gives a warning. The last of `populations` is logged
    and checked for `collapse`. `dimension` adds TwoNN, hubness and the other measures that compare all pairs of
    positions. `out` is the folder of the series. With `resume` a series in that folder is continued: steps from
    the first new measurement on are replaced, and collapse is judged by all steps before it. `weights` selects how
    the weights are hashed, to detect steps with equal weights: "sampled", "whole" or "none".

        probe = GeometryProbe("chitchat", tokenizer, limit=50, every=100, out="series")
        for step, batch in enumerate(batches):
            train(model, batch)
            print(probe(model, step))
    """

    def __init__(
        self,
        texts: str | Path | Iterable[str],
        tokenizer: Any = None,
        *,
        every: int = 100,
        layers: str | Sequence[int] | None = None,
        positions: int = 2048,
        limit: int | None = None,
        max_tokens: int | None = None,
        populations: Sequence[str] = ("all", "without-massive"),
        logged: Sequence[str] = LOGGED,
        dimension: bool = False,
        collapse: Thresholds | None = Thresholds(),  # noqa: B008 - frozen
        share: float | None = 0.02,
        out: str | Path | None = None,
        name: str | None = None,
        weights: str = "sampled",
        overwrite: bool = False,
        resume: bool = False,
    ) -> None:
        _check_number("every", every, "steps")
        _check_number("positions", positions, "positions")
        if share is not None and not 0 < share <= 1:
            raise InputError(
                f"share must be a fraction of the training time, above 0 and at most 1 (got {share!r})."
            )
        _check_names("populations", populations, list(POPULATIONS))
        _check_names("logged", logged, [name for name in COLUMNS if find_column(name).format != "text"])
        _check_sampled(logged, dimension)
        _check_names("weights", [weights], list(HASH_METHODS))
        self.tokenizer, self.every, self.name = tokenizer, every, name
        self.populations, self.logged = tuple(populations), tuple(logged)
        self.dimension, self.weights = dimension, weights
        # A generator would be exhausted when the probe set is made again.
        self._texts = texts if isinstance(texts, str | Path) else _list_texts(texts)
        self._reading: dict[str, Any] = {"limit": limit, "positions": positions}
        self._reading |= {"layers": layers, "max_tokens": max_tokens}
        self.budget = Budget(share)
        self._detector = None if collapse is None else CollapseDetector(collapse)
        self._writer = SeriesWriter(out, overwrite=overwrite)
        self._resume = resume
        self._set: ProbeSet | None = None
        self._key: tuple[int, str] | None = None
        self.last: int | None = None  # the step of the latest measurement
        self.layers: pd.DataFrame | None = None  # its rows, with the columns of layers.parquet
        self.collapses: list[Collapse] = []  # all collapses so far, also those before the run was resumed
        self._first_step: int | None = None  # seen by this probe, to report how long steps take
        self._skipped = False  # whether a warning has reported that a measurement was skipped
        if not resume:
            self._writer.check()

    @property
    def series(self) -> Series | None:
        """All measurements so far."""
        return self._writer.series

    def __call__(self, model: Any, step: int) -> dict[str, float]:
        """Measure if a measurement is due; return the numbers to log by name, or an empty dictionary."""
        return self.measure(model, step) if self.due(step) else {}

    def due(self, step: int) -> bool:
        """Return whether this step is one to measure and the budget allows it."""
        self._start(step)
        if step % self.every or step == self.last:
            return False
        fits = self.budget.fits()
        if not fits and not self._skipped:
            self._skipped = True
            why = self.budget.describe(step - (self._first_step or 0))
            warnings.warn(
                f"step {step}: a measurement was skipped: {why}. Later ones may be skipped too, without a "
                "warning. Give a larger share or every, or share=None to skip none.",
                UserWarning,
                stacklevel=3,
            )
        return fits

    def _start(self, step: int) -> None:
        self.budget.start()
        if self._first_step is None:
            self._first_step = step

    def measure(self, model: Any, step: int) -> dict[str, float]:
        """Measure now. An error is raised at the first measurement; later ones only give a warning.

        A step that is not after all others replaces those from it on, as in a run that goes back to a checkpoint;
        a warning names them.
        """
        self._start(step)
        network = unwrap_model(model)
        _synchronize(network)
        started = time.perf_counter()
        try:
            with preserve_state(network):
                probe_set = self._prepare(network, step)
                prepared = time.perf_counter()
                layers = measure_layers(
                    probe_set.source, probe_set.batches, self.populations, dimension=self.dimension
                )
                sha256 = hash_weights(network, self.weights)
            numbers = self._store(step, layers, sha256)
        except Exception as error:  # any error, such as out of memory: it must not stop the training
            if self.last is None or isinstance(error, Warning):  # warnings that the user turned into errors
                raise
            message = f"step {step}: the geometry could not be measured: {_describe_error(error)}"
            warnings.warn(message, UserWarning, stacklevel=2)
            self.budget.spend(time.perf_counter() - started)
            return {"geometry/failed": 1.0}
        finished = time.perf_counter()
        self.budget.spend(finished - started, expected=finished - prepared)
        return numbers | {"geometry/seconds": finished - started}

    def _prepare(self, network: nn.Module, step: int) -> ProbeSet:
        """Return the probe set; make it at the first measurement, and again for another model or device."""
        key = (id(network), str(next(network.parameters()).device))
        if self._set is None or self._key != key:
            if self.tokenizer is None:
                raise InputError("tokenizer is missing; give the tokenizer that the model is trained with.")
            self._set, self._key = make_probe_set(network, self.tokenizer, self._texts, **self._reading), key
            self._start_series(network, self._set, step)
        return self._set

    def _start_series(self, network: nn.Module, probe_set: ProbeSet, step: int) -> None:
        if self._resume and self._writer.series is None:
            self._writer.resume()
            self._go_back(step)
        config: Any = network.config
        about = {
            "name": self.name or getattr(config, "name_or_path", "") or type(network).__name__,
            "architecture": type(network).__name__,
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "modality": "text",
            "blocks": len(probe_set.source.anatomy.blocks),
            "causal": probe_set.source.anatomy.causal,
        }
        self._writer.start(
            about,
            probe_set.facts,
            probe_set.source.units.kind,
            layers=[layer.index for layer in probe_set.source.layers],
            populations=list(self.populations),
            max_tokens=probe_set.source.max_tokens,
            dimension=self.dimension,
        )

    def _go_back(self, step: int) -> list[int]:
        """Remove this step and later ones, and judge collapse by those that remain; return the removed steps."""
        removed = self._writer.remove_from(step)
        self.collapses = []
        if self._detector is not None and self.series is not None:
            self._detector = CollapseDetector(self._detector.thresholds)
            table = self.series.table[self.series.table["population"] == self.populations[-1]]
            for earlier in self.series.steps:
                self.collapses += self._detector.update(earlier.step, table[table["step"] == earlier.step])
        return removed

    def _store(self, step: int, layers: pd.DataFrame, sha256: str | None) -> dict[str, float]:
        """Check for collapse, write the series, and return the numbers to log."""
        if self.last is not None and step <= max((each.step for each in self._writer.steps), default=-1):
            removed = ", ".join(map(str, self._go_back(step)))
            warnings.warn(
                f"step {step} is measured after later steps, which are removed from the series: {removed}",
                UserWarning,
                stacklevel=4,
            )
        rows = layers[layers["population"] == self.populations[-1]]
        new = [] if self._detector is None else self._detector.update(step, rows)
        self.collapses += new
        same = self._writer.add(step, sha256, layers, [str(collapse) for collapse in new])
        if self.last is None:
            self._warn_of_undefined(rows)
        self.last, self.layers = step, layers
        for collapse in new:
            warnings.warn(str(collapse), CollapseWarning, stacklevel=4)
        if same is not None:
            warnings.warn(f"step {step}: the weights equal those of step {same}", UserWarning, stacklevel=4)
        numbers = {
            f"geometry/{row['layer_name'].replace(' ', '_')}/{column}": float(row[column])
            for row in rows.to_dict("records")
            for column in self.logged
            if not pd.isna(row.get(column))
        }
        if self._detector is not None:
            numbers["geometry/collapsed_layers"] = float(len(self._detector.collapsed))
        return numbers

    def _warn_of_undefined(self, rows: pd.DataFrame) -> None:
        """Warn of columns to log that are undefined in every layer."""
        for column in self.logged:
            if column not in rows or rows[column].isna().all():
                reasons = {json.loads(text or "{}").get(column) for text in rows["undefined"]} - {None}
                why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
                warnings.warn(
                    f"logged: {column} is undefined in every layer{why} and is not logged",
                    UserWarning,
                    stacklevel=5,
                )


def _synchronize(network: nn.Module) -> None:
    """Wait until the GPU has finished its training work, so that it is not counted as time spent measuring."""
    if next(network.parameters()).is_cuda:
        torch.cuda.synchronize()


def _describe_error(error: Exception) -> str:
    """Return the message of a TheodoliteError, or the type and the first line of another error."""
    if isinstance(error, TheodoliteError):
        return str(error)
    return f"{type(error).__name__}: {first_line(error, '')}".removesuffix(": ")


def _check_number(name: str, value: object, of: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be an integer number of {of}, at least 1 (got {value!r}).")


def _list_texts(texts: Any) -> list[str]:
    if isinstance(texts, Iterable):
        return list(texts)
    raise InputError(f"texts requires strings, a file or a catalogue name (got {texts!r}).")


def _check_sampled(logged: Sequence[str], dimension: bool) -> None:
    for name in logged:
        if name in SAMPLE_COLUMNS and not dimension:
            raise InputError(f"logged: {name!r} requires dimension=True, which computes it from a sample.")


def _check_names(argument: str, names: Sequence[str], known: Sequence[str]) -> None:
    if isinstance(names, str) or not names:
        raise InputError(f"{argument} must be a list of names such as {', '.join(known[:3])} (got {names!r}).")
    for name in names:
        if name not in known:
            listed = f" Known: {', '.join(known)}." if len(known) < 9 else ""
            raise InputError(f"{argument}: {name!r} is not known.{nearest(str(name), list(known))}{listed}")
