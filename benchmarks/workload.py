"""What benchmarks run on: a real model on real text, or a tiny model on generated sentences for quick runs."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.scan import scan
from theodolite.corpora.text_corpus import open_corpus
from theodolite.models.checkpoint import load_model, load_tokenizer, resolve
from theodolite.sources.text.source import TextSource
from theodolite.state.pilot import Pilot, take_pilot
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows

WORDS = "the of and to in a survey angle river ridge summit station signal distance measure bearing".split()


@dataclass(frozen=True)
class Workload:
    """A source, its numbered documents, and the pilot with the seconds that it took."""

    source: TextSource
    documents: list[tuple[int, str]]
    pilot: Pilot
    pilot_seconds: float

    def folds(self, populations: tuple[str, ...] = tuple(POPULATIONS)) -> dict[int, LayerFold]:
        """Return empty folds of all layers, with all statistics of a survey."""
        return {
            layer.index: LayerFold(self.pilot.frame(layer.index, populations=populations, sample_size=4096))
            for layer in self.source.layers
        }


def load_workload(
    quick: bool, *, model: str = "minilm-l6", corpus: str = "chitchat", limit: int = 100
) -> Workload:
    """Return the first `limit` documents of the corpus with the model, or 24 sentences with a tiny model."""
    return _load_tiny(24) if quick else _load_real(model, corpus, limit)


def _load_real(model: str, corpus: str, limit: int) -> Workload:
    read = open_corpus(corpus, CorpusOptions(limit=limit))
    found = scan(read)
    checkpoint = resolve(model)
    source = TextSource(load_model(checkpoint, dtype="float32", device="cpu"), load_tokenizer(checkpoint))
    started = time.perf_counter()
    pilot = take_pilot(source, list(found.pilot))
    return Workload(source, list(read.documents()), pilot, time.perf_counter() - started)


def _load_tiny(count: int) -> Workload:
    from transformers import BertConfig, BertModel, ByT5Tokenizer

    tokenizer = ByT5Tokenizer(extra_ids=0)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertModel(BertConfig(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **shape)).eval()
    source = TextSource(model, tokenizer, max_tokens=128, batch_tokens=512)
    documents = list(enumerate(make_sentences(count)))
    started = time.perf_counter()
    pilot = take_pilot(source, documents[:8])
    return Workload(source, documents, pilot, time.perf_counter() - started)


def make_sentences(count: int) -> list[str]:
    """Return generated sentences, always the same ones."""
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(5, 20))) for _ in range(count)]


BATCH = 4096


def split_batches(x: Tensor, frame: Frame) -> Iterator[Rows]:
    """Yield the vectors batch by batch, prepared as in a survey. (vectors, dim)"""
    for part in x.split(BATCH):
        zeros = torch.zeros(len(part), dtype=torch.int64)
        yield Rows.of(Batch(0, part, Places(zeros, zeros, zeros.bool(), zeros, zeros, zeros)), frame)
