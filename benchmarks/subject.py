"""What is surveyed here: a real model on real text, or at the quick size a tiny model on made-up sentences."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import torch

from theodolite.sources.corpus import CorpusOptions, open_corpus, scan
from theodolite.sources.text.checkpoint import load_model, load_tokenizer, resolve
from theodolite.sources.text.source import TextSource
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.surveys.pilot import Pilot, take_pilot

WORDS = "the of and to in a survey angle river ridge summit station signal distance measure bearing".split()


@dataclass(frozen=True)
class Subject:
    """A source, its documents by number, and the pilot, with the seconds that it took."""

    source: TextSource
    documents: list[tuple[int, str]]
    pilot: Pilot
    pilot_seconds: float

    def folds(self, populations: tuple[str, ...] = tuple(POPULATIONS)) -> dict[int, LayerFold]:
        """Return empty folds of every layer, with every statistic a survey keeps."""
        return {
            layer.index: LayerFold(self.pilot.frame(layer.index, populations=populations, sample_size=4096))
            for layer in self.source.layers
        }


def subject(quick: bool, *, model: str = "minilm-l6", corpus: str = "chitchat", limit: int = 100) -> Subject:
    """Return what is measured: so many documents of the corpus, or at the quick size 24 sentences."""
    return _tiny(24) if quick else _real(model, corpus, limit)


def _real(model: str, corpus: str, limit: int) -> Subject:
    read = open_corpus(corpus, CorpusOptions(limit=limit))
    found = scan(read)
    checkpoint = resolve(model)
    source = TextSource(load_model(checkpoint, dtype="float32", device="cpu"), load_tokenizer(checkpoint))
    began = time.perf_counter()
    pilot = take_pilot(source, list(found.pilot), checkpoint.sha256)
    return Subject(source, list(read.documents()), pilot, time.perf_counter() - began)


def _tiny(count: int) -> Subject:
    from transformers import BertConfig, BertModel, ByT5Tokenizer

    tokenizer = ByT5Tokenizer(extra_ids=0)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertModel(BertConfig(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **shape)).eval()
    source = TextSource(model, tokenizer, max_tokens=128, batch_tokens=512)
    documents = list(enumerate(sentences(count)))
    began = time.perf_counter()
    pilot = take_pilot(source, documents[:8], "tiny")
    return Subject(source, documents, pilot, time.perf_counter() - began)


def sentences(count: int) -> list[str]:
    """Return made-up sentences, the same ones every time."""
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=rng.randint(5, 20))) for _ in range(count)]
