"""What comes before the model: from a text file to batches laid out, stage by stage.

    python -m benchmarks.reading --scale 0.1

Sentences of made-up words as in `made_up`, at a scale of 1 as many as the paper's 739,106, and a tokenizer of
BERT's kind. Three times are told of every stage: by the clock; of the processor, all threads together; and of the
thread that runs Python, which is the most that the interpreter's lock can be held: threads of the tokenizer need
none, and numpy's long steps let go of it. The batches are those of a GPU: 131,072 tokens, shards of 4M characters.

`ahead` is what a survey on a GPU does with all cores: shards prepared by copies of the process, where there are
four cores or more. Told are the seconds until the first shard is there, until the last, and how long a GPU that
folds two million tokens a second would have waited in all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch

from benchmarks.alone import main
from benchmarks.made_up import SENTENCES, model_folder, text_file
from benchmarks.row import Row, seconds
from benchmarks.turns import middle, ratio, take_turns
from theodolite.engines.forked import room_for
from theodolite.engines.preparing import Preparing
from theodolite.sources.corpus import open_corpus, scan, shard_documents
from theodolite.sources.text.checkpoint import load_model, load_tokenizer, resolve
from theodolite.sources.text.encoding import encode
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import bucket_bounds
from theodolite.statistics.resident.layout import Layout
from theodolite.surveys.batch_tokens import MOST
from theodolite.surveys.text import GPU_SHARD_CHARS

Made = TypeVar("Made")
FOLDED = 2e6  # tokens a second: BERT-base on an H200


@dataclass
class Stages:
    """Seconds of each stage, by three clocks."""

    spent: dict[str, dict[str, float]] = field(default_factory=dict)

    def of(self, name: str, work: Callable[[], Made]) -> Made:
        """Do a stage and note its times."""
        clocks = {"clock": time.perf_counter, "processor": time.process_time, "python": time.thread_time}
        began = {clock: now() for clock, now in clocks.items()}
        made = work()
        self.spent[name] = {clock: now() - began[clock] for clock, now in clocks.items()}
        return made

    def per_token(self, tokens: int) -> dict[str, dict[str, float]]:
        """Return the stages with tokens a second beside them."""
        return {name: {**one, "tokens_per_s": tokens / one["clock"]} for name, one in self.spent.items()}


def run(quick: bool = False, scale: float = 0.1, rounds: int = 3) -> dict[str, Any]:
    """Time every stage once, and preparing as a whole in turn with the tokenizer's own call."""
    with TemporaryDirectory() as folder:
        return _run(Path(folder), 200 if quick else int(SENTENCES * scale), rounds)


def _run(folder: Path, count: int, rounds: int) -> dict[str, Any]:
    checkpoint = resolve(str(model_folder(folder / "model", layers=1, dim=64)))
    text_file(folder / "corpus.txt", count)
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

    clock = take_turns({"ours": ours, "theirs": theirs}, rounds)
    return {
        "rows": [
            Row(
                "text to batches over the tokenizer's own call",
                ratio(clock["ours"], clock["theirs"]),
                1.0,
                *(
                    f"{seconds(middle(clock[name]))}, {tokens / middle(clock[name]) / 1e6:.2f}M tokens/s"
                    for name in ("ours", "theirs")
                ),
            ).told()
        ],
        "tokens": tokens,
        "batches": len(batches),
        "seconds": stages.per_token(tokens),
        "ahead": _ahead(source, shards),
    }


def _apart(source: TextSource, shards: list[list[tuple[int, str]]], stages: Stages) -> None:
    """Time what `prepare` is made of."""
    texts = [[text for _, text in shard] for shard in shards]
    stages.of("encode", lambda: [encode(source.tokenizer, some, source.max_tokens) for some in texts] and None)
    windows = stages.of("encode and sort", lambda: [source._flat(shard, None) for shard in shards])
    parts = [
        part
        for flat in windows
        if flat is not None
        for part in flat.parts(bucket_bounds(flat.lengths, source.batch_tokens))
    ]
    stages.of("pack", lambda: [source._packed(part) for part in parts] and None)


def _ahead(source: TextSource, shards: list[list[tuple[int, str]]]) -> dict[str, Any]:
    """Prepare all shards as a survey on a GPU does, and say when they are there."""
    began, tokens, there = time.perf_counter(), [], []
    with closing(Preparing(source, enumerate(shards), len(shards))) as made:
        for _, batches in made:
            there.append(time.perf_counter() - began)
            tokens.append(sum(batch.positions for batch in batches))
    waited = free = 0.0  # when the GPU has nothing to do
    for ready, count in zip(there, tokens, strict=True):
        waited += max(ready - free, 0)
        free = max(ready, free) + count / FOLDED
    room = room_for(len(shards))
    return {
        "copies": room.copies if room else 0,
        "threads": room.threads if room else 0,
        "first_s": there[0],
        "last_s": there[-1],
        "tokens_per_s": sum(tokens) / there[-1],
        "gpu_waits_s": waited,
    }


def _lay_out(batch: Any) -> Layout:
    return Layout.of(batch.places, torch.device("cpu"), apart_first=True)


if __name__ == "__main__":
    main(run, __doc__, scale=0.1, rounds=3)
