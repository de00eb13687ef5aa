"""What the statistics cost beside the forward pass, interleaved batch by batch."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from theodolite.batch import Batch
from theodolite.measures.twonn import twonn
from theodolite.sources.corpus import CorpusOptions, open_corpus, scan
from theodolite.sources.text.checkpoint import load_model, load_tokenizer, resolve
from theodolite.sources.text.source import TextSource
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.directions import Directions
from theodolite.statistics.fold import STATISTICS, LayerFold
from theodolite.statistics.moments import Moments
from theodolite.statistics.scatter import Scatter
from theodolite.surveys.pilot import Pilot, take_pilot
from theodolite.surveys.state import State

CORE = (Moments, Directions, Scatter)


def run(model: str = "minilm-l6", corpus: str = "chitchat", limit: int = 400) -> dict[str, Any]:
    """Time every batch three ways, in turn: forward alone, with the core statistics, with everything."""
    documents = open_corpus(corpus, CorpusOptions(limit=limit))
    found = scan(documents)
    checkpoint = resolve(model)
    source = TextSource(load_model(checkpoint, dtype="float32", device="cpu"), load_tokenizer(checkpoint))
    began = time.perf_counter()
    pilot = take_pilot(source, list(found.pilot), checkpoint.sha256)
    pilot_seconds = time.perf_counter() - began
    batches = source.prepare(list(documents.documents()))
    core = _folds(source, pilot, ("all",), CORE)
    everything = _folds(source, pilot, tuple(POPULATIONS), STATISTICS)
    # The rows are gathered out of the padded batch in all three: that is the source's work, not the fold's.
    ways: dict[str, Callable[[Batch], None]] = {
        "forward": lambda batch: None,
        "core": lambda batch: core[batch.layer].update(batch),
        "everything": lambda batch: everything[batch.layer].update(batch),
    }
    names = list(ways)
    for batch in batches[:2]:  # warm up
        for take in ways.values():
            source.run(batch, take)
    core, everything = _folds(source, pilot, ("all",), CORE), _folds(source, pilot, tuple(POPULATIONS), STATISTICS)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number, batch in enumerate(batches):
        for name in names[number % 3 :] + names[: number % 3]:  # each goes first as often as the others
            began = time.perf_counter()
            source.run(batch, ways[name])
            seconds[name].append(time.perf_counter() - began)
    return {
        "fold_over_forward": _ratio(seconds["core"], seconds["forward"]),
        "fold_over_forward_everything": _ratio(seconds["everything"], seconds["forward"]),
        "fold_over_forward_sum": sum(seconds["core"]) / sum(seconds["forward"]),
        "fold_over_forward_everything_sum": sum(seconds["everything"]) / sum(seconds["forward"]),
        "forward_tokens_per_second": sum(b.positions for b in batches) / sum(seconds["forward"]),
        "batches": len(batches),
        "pilot_seconds": pilot_seconds,
        **_apart(source, everything),
    }


def _folds(source: TextSource, pilot: Pilot, populations: tuple[str, ...], kinds: Any) -> dict[int, LayerFold]:
    return {
        layer.index: LayerFold(pilot.frame(layer.index, populations=populations, sample_size=4096), kinds)
        for layer in source.layers
    }


def _ratio(with_fold: list[float], alone: list[float]) -> float:
    """Return the median over batches: one batch that another process disturbed does not move it."""
    return statistics.median(a / b for a, b in zip(with_fold, alone, strict=True))


def _apart(source: TextSource, folds: dict[int, LayerFold]) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        State(folds, source.units).save(Path(folder))
        checkpoint = time.perf_counter() - began
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    sample = folds[max(folds)].sample.population((0, 1, 2, 3))
    began = time.perf_counter()
    twonn(sample["vector"], contexts=sample["context"])
    return {
        "checkpoint_seconds": checkpoint,
        "checkpoint_MB": size / 1e6,
        "twonn_seconds_a_layer": time.perf_counter() - began,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="minilm-l6")
    parser.add_argument("--limit", type=int, default=400)
    arguments = parser.parse_args()
    print(json.dumps(run(arguments.model, limit=arguments.limit), indent=2))
