"""Surveying text: a model of text and a corpus of documents, made into a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from theodolite.engines.ahead import beside
from theodolite.engines.forked import apart
from theodolite.engines.turns import one_thread
from theodolite.errors import InputError
from theodolite.sources.corpus import open_corpus, scan, shard_documents
from theodolite.sources.text.checkpoint import Checkpoint, found_again, load_model, load_tokenizer
from theodolite.sources.text.placement import placement_of
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.vocabulary import level, special_ids
from theodolite.sources.text.windows import longest_window
from theodolite.sources.text.wrapping import UNWRAPPED, Wrap, own, wrap_of
from theodolite.surveys.batch_tokens import batch_tokens
from theodolite.surveys.listener import Listener
from theodolite.surveys.model_facts import model_facts
from theodolite.surveys.plan import Documents, Plan
from theodolite.surveys.survey import Survey
from theodolite.surveys.wanted import Wanted

SHARD_CHARS = 2**19
GPU_SHARD_CHARS = 2**21
"""About as many tokens as a GPU takes at a time: it waits for the first shard."""
UNKNOWN = 0.1  # the share of unknown tokens that a user should hear of


def plan(
    checkpoint: Checkpoint,
    corpus: str | Path | Iterable[str],
    wanted: Wanted,
    device: str,
    listener: Listener,
    *,
    here: str | None = None,
) -> Plan:
    """Open the corpus, load the model, and return what a run needs to know.

    `here` is the device of this process, where it is not this one that folds on `device`.
    """
    options = wanted.text_options()
    documents = open_corpus(corpus, options, listener.say)
    listener.say(f"reading {documents.name}")
    kind = device.partition(":")[0]
    shard_chars = GPU_SHARD_CHARS if kind == "cuda" else SHARD_CHARS
    # Loading wants the interpreter too; a process that drives a cluster makes no copies.
    scanning = apart if kind == "cuda" and here is None and documents.plain else beside
    scanned = scanning(lambda: scan(documents, shard_chars=shard_chars))
    hashed = beside(lambda: checkpoint.sha256)
    listener.say(f"loading {checkpoint.name}")
    tokenizer = load_tokenizer(checkpoint, trust_remote_code=wanted.trust_remote_code)
    around = _wrap(tokenizer, checkpoint.name, listener) if wanted.wrap else UNWRAPPED
    network, source = _source(checkpoint, wanted, tokenizer, here or device, end_to_end=kind == "cuda")
    source.batch_tokens = wanted.batch_tokens or batch_tokens(device, max(layer.dim for layer in source.layers))
    if wanted.target is not None and "decoder" not in {layer.stack for layer in source.anatomy.layers}:
        raise InputError(f"--target is what a decoder is fed beside an encoder; {checkpoint.name} has not both.")
    with _by_one(here or device):
        placement = placement_of(source.anatomy)
    hashed()
    found = scanned()
    source.corpus_key = int(found.sha256[:16], 16)
    shards = {shard.index: shard for shard in found.shards}
    chosen = wanted.chosen(list(shards), listener)

    def read(indices: Sequence[int]) -> Iterator[tuple[int, Documents]]:
        for shard, texts in shard_documents(documents, [shards[index] for index in indices]):
            yield shard.index, texts

    def warn(made: Survey) -> None:
        if tokenizer.unk_token_id not in special_ids(tokenizer):
            _warn_of_unknown(made, tokenizer.unk_token, listener)

    total = sum(shards[index].stop - shards[index].start for index in chosen)
    return Plan(
        source=source,
        corpus_sha256=found.sha256,
        shards=chosen,
        read=read,
        weight=lambda index: (shards[index].stop - shards[index].start) / total,
        pilot_documents=list(found.pilot),
        model_sha256=checkpoint.sha256,
        identity={
            "model": checkpoint.identity() | {"dtype": wanted.dtype, "device": device},
            "tokenizer": {"sha256": _vocabulary_sha256(tokenizer)},
            "corpus": {"sha256": found.sha256, "part": wanted.part},
            "settings": wanted.shared_settings(source)
            | {
                "max_tokens": source.max_tokens,
                "batch_tokens": source.batch_tokens,
                "shard_chars": shard_chars,
                "drop_special": wanted.drop_special,
                "wrap": bool(around),  # where it has no effect the survey is one without
                "clean_words": wanted.clean_words,
                "end_to_end": source.end_to_end,
            },
        },
        facts={
            "model": model_facts(checkpoint, network, wanted.dtype, device)
            | {
                "modality": "text",
                "level": level(tokenizer),
                "blocks": len(source.anatomy.blocks),
                "causal": source.anatomy.causal,
                "norm_placement": placement.word,
            },
            "tokenizer": {
                "class": type(tokenizer).__name__,
                "vocabulary": len(tokenizer),
                "wrapped_in": [_spelled(tokenizer, side) for side in (around.before, around.after) if side],
            },
            "corpus": {
                "name": documents.name,
                "sha256": found.sha256,
                "documents": total,
                "characters": found.characters,
                "read": found.read,
                "words_histogram": list(found.words),
                "part": wanted.part,
                "filters": asdict(options),
            },
        },
        populations=tuple(wanted.populations),
        sample_size=wanted.sample_size,
        contextuality=wanted.contextuality,
        types_bound=_types_bound(source, found.characters),
        budget=wanted.memory,
        pilot_from=wanted.pilot,
        device=device if source.resident else None,
        norms={
            layer.index: placement.leaving[layer.index]
            for layer in source.layers
            if layer.index in placement.leaving
        },
        remake=partial(
            remade,
            checkpoint,
            checkpoint.sha256,
            wanted,
            device,
            corpus_key=source.corpus_key,
            batch_tokens=source.batch_tokens,
            end_to_end=source.end_to_end,
        ),
        finally_=warn,
    )


def remade(
    checkpoint: Checkpoint,
    sha256: str,
    wanted: Wanted,
    device: str,
    *,
    corpus_key: int,
    batch_tokens: int,
    end_to_end: bool,
) -> TextSource:
    """Make the source of a plan on another machine."""
    here = found_again(checkpoint, sha256)
    tokenizer = load_tokenizer(here, trust_remote_code=wanted.trust_remote_code)
    _, source = _source(here, wanted, tokenizer, device, end_to_end=end_to_end)
    source.corpus_key, source.batch_tokens = corpus_key, batch_tokens
    return source


def _source(
    checkpoint: Checkpoint, wanted: Wanted, tokenizer: Any, device: str, *, end_to_end: bool
) -> tuple[Any, TextSource]:
    network = load_model(checkpoint, dtype=wanted.dtype, device=device, trust_remote_code=wanted.trust_remote_code)
    around = wrap_of(tokenizer) if wanted.wrap else UNWRAPPED
    with _by_one(device):
        source = TextSource(
            network,
            tokenizer,
            kind=wanted.units or "id",
            layers=wanted.layers,
            max_tokens=longest_window(network.config, tokenizer, wanted.max_tokens, around),
            drop_special=wanted.drop_special,
            wrap=wanted.wrap,
            clean_words=wanted.clean_words,
            resident=_resident(device),
            end_to_end=end_to_end,
        )
    return network, source


def _resident(device: str) -> bool:
    """Say whether sums are kept on this device while they are taken."""
    return device.partition(":")[0] == "cuda"


def _by_one(device: str) -> AbstractContextManager[None]:
    """Leave what a model's anatomy is read from to one thread: beside a GPU, to call others takes longer."""
    return one_thread() if _resident(device) else nullcontext()


