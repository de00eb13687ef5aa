"""Reopening: the model and the corpus of a finished survey, found again and checked, for a second pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.errors import InputError
from theodolite.sources.corpus import Corpus, CorpusOptions, Shard, open_corpus, scan, shard_documents
from theodolite.sources.text.checkpoint import Checkpoint, load_model, load_tokenizer, resolve
from theodolite.sources.text.source import TextSource
from theodolite.surveys.listener import Listener
from theodolite.surveys.run import part_of


@dataclass(frozen=True)
class Reopened:
    """A source of some layers of the surveyed model, and the documents that the survey read."""

    source: TextSource
    corpus: Corpus
    shards: tuple[Shard, ...]

    def documents(self) -> Iterator[list[tuple[int, str]]]:
        """Yield the surveyed documents (number, text) shard by shard, from the start each time."""
        for _, texts in shard_documents(self.corpus, self.shards):
            yield texts

    def __len__(self) -> int:
        return sum(shard.stop - shard.start for shard in self.shards)


def reopen(
    facts: dict[str, Any],
    layers: Sequence[int],
    *,
    model: str | None = None,
    corpus: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    listener: Listener | None = None,
) -> Reopened:
    """Find what survey.json records, or what stands in its place now; refuse other weights and other documents."""
    listener = listener or Listener()
    check_readable(facts)
    documents, shards = _corpus(facts, corpus, listener)
    checkpoint = _model(facts, model, listener)
    told, settings = facts["model"], facts["settings"]
    listener.say(f"loading {checkpoint.name}")
    source = TextSource(
        load_model(
            checkpoint,
            dtype=told["dtype"],
            device=device or told["device"],
            trust_remote_code=trust_remote_code,
        ),
        load_tokenizer(checkpoint, trust_remote_code=trust_remote_code),
        corpus_key=int(facts["corpus"]["sha256"][:16], 16),
        kind=settings["units"],
        layers=layers,
        max_tokens=settings["max_tokens"],
        batch_tokens=settings["batch_tokens"],
        drop_special=settings["drop_special"],
        wrap=settings.get("wrap", False),  # surveys made before the switches have neither
        clean_words=settings.get("clean_words", False),
    )
    return Reopened(source, documents, shards)


def check_readable(facts: dict[str, Any]) -> None:
    """Refuse a survey whose text cannot be read again, whatever is at hand."""
    if facts.get("model") is None:
        raise InputError(
            f"{facts['corpus']['name']} was measured without a model, so there is no text to read again; "
            "`theodolite survey MODEL --corpus CORPUS --out DIR` makes a survey that has both."
        )
    kind = facts["model"].get("modality", "text")  # surveys made before there were others do not tell
    if kind != "text":
        raise InputError(
            f"{facts['model']['name']} is a {kind} model, and a second pass reads text only; "
            "`theodolite survey MODEL --corpus CORPUS --out DIR` with a model of text makes a survey for it."
        )
    if facts["corpus"].get("parts"):
        raise InputError(
            "A merged survey cannot be read again, since its documents came from several runs; survey the corpus "
            "in one run, or take one of the surveys that were merged."
        )


def _corpus(facts: dict[str, Any], instead: str | None, listener: Listener) -> tuple[Corpus, tuple[Shard, ...]]:
    told = facts["corpus"]
    name = instead or str(told["name"])
    try:
        documents = open_corpus(name, CorpusOptions(**told["filters"]), listener.say)
    except InputError as error:
        if instead is not None:
            raise
        if re.fullmatch(r"\w+ of [\d,]+", name):
            raise InputError(
                f"The documents of this survey were a Python {name} texts, which is gone; write them to a file "
                "and give it with --corpus."
            ) from error
        raise InputError(f"{error} Give --corpus with where the surveyed documents are now.") from error
    listener.say(f"reading {documents.name}")
    found = scan(documents, shard_chars=facts["settings"]["shard_chars"])
    if found.sha256 != told["sha256"]:
        raise InputError(
            f"CORPUS {name!r} does not hold the documents that were surveyed: its sha256 is "
            f"{found.sha256[:12]}…, the survey's {told['sha256'][:12]}…. Give --corpus with the surveyed ones, or "
            "survey these."
        )
    by_index = {shard.index: shard for shard in found.shards}
    return documents, tuple(by_index[index] for index in part_of(list(by_index), told.get("part")))


def _model(facts: dict[str, Any], instead: str | None, listener: Listener) -> Checkpoint:
    told = facts["model"]
    name = instead or str(told["name"])
    try:
        checkpoint = resolve(name, revision=told["revision"], progress=listener.say)
    except InputError as error:
        if instead is not None:
            raise
        raise InputError(f"{error} Give --model with where the surveyed model is now.") from error
    if checkpoint.sha256 != told["sha256"]:
        raise InputError(
            f"MODEL {name!r} does not have the weights that were surveyed: their sha256 is "
            f"{checkpoint.sha256[:12]}…, the survey's {told['sha256'][:12]}…. Give --model with the surveyed "
            "ones, or survey these."
        )
    return checkpoint
