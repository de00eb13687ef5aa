"""A survey on one GPU: the cost of the statistics beside the forward pass, and their accuracy.

    python -m benchmarks.survey_gpu                                      # BERT-base, about five minutes on an H200
    python -m benchmarks.survey_gpu --shapes llama-8b,llama-1b,bert-base # also decoders of today's size
    python -m benchmarks.survey_gpu --scale 0.05                         # a twentieth of the text
    python -m benchmarks.survey_gpu --model DIR --model DIR              # also real weights

The models have random weights in bfloat16. BERT-base reads 739,106 sentences of 12.3M tokens with 13 states, the
decoders two million tokens in windows of 512 to 2,048. Random weights have no rogue coordinates, so eight
coordinates of every layer are treated as rogue, at the same cost. The forward pass is ours in `survey` (windows
packed end to end) and the usual one in `padded` (windows of similar length, padded, with PyTorch's attention).
`limits` gives what the statistics must cost at least, from the operations and the bytes of the shape. Every part
has its own time limit and prints one line of JSON; --out collects all of them.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from itertools import product
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu_profile import profile_gpu
from benchmarks.synthetic import FIRST, LAST, SHAPES, Shape, save_model
from benchmarks.two_passes import covariance_of, raw_float32, spectral_errors, two_passes
from theodolite.batch import Batch
from theodolite.measures.decomposition import unit_moments
from theodolite.models.checkpoint import load_model, load_tokenizer, resolve
from theodolite.optional_triton import triton
from theodolite.sources.prefetch import prefetch
from theodolite.sources.text import packed_attention
from theodolite.sources.text import source as text_source
from theodolite.sources.text.batches import TextBatch
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import WindowArrays, packed_bounds, padded_bounds
from theodolite.state.pilot import MASSIVE, LayerPilot, _measure_layer
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.cuda import kernels, reference
from theodolite.statistics.cuda.context import GpuContext
from theodolite.statistics.cuda.fold import GpuFold
from theodolite.statistics.cuda.gram import Chunks, GramRows, chunk_rows
from theodolite.statistics.cuda.layout import Layout
from theodolite.statistics.cuda.reference import GroupSums
from theodolite.statistics.frame import Frame
from theodolite.statistics.sinks import BatchLayers
from theodolite.statistics.unit_groups import FREQUENT
from theodolite.surveys.batch_tokens import batch_tokens

BF16_PEAK = 989e12
"""Dense peak of an H100 or H200 in FLOP/s, by the vendor's datasheet."""
PRODUCT_RATE, BANDWIDTH = 0.65 * BF16_PEAK, 4.2e12
"""What large products reach, in FLOP/s, and what a copy reaches, in bytes/s: see the part `machine`."""
ROGUE = 300
MOST_PRODUCTS = 4e15  # of tokens and weights that are timed: a quarter of those of Llama 8B
SAVED_UP_TO = 4e9  # parameters of a model that is written to disk and loaded from there
PROFILED = 4  # batches
LONG = 13.0  # seconds of a forward pass after which a complete survey is run once
BOUND = {"everything": {"llama-8b": 1.08}, "text_to_tables": {"llama-8b": 1.25}}
OTHER_BOUND = {"everything": 1.10, "text_to_tables": 1.5}
"""What is aimed at, by shape, over our forward pass or over the usual one, which pads windows."""


def batches(source: TextSource, shape: Shape, count: int, budget: int) -> list[TextBatch]:
    """Return windows that begin with a special token, as the source packs them: end to end or padded."""
    sizes = np.sort(shape.lengths(count))
    ids = shape.ids(int(sizes.sum()))
    ends = np.cumsum(sizes)
    special = np.zeros(len(ids), dtype=np.bool_)
    special[ends - sizes], ids[ends - sizes] = True, FIRST
    if not shape.causal:
        special[ends - 1], ids[ends - 1] = True, LAST
    flat = WindowArrays(ids, special, sizes, np.arange(count), np.zeros(count, dtype=np.int64))
    if source.end_to_end:
        return [source.batch_builder().pack(part) for part in flat.split(packed_bounds(sizes, budget))]
    return [source.batch_builder().pad(part) for part in flat.split(padded_bounds(sizes, budget))]


# The parts


