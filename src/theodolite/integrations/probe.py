"""The probe: a model's geometry on a fixed set of texts, measured every so many steps of anyone's loop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from theodolite.errors import InputError, TheodoliteError, first_line, nearest
from theodolite.integrations.budget import Budget
from theodolite.integrations.collapse import Collapse, CollapseWarning, Thresholds, Watch
from theodolite.integrations.measuring import measured
from theodolite.integrations.probe_set import ProbeSet, probe_set
from theodolite.integrations.record import Record
from theodolite.integrations.untouched import untouched
from theodolite.integrations.weights import WAYS, weights_word
from theodolite.integrations.wrappers import bare
from theodolite.statistics.cells import POPULATIONS
from theodolite.studies.series import Series
from theodolite.surveys.tables import LAYERS as COLUMNS

LOGGED = ("mean_cosine", "anisotropy_svd", "effective_rank")


class GeometryProbe:
    """Measures a model's layers on a fixed probe set, and leaves the model and all randomness as they were.

    `texts` are strings, a file, or a name of the catalogue (with `limit`, its first so many documents), of which
    windows of up to `max_tokens` are read until they hold `positions` tokens. `layers` are numbers as those of
    `theodolite survey --layers`, "all", or by default six from first to last. A measurement is due at every
    multiple of `every` steps, and is skipped where it would take measuring past `share` of the time of training
    (None: never skipped). Of `populations`, the last is logged and watched for `collapse`. `dimension` adds TwoNN
    and its kin, which look at all pairs of positions. `out` is the folder of the series, which `resume` goes on
    with: steps from the first measurement on are replaced. `weights` says how steps are told apart: "sampled",
    "whole" or "none".

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
                f"share wants a part of the training time, above 0 and at most 1, but {share!r} came."
            )
        _check_words("populations", populations, list(POPULATIONS))
        _check_words("logged", logged, COLUMNS)
        _check_words("weights", [weights], list(WAYS))
        self.tokenizer, self.every, self.name = tokenizer, every, name
        self.populations, self.logged = tuple(populations), tuple(logged)
        self.dimension, self.weights = dimension, weights
        # A generator would be empty when the set is made again.
        self._texts = texts if isinstance(texts, str | Path) else list(texts)
        self._reading: dict[str, Any] = {"limit": limit, "positions": positions}
        self._reading |= {"layers": layers, "max_tokens": max_tokens}
        self.budget = Budget(share)
        self.watch = None if collapse is None else Watch(collapse)
        self.record = Record(out, overwrite=overwrite)
        self._resume = resume
        self._set: ProbeSet | None = None
        self._key: tuple[int, str] | None = None
        self.last: int | None = None  # the step of the latest measurement
        self.layers: pd.DataFrame | None = None  # its rows of layers.parquet
        self.collapses: list[Collapse] = []  # all that were warned of
        if not resume:
            self.record.check()

    @property
    def series(self) -> Series | None:
        """All measurements so far."""
        return self.record.series

    def __call__(self, model: Any, step: int) -> dict[str, float]:
        """Measure if a measurement is due; return numbers to log by name, none if it was not."""
        return self.measure(model, step) if self.due(step) else {}

    def due(self, step: int) -> bool:
        """Say whether this is a step to measure at, and whether there is time for it."""
        self.budget.start()
        return step % self.every == 0 and step != self.last and self.budget.fits()

    def measure(self, model: Any, step: int) -> dict[str, float]:
        """Measure now. What goes wrong is raised the first time, and only warned of once training is under way."""
        self.budget.start()
        network = bare(model)
        _wait(network)
        began = time.perf_counter()
        try:
            with untouched(network):
                made = self._prepare(network)
                prepared = time.perf_counter()
                layers = measured(made.source, made.batches, self.populations, dimension=self.dimension)
                word = weights_word(network, self.weights)
            found = self._keep(step, layers, word)
        except Exception as error:  # of any kind, as out of memory: training is worth more than a measurement
            if self.last is None or isinstance(error, Warning):  # a warning that the user made an error stays one
                raise
            told = f"step {step}: the geometry could not be measured: {_in_a_line(error)}"
            warnings.warn(told, UserWarning, stacklevel=2)
            self.budget.spend(time.perf_counter() - began)
            return {"geometry/failed": 1.0}
        finished = time.perf_counter()
        self.budget.spend(finished - began, expected=finished - prepared)
        return found | {"geometry/seconds": finished - began}

    def _prepare(self, network: nn.Module) -> ProbeSet:
        """Make the probe set when it is first wanted, and again for another model or device."""
        key = (id(network), str(next(network.parameters()).device))
        if self._set is None or self._key != key:
            if self.tokenizer is None:
                raise InputError("tokenizer: none was given; give the tokenizer that the model is trained with.")
            self._set, self._key = probe_set(network, self.tokenizer, self._texts, **self._reading), key
            self._begin(network, self._set)
        return self._set

    def _begin(self, network: nn.Module, made: ProbeSet) -> None:
        if self._resume and self.record.series is None:
            self._go_on()
        config: Any = network.config
        about = {
            "name": self.name or getattr(config, "name_or_path", "") or type(network).__name__,
            "architecture": type(network).__name__,
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "modality": "text",
            "blocks": len(made.source.anatomy.blocks),
            "causal": made.source.anatomy.causal,
        }
        self.record.begin(
            about,
            made.facts,
            made.source.units.kind,
            layers=[layer.index for layer in made.source.layers],
            populations=list(self.populations),
            max_tokens=made.source.max_tokens,
            dimension=self.dimension,
        )

    def _go_on(self) -> None:
        """Take up the series of `out`; its first step is still what collapse is told from."""
        series = self.record.go_on()
        if series is not None and series.steps and self.watch is not None:
            table = series.table[series.table["step"] == series.steps[0].step]
            self.watch.look(series.steps[0].step, table[table["population"] == self.populations[-1]])

    def _keep(self, step: int, layers: pd.DataFrame, word: str | None) -> dict[str, float]:
        """Look for collapse, write the series, and return what is to be logged."""
        rows = layers[layers["population"] == self.populations[-1]]
        new = [] if self.watch is None else self.watch.look(step, rows)
        self.collapses += new
        same = self.record.add(step, word, layers, [str(each) for each in self.collapses])
        self.last, self.layers = step, layers
        for each in new:
            warnings.warn(str(each), CollapseWarning, stacklevel=4)
        if same is not None:
            warnings.warn(f"step {step}: the weights are those of step {same}", UserWarning, stacklevel=4)
        found = {
            f"geometry/{row['layer_name'].replace(' ', '_')}/{column}": float(row[column])
            for row in rows.to_dict("records")
            for column in self.logged
            if not pd.isna(row.get(column))
        }
        if self.watch is not None:
            found["geometry/collapsed_layers"] = float(len(self.watch.collapsed))
        return found


def _wait(network: nn.Module) -> None:
    """Let the GPU finish what training has given it, so that its time is not taken for the measurement's."""
    if next(network.parameters()).is_cuda:
        torch.cuda.synchronize()


def _in_a_line(error: Exception) -> str:
    """Return what went wrong: our own sentence, else the kind of error and its first line."""
    if isinstance(error, TheodoliteError):
        return str(error)
    return f"{type(error).__name__}: {first_line(error, '')}".removesuffix(": ")


def _check_number(name: str, value: object, of: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} wants a whole number of {of}, at least 1, but {value!r} came.")


def _check_words(name: str, words: Sequence[str], known: Sequence[str]) -> None:
    if isinstance(words, str) or not words:
        raise InputError(f"{name} wants a list of at least one of {', '.join(known[:3])}, but {words!r} came.")
    for word in words:
        if word not in known:
            few = f" Known: {', '.join(known)}." if len(known) < 9 else ""
            raise InputError(f"{name}: {word!r} is not known.{nearest(str(word), list(known))}{few}")
