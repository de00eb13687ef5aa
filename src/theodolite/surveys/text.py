"""Surveying text: what the user asks for, checked early and made into a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, nearest
from theodolite.sources.corpus import CorpusOptions, open_corpus, scan, shard_documents
from theodolite.sources.text.checkpoint import DTYPES, Checkpoint, load_model, load_tokenizer, resolve
from theodolite.sources.text.placement import placement_of
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.vocabulary import KINDS, special_ids
from theodolite.sources.text.windows import longest_window
from theodolite.statistics.cells import POPULATIONS
from theodolite.surveys.folder import check_free
from theodolite.surveys.listener import Listener
from theodolite.surveys.pilot import MASSIVE
from theodolite.surveys.run import Documents, Plan, part_of, run
from theodolite.surveys.survey import Survey

SHARD_CHARS = 2**19
UNKNOWN = 0.1  # the share of unknown tokens that a user should hear of
BATCH_TOKENS = {"cpu": 4096, "cuda": 32768}


def survey(
    model: str | Path,
    corpus: str | Path | Iterable[str],
    *,
    out: str | Path | None = None,
    units: str = "id",
    layers: str | Sequence[int] | None = None,
    min_words: int | None = None,
    max_words: int | None = None,
    sample: float | None = None,
    seed: int = 0,
    limit: int | None = None,
    field: str = "text",
    column: str = "text",
    encoding_errors: str = "strict",
    max_tokens: int | None = None,
    batch_tokens: int | None = None,
    drop_special: bool = False,
    populations: Sequence[str] = tuple(POPULATIONS),
    sample_size: int = 4096,
    pilot: str | Path | None = None,
    part: str | None = None,
    memory: int | None = None,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    checkpoint_every: float = 60.0,
) -> Survey:
    """Carry a corpus through a model once and measure every layer.

    `model` is a catalogue name, a folder, a .gguf file or a hub name; `corpus` a catalogue name, a file, a glob or
    strings. With `out` the run is checkpointed and leaves its folder there; without, it stays in memory until
    `Survey.save`. `batch_tokens` is the padded size of a batch; `part` "i/n" folds every n-th shard, for merging.
    """
    listener = listener or Listener()
    folder = Path(out) if out is not None else None
    _check_words(units, populations, dtype, sample_size, batch_tokens)
    if folder is not None and not resume:
        check_free(folder, overwrite=overwrite)
    options = CorpusOptions(
        field, column, min_words, max_words, sample, seed, limit, encoding_errors=encoding_errors
    )
    documents = open_corpus(corpus, options, listener.say)
    listener.say(f"reading {documents.name}")
    found = scan(documents, shard_chars=SHARD_CHARS)
    checkpoint = resolve(str(model), revision=revision, progress=listener.say)
    listener.say(f"loading {checkpoint.name}")
    tokenizer = load_tokenizer(checkpoint, trust_remote_code=trust_remote_code)
    where = device or _best_device()
    network = load_model(checkpoint, dtype=dtype, device=where, trust_remote_code=trust_remote_code)
    source = TextSource(
        network,
        tokenizer,
        corpus_key=int(found.sha256[:16], 16),
        kind=units,
        layers=layers,
        max_tokens=longest_window(network.config, tokenizer, max_tokens),
        batch_tokens=batch_tokens or BATCH_TOKENS.get(where.partition(":")[0], BATCH_TOKENS["cpu"]),
        drop_special=drop_special,
    )
    placement = placement_of(source.anatomy)
    shards = {shard.index: shard for shard in found.shards}
    chosen = list(part_of(list(shards), part))
    if not chosen:
        raise InputError(f"--part {part}: the corpus has only {len(shards)} shards, so this part is empty.")

    def read(wanted: Sequence[int]) -> Iterator[tuple[int, Documents]]:
        for shard, texts in shard_documents(documents, [shards[index] for index in wanted]):
            yield shard.index, texts

    identity = {
        "model": {"sha256": checkpoint.sha256, "dtype": dtype, "device": where},
        "tokenizer": {"sha256": _vocabulary_sha256(tokenizer)},
        "corpus": {"sha256": found.sha256, "part": part},
        "settings": {
            "units": units,
            "layers": [layer.index for layer in source.layers],
            "populations": list(populations),
            "max_tokens": source.max_tokens,
            "batch_tokens": source.batch_tokens,
            "shard_chars": SHARD_CHARS,
            "drop_special": drop_special,
            "sample_size": sample_size,
            "massive": MASSIVE,
        },
    }
    total = sum(shards[index].stop - shards[index].start for index in chosen)
    plan = Plan(
        source=source,
        corpus_sha256=found.sha256,
        shards=chosen,
        read=read,
        weight=lambda index: (shards[index].stop - shards[index].start) / total,
        pilot_documents=list(found.pilot),
        model_sha256=checkpoint.sha256,
        identity=identity,
        facts={
            "model": _model_facts(checkpoint, source, network, dtype, where) | {"norm_placement": placement.word},
            "tokenizer": {"class": type(tokenizer).__name__, "vocabulary": len(tokenizer)},
            "corpus": {
                "name": documents.name,
                "sha256": found.sha256,
                "documents": total,
                "characters": found.characters,
                "read": found.read,
                "words_histogram": list(found.words),
                "part": part,
                "filters": asdict(options),
            },
        },
        populations=tuple(populations),
        sample_size=sample_size,
        types_bound=_types_bound(source, found.characters),
        budget=memory,
        pilot_from=Path(pilot) if pilot is not None else None,
        norms={
            layer.index: placement.leaving[layer.index]
            for layer in source.layers
            if layer.index in placement.leaving
        },
    )
    found_survey = run(
        plan,
        out=folder,
        resume=resume,
        overwrite=overwrite,
        listener=listener,
        checkpoint_every=checkpoint_every,
    )
    if tokenizer.unk_token_id not in special_ids(tokenizer):
        _warn_of_unknown(found_survey, tokenizer.unk_token, listener)
    return found_survey


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


def _check_words(
    units: str, populations: Sequence[str], dtype: str, sample_size: int, batch_tokens: int | None
) -> None:
    """Refuse what no model or corpus could mend, before anything is loaded."""
    if units not in KINDS:
        raise InputError(f"--units {units!r} is not one of {', '.join(KINDS)}.{nearest(units, list(KINDS))}")
    unknown = [name for name in populations if name not in POPULATIONS]
    if unknown:
        raise InputError(f"--populations: {unknown[0]!r} is not one of {', '.join(POPULATIONS)}.")
    if "all" not in populations:
        raise InputError("--populations must include 'all'; the others are told beside it.")
    if dtype not in DTYPES:
        raise InputError(f"--dtype {dtype!r} is not one of {', '.join(DTYPES)}.")
    if sample_size < 0:
        raise InputError(f"--sample-size {sample_size}: wanted 0 or more vectors a layer.")
    if batch_tokens is not None and batch_tokens < 1:
        raise InputError(f"--batch-tokens {batch_tokens}: wanted at least 1.")


def _best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _types_bound(source: TextSource, characters: int) -> int:
    """Return how many units there can be: all of a closed vocabulary, or one word for every two characters."""
    return characters // 2 + 64 if source.units.kind == "word" else min(len(source.units), characters + 64)


def _vocabulary_sha256(tokenizer: Any) -> str:
    return sha256(repr(sorted(tokenizer.get_vocab().items())).encode("utf-8", "surrogatepass")).hexdigest()


def _model_facts(
    checkpoint: Checkpoint, source: TextSource, network: Any, dtype: str, device: str
) -> dict[str, Any]:
    return {
        "name": checkpoint.name,
        "sha256": checkpoint.sha256,
        "revision": checkpoint.revision,
        "architecture": type(network).__name__,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "blocks": len(source.anatomy.blocks),
        "causal": source.anatomy.causal,
        "dtype": dtype,
        "device": device,
    }