class Bench:
    """The device, the model and the batches, which all parts share."""

    def __init__(self, arguments: argparse.Namespace, shape: Shape, folder: Path) -> None:
        self.device, self.rounds = torch.device(arguments.device), arguments.rounds
        self.shape = shape
        self.count = max(int(shape.windows * arguments.scale), 8 if shape.causal else 200)
        held = shape.layers + (2 if shape.causal else 1)  # states of a batch are held until its sinks are known
        self.budget = arguments.batch_tokens or batch_tokens(str(self.device), shape.dim, held)
        self.folder = folder
        self.source = self.source_of(shape.make_model(self.device), shape.make_tokenizer())
        self.batches = batches(self.source, shape, self.count, self.budget)
        self.forward_seconds = self.everything_seconds = self.usual_seconds = math.nan
        self.forward_tokens = 0

    def source_of(self, model: Any, tokenizer: Any) -> TextSource:
        return TextSource(
            model,
            tokenizer,
            max_tokens=self.shape.longest,
            batch_tokens=self.budget,
            resident=True,
            end_to_end=True,
        )

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    # forward and everything

    def frames(self, source: TextSource, some: Sequence[TextBatch]) -> dict[int, Frame]:
        """Return the frames of a pilot, from evenly spaced rows of some batches."""
        kept: dict[int, list[tuple[Tensor, Tensor]]] = {layer.index: [] for layer in source.layers}

        def sink(batch: Batch) -> None:
            rows = torch.arange(0, len(batch.places), max(len(batch.places) // 1024, 1))
            taken = batch.taken()[rows.to(batch.states.device)].float().cpu()
            kept[batch.layer].append((taken, batch.places.first[rows]))

        for batch in some:
            source.run(batch, sink)
        units, n = torch.cat([batch.places.unit for batch in some]).unique(return_counts=True)
        frequent = tuple(units[n.argsort(descending=True)[:FREQUENT]].tolist())
        words: dict[int, LayerPilot] = {}
        for layer in source.layers:
            vectors, first = (torch.cat(parts) for parts in zip(*kept[layer.index], strict=True))
            words[layer.index] = _measure_layer(layer, vectors, first)
        return {
            index: Frame(
                one.centre, MASSIVE * one.median_norm, spread=one.spread, separate_sinks=True, frequent=frequent
            )
            for index, one in words.items()
        }

    def timed(self, source: TextSource, some: Sequence[TextBatch], sink: Callable[[Batch], None]) -> float:
        self.synchronize()
        started = time.perf_counter()
        for batch in some:
            source.run(batch, sink)
        self.synchronize()
        return time.perf_counter() - started

    def fold(self, source: TextSource, some: Sequence[TextBatch], folds: dict[int, GpuFold]) -> float:
        """Run the batches with all statistics, as the engine does; return the seconds."""
        context, layers = next(iter(folds.values())).context, BatchLayers(folds)
        self.synchronize()
        started = time.perf_counter()
        for batch in prefetch(laid_out(some, context)):
            source.run(batch, layers.add)
            layers.finish()
        context.finish()
        self.synchronize()
        return time.perf_counter() - started

    def ratio(
        self, source: TextSource, some: Sequence[TextBatch], *, random: bool = True, rounds: int | None = None
    ) -> dict[str, Any]:
        """Time forward only and forward with all statistics alternately, on the same batches."""
        middle = [some[0], some[len(some) // 2], some[-1]]
        frames = self.frames(source, middle)
        if random:
            frames = {index: with_far(frame) for index, frame in frames.items()}

        def folds() -> dict[int, GpuFold]:
            context = GpuContext(self.device, overlap=True)
            return {index: GpuFold(frame, context) for index, frame in frames.items()}

        def nothing(batch: Batch) -> None:
            pass

        warm = folds()
        layers = BatchLayers(warm)
        for batch in middle:
            source.run(batch, nothing)
            source.run(batch, layers.add)
            layers.finish()
        close(warm)
        forward, complete = [], []
        for _ in range(rounds or self.rounds):
            forward.append(self.timed(source, some, nothing))
            held = folds()
            complete.append(self.fold(source, some, held))
            far = [len(fold._far) for fold in held.values()]
            close(held)
        tokens = sum(batch.positions for batch in some)
        padded = sum(batch.ids.numel() for batch in some)
        weights = sum(p.numel() for n, p in _matrices(source))
        best = min(forward)
        return {
            "tokens": tokens,
            "padded_tokens": padded,
            "batches": len(some),
            "states": len(frames),
            "forward_s": forward,
            "everything_s": complete,
            "everything_over_forward": min(complete) / best,
            "least_ratio": 1 + limits(source)["seconds_a_token"] * tokens / best,
            "end_to_end": source.end_to_end,
            "ratios": [a / b for a, b in zip(complete, forward, strict=True)],
            "tokens_per_s_forward": tokens / best,
            "tokens_per_s_everything": tokens / min(complete),
            "share_of_bf16_peak_forward": 2 * weights * padded / best / BF16_PEAK,
            "far_coordinates": far,
            "peak_GB": torch.cuda.max_memory_allocated() / 1e9 if self.device.type == "cuda" else None,
        }

    def part_survey(self) -> dict[str, Any]:
        """Time all batches, or of a long corpus of a large model some of them."""
        weights = sum(value.numel() for _, value in _matrices(self.source))
        every = math.ceil(sum(batch.positions for batch in self.batches) * weights / MOST_PRODUCTS)
        found = self.ratio(self.source, self.batches[::every])
        self.forward_seconds, self.forward_tokens = min(found["forward_s"]), found["tokens"]
        self.everything_seconds = min(found["everything_s"])
        return found

    def part_whole(self) -> dict[str, Any]:
        """Time all batches of a long corpus once; `text` and `disk` are compared with this forward pass.

        A GPU that is busy for a minute may be slower than one that is busy for ten seconds, and tables of units
        grow less and less often.
        """
        found = self.ratio(self.source, self.batches, rounds=1)
        self.forward_seconds, self.forward_tokens = min(found["forward_s"]), found["tokens"]
        return found

    def part_padded(self) -> dict[str, Any]:
        """Time the usual forward pass: windows of similar length, padded, with PyTorch's attention."""
        source = copy(self.source)
        source.end_to_end = False
        quick, text_source.prefer_fast_kernel = text_source.prefer_fast_kernel, lambda *_: nullcontext()
        try:
            some = batches(source, self.shape, self.count, self.budget)
            found = self.ratio(source, some)
            self.usual_seconds = min(found["forward_s"])
            return found | {
                "everything_over_usual_forward": self.everything_seconds / self.usual_seconds,
                "states_off_by": self.difference(source),
            }
        finally:
            text_source.prefer_fast_kernel = quick

    def difference(self, other: TextSource) -> list[float]:
        """Return the relative distance of another source's states from ours, by layer."""
        found: list[dict[int, Tensor]] = [{}, {}]
        for source, held in zip((self.source, other), found, strict=True):
            (batch,) = batches(source, self.shape, 8 if self.shape.causal else 200, 2**20)
            source.run(batch, lambda one, held=held: held.__setitem__(one.layer, one.taken().float()))
        ours, theirs = found

        def off(layer: int) -> float:
            error = torch.linalg.vector_norm(theirs[layer] - ours[layer], dim=1)
            return float((error / torch.linalg.vector_norm(ours[layer], dim=1)).median())

        return [off(layer) for layer in sorted(ours)]

    def part_compiled(self) -> dict[str, Any]:
        """Time the forward pass with blocks compiled by torch.compile, without attention."""
        source = self.source_of(self.shape.make_model(self.device), self.shape.make_tokenizer())
        for tap in source.anatomy.blocks:
            block = getattr(tap, "module", tap)
            block.forward = torch.compile(block.forward, dynamic=True)
        eager, packed_attention.attend_within_windows = (
            packed_attention.attend_within_windows,
            torch.compiler.disable(packed_attention.attend_within_windows),
        )
        started = time.perf_counter()
        try:
            source.run(self.batches[0], lambda batch: None)
            self.synchronize()
            spent = time.perf_counter() - started
            some = self.batches[:: max(len(self.batches) // 8, 1)]
            return self.ratio(source, some) | {
                "compiling_s": spent,
                "states_off_by": self.difference(source),
                "uncompiled_forward_s": self.timed(self.source, some, lambda batch: None),
            }
        finally:
            packed_attention.attend_within_windows = eager

    def part_apart(self) -> dict[str, Any]:
        """Return the milliseconds of each step for one layer, after warm-up: the largest batch, middle layer."""
        batch = max(self.batches, key=lambda one: one.positions)
        layer = len(self.source.layers) // 2
        frame = with_far(self.frames(self.source, [batch])[layer])
        held: list[Batch] = []
        self.source.run(
            batch, lambda one: held.append(replace(one, states=one.states.clone())) if one.layer == layer else None
        )
        one = held[0]
        passes = kernels if kernels.is_supported(one.states) else reference
        context = GpuContext(self.device)
        fold = GpuFold(frame, context)
        laid = context.layout_of(one)
        layout, form, centre = laid.layout, fold._format(one.states.dtype), fold._centre(one.states.dtype)
        limits = fold._limits_of(one.states.dtype, frame.massive_above)
        table = fold._tables[0]
        table.reserve(context.rows)
        sums = GroupSums(*(part[:2] for part in fold._sums))
        chunks = Chunks.of(frame.dim, layout.others, len(layout) - layout.others)
        kept = torch.zeros(chunks.rows, frame.dim, dtype=one.states.dtype, device=self.device)
        sheet = GramRows.allocate(form, layout.others, len(layout) - layout.others, self.device, kept)
        seen = passes.measure(one.states, layout, limits, centre, kept, chunks.gap)
        summed_groups = (one.states, layout, seen, centre, sums)
        n, by_cell = passes.sum_groups(*summed_groups, again=False)
        fold._frequent[0].allocate()
        in_order = layout.in_order(chunks.gap)
        summed = (kept, in_order, seen.flags, form, centre, table, laid.rows, sheet, fold._frequent[0])
        passes.add_units(*summed)
        rows, remainders, _, _ = next(sheet.rounds())
        partial = passes.products(rows, remainders)
        norms = (fold._bins[:2], fold._zero[:2], fold._extremes[:2], seen.norms, seen.flags, layout.others)
        matrix = fold._matrix(0)

        steps: dict[str, Callable[[], object]] = {
            "copy": one.states.clone,
            "hold": lambda: passes.measure(one.states, layout, limits, centre, kept, chunks.gap),
            "group_pass": lambda: passes.sum_groups(*summed_groups, again=False),
            "norms": lambda: passes.add_norms(*norms),
            "unit_pass": lambda: passes.add_units(*summed),
            "group_counts": lambda: fold._counts[0].add(
                context.count_rows_of(layout, context.count_rows), layout, seen.norms, seen.flags
            ),
            "products": lambda: passes.products(rows, remainders),
            "products_by_library": lambda: reference.products(rows, remainders),
            "add_products": lambda: passes.add_products(matrix, *partial, n[0], by_cell[0], form, True),
            "layer_whole": lambda: fold.update(one),
        }
        started = time.perf_counter()
        for _ in range(3):
            Layout.of(one.places, self.device, separate_first=True)
        host = (time.perf_counter() - started) / 3
        spent = {name: self.milliseconds(step) for name, step in steps.items()}
        context.finish()
        context.close()
        size = len(layout) * frame.dim * one.states.element_size()
        flops = 2 * len(layout) * frame.dim**2
        return {
            "rows": len(layout),
            "units": layout.units.runs,
            "kernels": passes.__name__.rpartition(".")[2],
            "layout_ms_on_the_processor": 1e3 * host,
            "ms": spent,
            "states_GB_per_s": {name: size / spent[name] / 1e6 for name in ("hold", "unit_pass")},
            "products_TFLOPs_as_if_full": flops / spent["products"] / 1e9,
        }

    def milliseconds(self, call: Callable[[], object], runs: int = 20) -> float:
        """Return the device time of one call, from many calls in a row; the smallest of three measurements."""
        call()
        spent = []
        for _ in range(3):
            self.synchronize()
            if self.device.type == "cuda":
                torch.cuda._sleep(
                    20_000_000
                )  # time to queue all calls: launching one takes longer than some kernels run
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
            started = time.perf_counter()
            for _ in range(runs):
                call()
            if self.device.type == "cuda":
                end.record()
                self.synchronize()
                spent.append(begin.elapsed_time(end) / runs)
            else:
                spent.append(1e3 * (time.perf_counter() - started) / runs)
        return min(spent)

    # accuracy

    def part_accuracy(self) -> dict[str, Any]:
        """Compare with two passes in float64 on the same states: three batches with added outliers."""
        layer = len(self.source.layers) // 2
        chosen = [self.batches[at] for at in sorted({0, len(self.batches) // 2, len(self.batches) - 1})]
        held: list[tuple[Tensor, Any]] = []

        def sink(batch: Batch) -> None:
            if batch.layer == layer:
                x = batch.taken().float()
                x[:, ROGUE % x.shape[1]] = 3000.0 + 40.0 * x[:, 1]  # bfloat16 values are 16 apart at this size
                x[batch.places.first.to(x.device)] *= 150
                held.append((x.bfloat16(), batch.places))

        for batch in chosen:
            self.source.run(batch, sink)
        x = torch.cat([states for states, _ in held])
        unit, first = (torch.cat([getattr(p, f) for _, p in held]).to(self.device) for f in ("unit", "first"))
        some = x[:: max(len(x) // 2048, 1)][~first[:: max(len(x) // 2048, 1)]].float().cpu()
        word = _measure_layer(self.source.layers[layer], some, torch.zeros(len(some), dtype=torch.bool))
        frame = Frame(word.centre, MASSIVE * word.median_norm, spread=word.spread)
        found: dict[str, Any] = {"rows": len(x), "units": int(unit.unique().numel())}
        for way in (True, False) if kernels.is_supported(x) else (False,):
            fold = GpuFold(frame, GpuContext(self.device, use_kernels=way))
            for states, places in held:
                fold.update(Batch(layer, states, places))
            back = fold.to_cpu()
            for population, keep in {"all": torch.ones_like(first), "without-first": ~first}.items():
                name = f"{'kernels' if way else 'plain'} {population}"
                sums = back.moments.population(POPULATIONS[population])
                codes, v, q = two_passes(x, unit, keep)
                ours = unit_moments(sums.n.numpy(), sums.sum.numpy(), sums.squares.numpy(), sums.centre.numpy())
                assert sums.codes.tolist() == codes.tolist()
                error = np.abs(ours.v - v)
                _, covariance = back.scatter.covariance(POPULATIONS[population])
                spectrum = spectral_errors(covariance.numpy(), covariance_of(x, keep).numpy())
                found[name] = {
                    "worst_share_of_the_rule": float((error / (1e-6 * v + 1e-9 * q + 1e-300)).max()),
                    "worst_share_of_the_processor_s_rule": float((error / (1e-9 * v + 1e-12 * q + 1e-300)).max()),
                    **spectrum,
                }
        raw = raw_float32(x, unit, ~first)
        codes, v, q = two_passes(x, unit, ~first)
        spread = v > 0
        found["uncentred float32 sums without-first"] = {
            "worst_share_of_the_rule": float((np.abs(raw - v) / (1e-6 * v + 1e-9 * q + 1e-300))[spread].max())
        }
        return found

    # text

    def part_text(self) -> dict[str, Any]:
        """Compare a complete survey of a loaded model, from a text file to its folder, with the forward pass."""
        return self._survey_text(self.source.anatomy.model, tokenizer=self.source.tokenizer)

    def part_disk(self) -> dict[str, Any]:
        """Compare the same for a model that is loaded from disk; not for large ones."""
        model = self.source.anatomy.model
        if sum(weight.numel() for weight in model.parameters()) > SAVED_UP_TO:
            return {}
        folder = save_model(self.shape, self.folder / "model")
        return self._survey_text(folder, device=str(self.device), dtype="bfloat16")

    def _survey_text(self, model: Any, **given: Any) -> dict[str, Any]:
        """Survey a text file, once in small to load libraries and compile kernels, then in full."""
        import theodolite

        corpus, few = self.folder / "corpus.txt", self.folder / "few.txt"
        tokens = self.shape.write_text(corpus, self.count)
        self.shape.write_text(few, min(self.count, 64 if self.shape.causal else 4000))

        def surveyed(of: Path) -> tuple[float, dict[str, Any]]:
            started = time.perf_counter()
            made = theodolite.survey(
                model,
                of,
                max_tokens=self.shape.longest,
                batch_tokens=self.budget,
                out=self.folder / f"survey{len(list(self.folder.glob('survey*')))}",
                **given,
            )
            spent = time.perf_counter() - started
            folder_bytes = sum(file.stat().st_size for file in Path(made.folder).rglob("*"))
            return spent, made.facts | {"folder_GB": folder_bytes / 1e9}

        before, _ = surveyed(few)
        runs = [surveyed(corpus) for _ in range(self.rounds if self.forward_seconds < LONG else 1)]
        spent, facts = min(runs, key=lambda run: run[0])
        forward = self.forward_seconds * tokens / max(self.forward_tokens, 1)
        laps = facts["times"]["seconds"]
        return {
            "tokens": tokens,
            "positions": facts["counts"]["positions"],
            "few_before_s": before,
            "seconds": [seconds for seconds, _ in runs],
            "laps": laps,
            "laps_of_the_first": runs[0][1]["times"]["seconds"],
            "folder_GB": facts["folder_GB"],
            "host_peak_GB": getrusage(RUSAGE_SELF).ru_maxrss / 1e6,
            "gpu_peak_GB": torch.cuda.max_memory_allocated() / 1e9 if self.device.type == "cuda" else None,
            "forward_s_of_as_many_tokens": forward,
            "text_to_tables_over_forward": spent / forward,
            "text_to_tables_over_usual_forward": spent / self.usual_seconds * self.forward_tokens / tokens,
            "fold_over_forward": laps["fold"] / forward,
        }

    # real weights

    def part_weights(self, folders: Sequence[Path]) -> dict[str, Any]:
        found = {}
        for folder in folders:
            checkpoint = resolve(str(folder))
            model = load_model(checkpoint, dtype="bfloat16", device=str(self.device))
            source = self.source_of(model, load_tokenizer(checkpoint))
            shape = replace(self.shape, vocabulary=min(len(source.units), len(source._codes)))
            some = batches(source, shape, max(self.count // 4, 200), self.budget)
            found[folder.name] = self.ratio(source, some, random=False)
        return found

    def part_limits(self) -> dict[str, Any]:
        """Return the limits; `survey` and `whole` compare them with the forward pass that they have timed."""
        return limits(self.source)

    def part_profile(self) -> dict[str, Any]:
        """Return what the GPU does in a few batches, forward only and with all statistics."""
        some = self.batches[-PROFILED:]
        frames = {i: with_far(frame) for i, frame in self.frames(self.source, some[:1]).items()}
        context = GpuContext(self.device, overlap=True)
        folds = {index: GpuFold(frame, context) for index, frame in frames.items()}
        self.fold(self.source, some, folds)  # once before, so that tables have their size
        found = {
            "tokens": sum(batch.positions for batch in some),
            "forward": profile_gpu(lambda: self.timed(self.source, some, lambda batch: None)),
            "everything": profile_gpu(lambda: self.fold(self.source, some, folds)),
        }
        close(folds)
        return found

    def part_machine(self) -> dict[str, Any]:
        """Time a matrix product and a copy: the upper limits."""
        if self.device.type != "cuda":
            return {"device": str(self.device), "torch": torch.__version__}
        a, b = (torch.randn(8192, 8192, device=self.device, dtype=torch.bfloat16) for _ in range(2))
        flat = torch.randn(2**29, device=self.device, dtype=torch.bfloat16)
        into = torch.empty_like(flat)
        return {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "triton": getattr(triton, "__version__", None),
            "bf16_TFLOPs": 2 * 8192**3 / self.milliseconds(lambda: a @ b) / 1e9,
            "copy_GB_per_s": 2 * flat.nbytes / self.milliseconds(lambda: into.copy_(flat)) / 1e6,
        }


def limits(source: TextSource) -> dict[str, float]:
    """Return the least that the statistics of one token can take, all states together, if nothing overlaps.

    FLOP: dim^2 for the products on and above the diagonal. Bytes: the states are copied while they are summed by
    group (two), read while they are summed by unit (one) and while they are multiplied (one); partial products of
    a chunk are written and read in float32. Sums of units are not counted.
    """
    dim, states = max(layer.dim for layer in source.layers), len(source.layers)
    weights = sum(value.numel() for _, value in _matrices(source))
    products, moved = dim * dim, 4 * 2 * dim + 2 * 4 * dim * dim / 2 / chunk_rows(dim)
    return {
        "blocks_MFLOP_a_token": 2 * weights / 1e6,
        "products_MFLOP_a_token_and_state": products / 1e6,
        "products_over_blocks": states * products / (2 * weights),
        "bytes_a_token_and_state": moved,
        "seconds_a_token": states * (products / PRODUCT_RATE + moved / BANDWIDTH),
    }


def _matrices(source: TextSource) -> list[tuple[str, Tensor]]:
    """Return the weights that every token is multiplied by, with their names."""
    parts = [block.module.named_parameters() for block in source.anatomy.blocks if hasattr(block, "module")]
    parts = parts or [block.named_parameters() for block in source.anatomy.blocks]
    return [(name, value) for part in parts for name, value in part if value.dim() == 2]


def close(folds: dict[int, GpuFold]) -> None:
    """Free the memory of folds, which refer to their context, and it to them."""
    context = next(iter(folds.values())).context
    context.finish()
    context.close()
    folds.clear()


def laid_out(some: Sequence[TextBatch], context: GpuContext) -> Iterator[TextBatch]:
    """Yield the batches, each prepared in advance as by the engine."""
    for batch in some:
        context.prepare(batch.places)
        yield batch


def with_far(frame: Frame) -> Frame:
    """Return the frame with a spread so small that at least eight coordinates count as rogue."""
    squares = frame.centre.double().square().sort(descending=True).values
    if len(squares) < 64:
        return frame
    return replace(frame, spread=min(frame.spread, float(squares[8:].sum() + squares[7] / 2) ** 0.5))


# The run


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


PARTS = (
    "machine", "limits", "accuracy", "apart", "survey", "whole", "padded", "text", "disk", "weights", "compiled",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="bert-base", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the text")
    parser.add_argument("--parts", default=",".join(PARTS), help="also: profile")
    parser.add_argument("--model", type=Path, action="append", default=[], help="a folder with real weights")
    parser.add_argument("--limit", type=int, default=110, help="seconds for each part")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch-tokens", type=int, help="default: as a survey chooses")
    parser.add_argument("--rounds", type=int, default=2, help="of forward only and with all statistics")
    parser.add_argument("--layers", type=int, help="default: those of the shape")
    parser.add_argument("--dim", type=int, help="default: that of the shape")
    parser.add_argument("--out", type=Path, default=Path("build/survey_gpu.json"))
    arguments = parser.parse_args()
    found: dict[str, Any] = {"scale": arguments.scale, "shapes": {}}
    for name in arguments.shapes.split(","):
        shape = SHAPES[name].resized(arguments.layers, arguments.dim)
        with TemporaryDirectory() as folder:
            found["shapes"][name] = run_shape(arguments, shape, Path(folder))
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def run_shape(arguments: argparse.Namespace, shape: Shape, folder: Path) -> dict[str, Any]:
    """Run the parts for one shape; return their numbers by part."""
    started = time.perf_counter()
    bench = Bench(arguments, shape, folder)
    found: dict[str, Any] = {"preparing_s": time.perf_counter() - started}
    for part in arguments.parts.split(","):
        if part == "weights" and not arguments.model:
            continue
        started = time.perf_counter()
        try:
            with at_most(arguments.limit):
                more = (arguments.model,) if part == "weights" else ()
                found[part] = getattr(bench, f"part_{part}")(*more)
        except Exception as error:  # one failed part must not stop the others
            found[part] = {"failed": f"{type(error).__name__}: {error}"}
        found[part]["part_s"] = time.perf_counter() - started
        print(json.dumps({shape.name: {part: found[part]}}), flush=True)
        if bench.device.type == "cuda":
            torch.cuda.empty_cache()
    for name, of in product(BOUND, ("forward", "usual_forward")):
        for part, numbers in found.items():
            ratio = numbers.get(f"{name}_over_{of}") if isinstance(numbers, dict) else None
            if ratio is not None and math.isfinite(ratio):  # NaN: the part that it is compared with did not run
                bound = BOUND[name].get(shape.name, OTHER_BOUND[name])
                print(f"{shape.name} {part}: {name}_over_{of} {ratio:.3f}   (at most {bound})")
    return found


if __name__ == "__main__":
    main()
