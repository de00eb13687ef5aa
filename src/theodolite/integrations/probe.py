"""GeometryProbe: measure a model on a fixed set of texts while it trains, within a time budget."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from theodolite.errors import InputError, TheodoliteError, first_line
from theodolite.integrations.alarms import Alarm, Alarms
from theodolite.integrations.attention import measure_live_attention
from theodolite.integrations.budget import Budget
from theodolite.integrations.collapse import Collapse, Thresholds
from theodolite.integrations.loggers import make_logger
from theodolite.integrations.measure import measure_layers
from theodolite.integrations.model_state import HASH_METHODS, find_network, hash_weights, preserve_state
from theodolite.integrations.probe_options import check_names, check_number, check_sampled, check_step, list_texts
from theodolite.integrations.probe_set import ProbeSet, make_probe_set
from theodolite.integrations.processes import Processes
from theodolite.integrations.recorder import Measurement, Recorder
from theodolite.integrations.sharding import RootedModel, count_weights, reshard_after
from theodolite.integrations.training_batches import TrainingBatches
from theodolite.integrations.user_warnings import warn_user
from theodolite.measures.columns import find_column
from theodolite.models.layers import RESIDUAL
from theodolite.models.streams import check_streams
from theodolite.sources.text.source import TextSource
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.frame import Frame
from theodolite.studies.series import Series
from theodolite.studies.series.attention import select_documents
from theodolite.tables.tables import LAYERS as COLUMNS

LOGGED = ("mean_cosine", "anisotropy_svd", "effective_rank")


class GeometryProbe:
    """Measures the layers of a model on a fixed probe set. The model and all random states are left unchanged.

    `texts` are strings, a file, or a catalogue name. `limit` keeps the first documents. Windows of up to
    `max_tokens` tokens are read until they hold `positions` tokens. `layers` are numbers as for `theodolite survey
    --layers`, or "all"; the default is six layers from the first to the last. A measurement is due at every
    multiple of `every` steps. It is skipped if measuring would take more than `share` of the training time (None:
    it is never skipped); the first skipped one gives a warning. The last of `populations` is logged and checked
    for `collapse`; `alarms` are dead blocks, exploding norms, sinks, attention and states that are not finite.
    `dimension` adds TwoNN, hubness and the other measures that compare all pairs of positions. `attention` is the
    number of documents on which the sharpness and the largest logit of attention are measured. `streams` are what
    is measured of each block, as for `theodolite survey --streams`. With `training_batches=20`, the states of one
    in twenty forward passes of the training are summed up too, from one measurement to the next. `out` is the
    folder of the series. With `resume` a series in that folder is continued: steps from the first new measurement
    on are replaced, and alarms are judged by all steps before it. `weights` selects how the weights are hashed, to
    detect steps with equal weights: "sampled", "whole" or "none". `log` gets the numbers of every measurement: a
    SummaryWriter, a run of wandb or trackio, the module mlflow, an Accelerator, or a function of numbers and step.

    In distributed training every process must call the probe. Each measures its share of the probe set, and all
    get the numbers of the whole set; the first writes the series. With `distributed=False` a process measures
    alone, which a sharded model does not allow.

        probe = GeometryProbe("chitchat", tokenizer, limit=50, every=100, out="series")
        for step, batch in enumerate(batches):
            loss = train(model, batch)
            print(probe(model, step, loss=loss))
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
        attention: int = 0,
        streams: str | Sequence[str] = (RESIDUAL,),
        training_batches: int = 0,
        collapse: Thresholds | None = Thresholds(),  # noqa: B008 - frozen
        alarms: Alarms | None = Alarms(),  # noqa: B008 - frozen
        share: float | None = 0.02,
        out: str | Path | None = None,
        name: str | None = None,
        weights: str = "sampled",
        overwrite: bool = False,
        resume: bool = False,
        log: Any = None,
        distributed: bool | None = None,
    ) -> None:
        check_number("positions", positions, "positions")
        self.tokenizer = tokenizer
        # A generator would be exhausted when the probe set is made again.
        self._texts = texts if isinstance(texts, str | Path) else list_texts(texts)
        self._reading: dict[str, Any] = {"limit": limit, "positions": positions}
        self._reading |= {"layers": layers, "max_tokens": max_tokens}
        self._reading["streams"] = (
            [part.strip() for part in streams.split(",")] if isinstance(streams, str) else streams
        )
        check_streams(self._reading["streams"])
        check_number("every", every, "steps")
        check_number("attention", attention or 1, "documents")
        check_number("training_batches", training_batches or 1, "forward passes, of which one is folded")
        if share is not None and not (isinstance(share, Real) and 0 < share <= 1):
            raise InputError(
                f"share must be a fraction of the training time, above 0 and at most 1 (got {share!r})."
            )
        check_names("populations", populations, list(POPULATIONS))
        check_names("logged", logged, [name for name in COLUMNS if find_column(name).format != "text"])
        check_sampled(logged, dimension)
        check_names("weights", [weights], list(HASH_METHODS))
        self.every, self.name, self.weights = every, name, weights
        self.dimension, self.attention, self.training_batches = dimension, attention, training_batches
        self.populations, self.logged = tuple(populations), tuple(logged)
        self.budget = Budget(share)
        self.distributed = distributed
        self.log = None if log is None else make_logger(log)
        self._recorder = Recorder(
            out,
            self.populations,
            self.logged,
            collapse=collapse,
            alarms=alarms,
            overwrite=overwrite,
            resume=resume,
        )
        self._set: ProbeSet | None = None
        self._key: tuple[int, str] | None = None
        self._processes: Processes | None = None
        self._batches: TrainingBatches | None = None
        self.last: int | None = None  # the step of the latest measurement
        self.layers: pd.DataFrame | None = None  # its rows, with the columns of layers.parquet
        self.batches: pd.DataFrame | None = None  # rows of the training batches before it, with training_batches
        self.updates: dict[str, float] = {}  # by block, the mean of |w|/|x| of the latest measurement
        self._first_step: int | None = None  # seen by this probe, to report how long steps take
        self._skipped = False  # whether a warning has reported that a measurement was skipped

    @property
    def series(self) -> Series | None:
        """All measurements so far, in the first process."""
        return self._recorder.series

    @property
    def collapses(self) -> list[Collapse]:
        """All collapses so far, also those before the run was resumed."""
        return self._recorder.collapses

    @property
    def alarms(self) -> list[Alarm]:
        """All other alarms so far."""
        return self._recorder.alarms

    def __call__(self, model: Any, step: int, **training: Any) -> dict[str, float]:
        """Measure if a measurement is due; return the numbers to log by name, or an empty dictionary.

        `training` are numbers of this step that the series keeps, such as loss and learning_rate.
        """
        self.record(step, **training)
        return self.measure(model, step) if self.due(step) else {}

    def record(self, step: int, **training: Any) -> None:
        """Keep numbers of the training itself, such as loss; they are written with the next measurement."""
        self._recorder.record(step, training)

    def due(self, step: int) -> bool:
        """Return whether this step is one to measure and the budget allows it; the first process decides."""
        self._start(step)
        if step % self.every or step == self.last:
            return False
        fits = bool(self.processes.broadcast(self.budget.fits()))
        if not fits and not self._skipped:
            self._skipped = True
            why = self.budget.describe(step - (self._first_step or 0))
            if self.processes.first:
                warn_user(
                    f"step {step}: a measurement was skipped: {why}. Later ones may be skipped too, without a "
                    "warning. Give a larger share or every, or share=None to skip none."
                )
        return fits

    @property
    def processes(self) -> Processes:
        """The processes that share the measurements."""
        if self._processes is None:
            self._processes = Processes.find(self.distributed)
        return self._processes

    def _start(self, step: int) -> None:
        check_step(step)
        self.budget.start()
        if self._first_step is None:
            self._first_step = step

    def measure(self, model: Any, step: int, **training: Any) -> dict[str, float]:
        """Measure now. An error is raised at the first measurement; later ones only give a warning.

        A step that is not after all others replaces those from it on, as in a run that goes back to a checkpoint;
        a warning names them.
        """
        self._start(step)
        self.record(step, **training)
        network, root, sharded = self._find_network(model)
        _synchronize(root)
        started = time.perf_counter()
        try:
            with preserve_state(root), reshard_after(root):
                probe_set = self._prepare(network, root, sharded, step)
                prepared = time.perf_counter()
                layers, updates, frames = measure_layers(
                    probe_set.source,
                    probe_set.share,
                    self.populations,
                    dimension=self.dimension,
                    processes=self.processes,
                )
                attention = self._measure_attention(network, probe_set, sharded)
            sha256 = self._hash(root, sharded)
            batches = self._fold_batches(model, network, probe_set, frames)
            numbers = self._store(Measurement(step, layers, updates, sha256, attention, batches))
        except Exception as error:  # any error, such as out of memory: it must not stop the training
            if self.last is None or isinstance(error, Warning):  # warnings that the user turned into errors
                raise
            warn_user(f"step {step}: the geometry could not be measured: {_describe_error(error)}")
            self.budget.spend(time.perf_counter() - started)
            return {"geometry/failed": 1.0}
        finished = time.perf_counter()
        self.budget.spend(finished - started, expected=finished - prepared)
        numbers["geometry/seconds"] = finished - started
        if self.log is not None and self.processes.first:
            self.log(numbers, step)
        return numbers

    def _find_network(self, model: Any) -> tuple[nn.Module, nn.Module, bool]:
        """Return the model to run, the module with all of its weights, and whether these are sharded."""
        network, root, sharded = self._unwrap(model)
        if sharded and self.processes.size == 1:
            raise InputError(
                "model: its weights are sharded over processes, so that every process must measure; call the "
                "probe in all of them, without distributed=False."
            )
        return network, root, sharded

    def _unwrap(self, model: Any) -> tuple[nn.Module, nn.Module, bool]:
        return find_network(model)

    def _prepare(self, network: nn.Module, root: nn.Module, sharded: bool, step: int) -> ProbeSet:
        """Return the probe set; make it at the first measurement, and again for another model or device."""
        key = (id(root), str(next(root.parameters()).device))
        if self._set is None or self._key != key:
            self.detach()
            self._set, self._key = self._make_set(network, sharded), key
            probe_set = self._set
            with self.processes.fail_together():
                if self.processes.first:
                    about = self._describe_model(network) | probe_set.model
                    self._recorder.start(step, about, probe_set, dimension=self.dimension)
        return self._set

    def _make_set(self, network: nn.Module, sharded: bool) -> ProbeSet:
        if self._texts == []:
            raise InputError("texts is empty; give at least one text.")
        if self.tokenizer is None:
            raise InputError("tokenizer is missing; give the tokenizer that the model is trained with.")
        return make_probe_set(
            network, self.tokenizer, self._texts, **self._reading, processes=self.processes, sharded=sharded
        )

    def _describe_model(self, network: nn.Module) -> dict[str, Any]:
        base = network.base if isinstance(network, RootedModel) else network
        kind = type(base).__name__.removeprefix("FSDP")
        config: Any = getattr(network, "config", None)
        name = self.name or getattr(config, "name_or_path", "") or kind
        return {"name": name, "architecture": kind, "parameters": count_weights(network)}

    def _measure_attention(
        self, network: nn.Module, probe_set: ProbeSet, sharded: bool
    ) -> dict[str, pd.DataFrame]:
        """Have the first process measure attention; a sharded model cannot be run by one process."""
        if not self.attention or not probe_set.documents:
            return {}
        if sharded:
            raise InputError("attention is measured by one process, which a sharded model does not allow; give 0.")
        tables: dict[str, pd.DataFrame] = {}
        with self.processes.fail_together():
            if self.processes.first:
                documents = select_documents(probe_set.documents, self.attention)
                tables = measure_live_attention(network, self.tokenizer, documents)
        return tables

    def _fold_batches(
        self, model: nn.Module, network: nn.Module, probe_set: ProbeSet, frames: Mapping[int, Frame]
    ) -> pd.DataFrame | None:
        """Return the rows of the training batches since the last measurement, and start to fold the next ones."""
        if not self.training_batches:
            return None
        found = None
        if self._batches is None:
            base = network.base if isinstance(network, RootedModel) else network
            source = probe_set.source
            assert isinstance(source, TextSource)
            self._batches = TrainingBatches(model, base, source, self.training_batches, self.processes)
        else:
            found = self._batches.finish(self.populations)
        self._batches.start(frames)
        return found

    def finish(self) -> None:
        """Write what was recorded since the last measurement, such as the last loss, and remove all hooks.

        Call it after the training; the callbacks and the tracker do.
        """
        if self.processes.first:
            self._recorder.finish()
        self.detach()

    def detach(self) -> None:
        """Remove the hooks of `training_batches` from the model; the callbacks do so at the end."""
        if self._batches is not None:
            self._batches.detach()
            self._batches = None

    def _hash(self, root: nn.Module, sharded: bool) -> str | None:
        """Return the hash of the weights: of a sharded model, that of the hashes of all shards."""
        own = hash_weights(root, self.weights)
        if own is None or not sharded:
            return own
        from hashlib import sha256

        return sha256(" ".join(self.processes.all_gather(own)).encode()).hexdigest()

    def _store(self, measured: Measurement) -> dict[str, float]:
        """Have the first process write the series and check for alarms; return the numbers to log."""
        numbers: dict[str, float] = {}
        with self.processes.fail_together():
            if self.processes.first:
                numbers = self._recorder.store(measured)
        self.last, self.layers, self.batches = measured.step, measured.layers, measured.batches
        self.updates = dict(measured.updates)
        return dict(self.processes.broadcast(numbers))


def _synchronize(network: nn.Module) -> None:
    """Wait until the GPU has finished its training work, so that it is not counted as time spent measuring."""
    if next(network.parameters()).is_cuda:
        torch.cuda.synchronize()


def _describe_error(error: Exception) -> str:
    """Return the message of a TheodoliteError, or the type and the first line of another error."""
    if isinstance(error, TheodoliteError):
        return str(error)
    return f"{type(error).__name__}: {first_line(error, '')}".removesuffix(": ")
