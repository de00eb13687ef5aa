"""The model and the corpus of a finished survey, found again and verified, for a second pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.corpora.catalogue.entries import MODELS
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.scan import scan
from theodolite.corpora.shards import Shard, shard_documents
from theodolite.corpora.text_corpus import Corpus, open_corpus
from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.models.checkpoint import Checkpoint, load_model, load_tokenizer, resolve
from theodolite.sources.text.source import TextSource
from theodolite.surveys.options import select_part


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
    """Find the model and corpus of survey.json, or what replaces them; reject other weights and documents."""
    listener = listener or Listener()
    check_readable(facts)
    documents, shards = _corpus(facts, corpus, listener)
    checkpoint = _model(facts, model, listener)
    recorded, settings = facts["model"], facts["settings"]
    listener.say(f"loading {checkpoint.name}")
    source = TextSource(
        load_model(
            checkpoint,
            dtype=recorded["dtype"],
            device=device or recorded["device"],
            trust_remote_code=trust_remote_code,
            attn=settings.get("attn"),
        ),
        load_tokenizer(checkpoint, trust_remote_code=trust_remote_code),
        corpus_key=int(facts["corpus"]["sha256"][:16], 16),
        kind=settings["units"],
        layers=layers,
        max_tokens=settings["max_tokens"],
        batch_tokens=settings["batch_tokens"],
        drop_special=settings["drop_special"],
        wrap=settings.get("wrap", False),  # not recorded in older surveys
        clean_words=settings.get("clean_words", False),
        chat=bool(settings.get("chat", False)),
    )
    return Reopened(source, documents, shards)


def check_readable(facts: dict[str, Any]) -> None:
    """Reject a survey whose text cannot be read again."""
    if facts.get("model") is None:
        raise InputError(
            f"{facts['corpus']['name']} was measured without a model, so there is no text to read again. "
            "Make a survey with `theodolite survey MODEL --corpus CORPUS --out DIR`."
        )
    if facts["model"].get("loaded"):
        raise InputError(
            f"{facts['model']['name']} was surveyed as it was in memory, so a second pass cannot load it again. "
            "Save it with save_pretrained, and survey that folder."
        )
    kind = facts["model"].get("modality", "text")  # not recorded in older surveys
    if kind != "text":
        raise InputError(
            f"{facts['model']['name']} is a {kind} model, and a second pass reads text only. "
            "Survey a text model with `theodolite survey MODEL --corpus CORPUS --out DIR`."
        )
    if facts["corpus"].get("parts"):
        raise InputError(
            "The text of a merged survey cannot be read again, because it comes from several runs. Survey the "
            "corpus in one run, or use one of the surveys that were merged."
        )


def _corpus(facts: dict[str, Any], override: str | None, listener: Listener) -> tuple[Corpus, tuple[Shard, ...]]:
    recorded = facts["corpus"]
    name = override or str(recorded["name"])
    try:
        documents = open_corpus(name, CorpusOptions(**recorded["filters"]), listener.say)
    except InputError as error:
        if override is not None:
            raise
        if re.fullmatch(r"\w+ of [\d,]+", name):
            raise InputError(
                f"The documents of this survey were a Python {name} texts, which no longer exists. Write them to "
                "a file and give it with --corpus."
            ) from error
        raise InputError(f"{error} Give the current location of the surveyed documents with --corpus.") from error
    listener.say(f"reading {documents.name}")
    found = scan(documents, shard_chars=facts["settings"]["shard_chars"])
    if found.sha256 != recorded["sha256"]:
        raise InputError(
            f"CORPUS {name!r} does not contain the surveyed documents: its sha256 is "
            f"{found.sha256[:12]}…, the survey's {recorded['sha256'][:12]}…. Give the surveyed documents "
            "with --corpus, or survey these."
        )
    by_index = {shard.index: shard for shard in found.shards}
    return documents, tuple(by_index[index] for index in select_part(list(by_index), recorded.get("part")))


def _model(facts: dict[str, Any], override: str | None, listener: Listener) -> Checkpoint:
    recorded = facts["model"]
    name = override or str(recorded["name"])
    try:
        on_hub = name not in MODELS and not Path(name).exists()  # older surveys record one for folders too
        checkpoint = resolve(name, revision=recorded["revision"] if on_hub else None, progress=listener.say)
    except InputError as error:
        if override is not None:
            raise
        raise InputError(f"{error} Give the current location of the surveyed model with --model.") from error
    if checkpoint.sha256 != recorded["sha256"]:
        raise InputError(
            f"MODEL {name!r} does not have the surveyed weights: their sha256 is "
            f"{checkpoint.sha256[:12]}…, the survey's {recorded['sha256'][:12]}…. Give the surveyed model "
            "with --model, or survey this one."
        )
    return checkpoint
