"""The stages before the model: from a text file to prepared batches.

    python -m benchmarks.reading --scale 0.1

The text consists of generated sentences (see `synthetic`), at scale 1 as many as the paper's 739,106, with a
tokenizer like BERT's. Three times are reported for every stage: elapsed time; processor time of all threads; and
the time of the Python thread, an upper bound of the time for which the interpreter lock is held: threads of the
tokenizer do not need it, and long numpy operations release it. The batches are those of a GPU: 131,072 tokens,
shards of 4M characters.

`ahead` prepares shards as a survey on a GPU does, with copies of the process if there are four cores or more. It
reports the seconds until the first and the last shard are prepared, and how long a GPU that folds two million
tokens per second would have waited in total.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch

from benchmarks.results import Row, format_seconds
from benchmarks.runner import run_from_command_line
from benchmarks.synthetic import SENTENCES, SHAPES, save_model
from benchmarks.timing import ratio, time_alternately
from theodolite.corpora.scan import scan
from theodolite.corpora.shards import shard_documents
from theodolite.corpora.text_corpus import open_corpus
from theodolite.models.checkpoint import load_model, load_tokenizer, resolve
from theodolite.sources.prefetch import ShardPreparation
from theodolite.sources.text.encoding import encode
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import padded_bounds
from theodolite.sources.worker_processes import count_workers
from theodolite.statistics.cuda.layout import Layout
from theodolite.surveys.batch_tokens import MOST
from theodolite.surveys.text_survey import GPU_SHARD_CHARS

Made = TypeVar("Made")
FOLDED = 2e6  # tokens per second: BERT-base on an H200


@dataclass
class Stages:
    """Seconds of each stage, measured with three clocks."""

    spent: dict[str, dict[str, float]] = field(default_factory=dict)

    def of(self, name: str, work: Callable[[], Made]) -> Made:
        """Run a stage and record its times."""
        clocks = {"clock": time.perf_counter, "processor": time.process_time, "python": time.thread_time}
        started = {clock: now() for clock, now in clocks.items()}
        made = work()
        self.spent[name] = {clock: now() - started[clock] for clock, now in clocks.items()}
        return made

    def per_token(self, tokens: int) -> dict[str, dict[str, float]]:
        """Return the times of the stages with their tokens per second."""
        return {name: {**one, "tokens_per_s": tokens / one["clock"]} for name, one in self.spent.items()}


def run(quick: bool = False, scale: float = 0.1, rounds: int = 3) -> dict[str, Any]:
    """Time every stage once, and the complete preparation alternately with the tokenizer's own call."""
    with TemporaryDirectory() as folder:
        return _run(Path(folder), 200 if quick else int(SENTENCES * scale), rounds)


def _run(folder: Path, count: int, rounds: int) -> dict[str, Any]:
    shape = SHAPES["bert-base"].resized(layers=1, dim=64)
    checkpoint = resolve(str(save_model(shape, folder / "model")))
    shape.write_text(folder / "corpus.txt", count)
    tokenizer, stages = load_tokenizer(checkpoint), Stages()
    model = load_model(checkpoint, dtype="bfloat16", device="cpu")
    source = stages.of("vocabulary", lambda: TextSource(model, tokenizer, batch_tokens=MOST, resident=True))
    corpus = open_corpus(folder / "corpus.txt")
    found = stages.of("scan", lambda: scan(corpus, shard_chars=GPU_SHARD_CHARS))
    shards = stages.of("read", lambda: [documents for _, documents in shard_documents(corpus, found.shards)])
    source.prepare(shards[0][:2000])  # warm up
    _apart(source, shards, stages)
    batches = stages.of("prepare", lambda: [batch for shard in shards for batch in source.prepare(shard)])
    stages.of("lay out", lambda: [_lay_out(batch) for batch in batches])
    tokens = sum(batch.positions for batch in batches)

    def ours() -> None:
        for shard in shards:
            source.prepare(shard)

    def theirs() -> None:
        for shard in shards:
            tokenizer([text for _, text in shard], truncation=True, max_length=source.max_tokens)

    clock = time_alternately({"ours": ours, "theirs": theirs}, rounds)
    return {
        "rows": [
            Row(
                "text to batches over the tokenizer's own call",
                ratio(clock["ours"], clock["theirs"]),
                1.0,
                *(
                    f"{format_seconds(median(clock[name]))}, {tokens / median(clock[name]) / 1e6:.2f}M tokens/s"
                    for name in ("ours", "theirs")
                ),
            ).to_dict()
        ],
        "tokens": tokens,
        "batches": len(batches),
        "seconds": stages.per_token(tokens),
        "ahead": _ahead(source, shards),
    }


def _apart(source: TextSource, shards: list[list[tuple[int, str]]], stages: Stages) -> None:
    """Time the steps of `prepare`."""
    texts = [[text for _, text in shard] for shard in shards]
    stages.of("encode", lambda: [encode(source.tokenizer, some, source.max_tokens) for some in texts] and None)
    windows = stages.of("encode and sort", lambda: [source._window_arrays(shard, None) for shard in shards])
    parts = [
        part
        for flat in windows
        if flat is not None
        for part in flat.split(padded_bounds(flat.lengths, source.batch_tokens))
    ]
    stages.of("pack", lambda: [source.batch_builder().pad(part) for part in parts] and None)


def _ahead(source: TextSource, shards: list[list[tuple[int, str]]]) -> dict[str, Any]:
    """Prepare all shards as a survey on a GPU does, and report when they are ready."""
    started, tokens, ready_at = time.perf_counter(), [], []
    with closing(ShardPreparation(source, enumerate(shards), len(shards))) as made:
        for _, batches in made:
            ready_at.append(time.perf_counter() - started)
            tokens.append(sum(batch.positions for batch in batches))
    waited = free = 0.0  # `free` is the time at which the GPU becomes idle
    for ready, count in zip(ready_at, tokens, strict=True):
        waited += max(ready - free, 0)
        free = max(ready, free) + count / FOLDED
    workers = count_workers(len(shards))
    return {
        "copies": workers.processes if workers else 0,
        "threads": workers.threads if workers else 0,
        "first_s": ready_at[0],
        "last_s": ready_at[-1],
        "tokens_per_s": sum(tokens) / ready_at[-1],
        "gpu_waits_s": waited,
    }


def _lay_out(batch: Any) -> Layout:
    return Layout.of(batch.places, torch.device("cpu"), separate_first=True)


if __name__ == "__main__":
    run_from_command_line(run, __doc__, scale=0.1, rounds=3)