def _wrap(tokenizer: Any, name: str, listener: Listener) -> Wrap:
    """Return what is put around the windows, and tell where that is nothing."""
    around = wrap_of(tokenizer)
    if not around:
        ours = " and ".join(_spelled(tokenizer, side) for side in own(tokenizer))
        listener.warn(f"--wrap has no effect on {name}: its tokenizer adds {ours} itself")
    return around


def _spelled(tokenizer: Any, ids: Sequence[int]) -> str:
    return " ".join(tokenizer.convert_ids_to_tokens(list(ids)))


def _warn_of_unknown(survey: Survey, unknown: str | None, listener: Listener) -> None:
    """Tell the user if much of the text is unknown to the tokenizer: the numbers would be about nothing."""
    tokens = survey.tokens
    seen = tokens[(tokens["unit"] == unknown) & (tokens["population"] == "all")]
    share = float(seen["n"].max()) / survey.state.positions if len(seen) else 0.0
    if share > UNKNOWN:
        listener.warn(
            f"{share:.0%} of the positions are {unknown}: is this text what the tokenizer was made for? "
            "(Residues of proteins want spaces between them.)"
        )


def _types_bound(source: TextSource, characters: int) -> int:
    """Return how many units there can be: all of a closed vocabulary, or one word for every two characters."""
    return characters // 2 + 64 if source.units.kind == "word" else min(len(source.units), characters + 64)


def _vocabulary_sha256(tokenizer: Any) -> str:
    return sha256(repr(sorted(tokenizer.get_vocab().items())).encode("utf-8", "surrogatepass")).hexdigest()
