"""Plan of a text survey: a text model and a corpus of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.corpora.fields import FieldChoice
from theodolite.corpora.scan import scan
from theodolite.corpora.shards import shard_documents
from theodolite.corpora.text_corpus import open_corpus
from theodolite.engines.engine import Documents, Plan
from theodolite.engines.progress import Listener
from theodolite.engines.threads import one_torch_thread
from theodolite.errors import InputError, first_line
from theodolite.models.checkpoint import Checkpoint, DeviceMap, load_model, load_tokenizer, locate_again
from theodolite.models.loaded_model import LoadedModel
from theodolite.models.norm_placement import Placement, trace_placement
from theodolite.sources.prefetch import run_in_process, run_in_thread
from theodolite.sources.text.chat import check_chat, hash_template
from theodolite.sources.text.contexts import ContextReader
from theodolite.sources.text.encoding import UNWRAPPED, Wrap, find_wrap, own_special_tokens
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.units import special_ids, token_level
from theodolite.sources.text.windows import choose_window_length
from theodolite.statistics.cells import cells_to_separate
from theodolite.surveys.batch_tokens import choose_batch_tokens
from theodolite.surveys.by_field import BY, describe_by, limit_memory
from theodolite.surveys.options import SurveyOptions, select_shards
from theodolite.surveys.provenance import describe_checkpoint, describe_corpus, describe_settings, make_provenance
from theodolite.surveys.resume import RecordedRun, describe_units, known_settings
from theodolite.surveys.survey import Survey
from theodolite.tables.contexts import collect_contexts

SHARD_CHARS = 2**19
GPU_SHARD_CHARS = 2**21
"""About as many tokens as one GPU batch: the GPU waits for the first shard."""
UNKNOWN = 0.1  # share of unknown tokens above which the user is warned
LEAST_IDS = 0.9  # share of the rows of an embedding table; fewer ids may be those of another tokenizer


def plan(
    checkpoint: Checkpoint | LoadedModel,
    corpus: str | Path | Iterable[Any],
    options: SurveyOptions,
    device: str,
    listener: Listener,
    *,
    local_device: str | None = None,
    resumed: RecordedRun | None = None,
    device_map: DeviceMap | None = None,
) -> Plan:
    """Open the corpus, load the model, and return what a run needs to know.

    `local_device` is the device of this process, if other processes fold on `device`. A run that is to be
    `resumed` with other settings is rejected before the model is loaded. With a `device_map` the model is spread
    over devices, and every layer is summed where its states appear.
    """
    options.reject_other_options("text")
    corpus_options = options.corpus_options()
    documents = open_corpus(corpus, corpus_options, listener.say)
    documents.check_columns()
    listener.say(f"reading {documents.name}")
    kind = device.partition(":")[0]
    shard_chars = GPU_SHARD_CHARS if kind == "cuda" else SHARD_CHARS
    # Loading needs the interpreter too, so scanning runs in a process; the driver of a cluster must not fork.
    beside = run_in_process if kind == "cuda" and local_device is None else run_in_thread
    scanning = beside if documents.plain else run_in_thread
    scanned = scanning(lambda: scan(documents, shard_chars=shard_chars, by_top=options.by_top))
    weights_sha256 = run_in_thread(lambda: checkpoint.sha256)
    filters = {name: value for name, value in asdict(corpus_options).items() if name != BY}
    if options.by is not None and (choice := scanned().by) is not None:  # a wrong field is rejected first
        for note in choice.describe():
            listener.warn(note)
    if resumed is not None:
        settings = known_settings(
            options,
            units=describe_units(options.kinds_of_units("id")),
            shard_chars=shard_chars,
            drop_special=options.drop_special,
            clean_words=options.clean_words,
            **{
                name: value
                for name in ("max_tokens", "batch_tokens", "attn", "min_count")
                if (value := getattr(options, name)) is not None
            },
        )
        model = {"sha256": weights_sha256(), "settings": checkpoint.settings_sha256}
        model |= {"dtype": options.dtype, "device": device}
        identity = {"model": model, "corpus": {"sha256": scanned().sha256, "part": options.part}}
        resumed.check(identity | {"settings": settings}, filters, incomplete=True)
    if isinstance(checkpoint, Checkpoint):
        listener.say(f"loading {checkpoint.name}")
    elif checkpoint.weights_change:
        weights_sha256()
    tokenizer = _load_tokenizer(checkpoint, options)
    digests = beside(lambda: (_vocabulary_sha256(tokenizer), checkpoint.settings_sha256))
    if options.chat:
        check_chat(tokenizer, checkpoint.name)
    wrap = _find_wrap(tokenizer, checkpoint.name, listener) if options.wrap else UNWRAPPED
    network, source = _source(
        checkpoint, options, tokenizer, local_device or device, end_to_end=kind == "cuda", device_map=device_map
    )
    rows = source.table_rows
    if rows is not None and source.ids > rows:
        listener.warn(
            f"the tokenizer has more ids than the {rows:,} rows of the embedding table of {checkpoint.name}: a "
            "text with one of the others will end the survey with an error"
        )
    elif rows is not None and isinstance(checkpoint, LoadedModel) and source.ids < LEAST_IDS * rows:
        listener.warn(
            f"the tokenizer has {source.ids:,} ids, and the embedding table of {checkpoint.name} {rows:,} rows: "
            "check that it is the tokenizer of this model"
        )
    kinds = (source, *source.others)
    holds = cells_to_separate(options.populations).sinks
    # What fits depends on what else uses a GPU now; a resumed run keeps its batches.
    before = None if resumed is None else resumed.identity["settings"].get("batch_tokens")
    chosen = options.batch_tokens or before or choose_batch_tokens(device, source, len(kinds) if holds else 0)
    for each in kinds:
        each.batch_tokens = chosen
    if options.target is not None and "decoder" not in {layer.stack for layer in source.anatomy.layers}:
        raise InputError(
            f"--target requires an encoder-decoder model, and {checkpoint.name} is not one. Omit --target."
        )
    with _one_thread_beside_gpu(local_device or device):
        find_placement = trace_placement(source.anatomy)
    placement = _find_beside(find_placement, listener) if beside is run_in_process else _known(find_placement())
    if isinstance(checkpoint, LoadedModel):  # where its tensors are; files are hashed beside the fold
        weights_sha256()
    found = scanned()
    by = None if found.by is None else limit_memory(found.by, source.layers, options.populations)
    for each in kinds:
        each.corpus_key, each.by = int(found.sha256[:16], 16), by
    shards = {shard.index: shard for shard in found.shards}
    selected = select_shards(list(shards), options.part, listener.warn)

    def read(indices: Sequence[int]) -> Iterator[tuple[int, Documents]]:
        for shard, texts in shard_documents(documents, [shards[index] for index in indices]):
            yield shard.index, texts

    def warn(made: Survey) -> None:
        if tokenizer.unk_token_id not in special_ids(tokenizer):
            _warn_of_unknown(made, tokenizer.unk_token, listener)

    def contexts_of(each: TextSource) -> Callable[[], pd.DataFrame] | None:
        reader = partial(ContextReader, each, found.characters)
        return (
            (lambda: collect_contexts(reader(), read(selected)))
            if options.text and each.units.kind != "none"
            else None
        )

    total = sum(shards[index].stop - shards[index].start for index in selected)
    by_settings, by_identity = describe_by(by, options.by_top)
    vocabulary_sha256, settings_sha256 = digests()
    provenance = make_provenance(
        model_identity={
            "sha256": "",  # known when the files are hashed; see `weights_sha256` of the plan
            "settings": settings_sha256,
            "dtype": options.dtype,
            "device": device,
        },
        vocabulary_sha256=vocabulary_sha256,
        corpus_identity={"part": options.part, **by_identity},
        settings=describe_settings(
            source.units.kind,
            [layer.index for layer in source.layers],
            options.populations,
            options.sample_size,
            contextuality=options.contextuality,
            layer_scores=options.layer_scores,
            max_tokens=source.max_tokens,
            batch_tokens=source.batch_tokens,
            shard_chars=shard_chars,
            drop_special=options.drop_special,
            wrap=bool(wrap),  # without effect, the survey is the same as without the option
            clean_words=options.clean_words,
            end_to_end=source.end_to_end,
            attn=options.attn,
            chat=options.chat and hash_template(tokenizer),
            min_count=options.min_count or 1,  # a smaller memory may require more: see `run`
            **by_settings,
            **({"attention": True} if options.attention else {}),
        ),
        model=describe_checkpoint(
            checkpoint,
            network,
            options.dtype,
            device,
            sha256="",
            modality="text",
            level=token_level(tokenizer),
            blocks=len(source.anatomy.blocks),
            causal=source.anatomy.causal,
            **(checkpoint.facts() if isinstance(checkpoint, LoadedModel) else {}),
        ),
        tokenizer={
            "class": type(tokenizer).__name__,
            "vocabulary": len(tokenizer),
            "wrapped_in": [_tokens_text(tokenizer, side) for side in (wrap.before, wrap.after) if side],
        },
        corpus=describe_corpus(
            documents.name,
            found.sha256,
            total,
            characters=found.characters,
            read=found.read,
            words_histogram=list(found.words),
            part=options.part,
            filters=filters,
        ),
    )
    made = Plan(
        source=source,
        corpus_sha256=found.sha256,
        shards=selected,
        read=read,
        weight=lambda index: (shards[index].stop - shards[index].start) / total,
        pilot_documents=list(found.pilot),
        weights_sha256=weights_sha256,
        identity=provenance.identity,
        facts=provenance.facts,
        populations=tuple(options.populations),
        sample_size=options.sample_size,
        contextuality=options.contextuality,
        layer_scores=options.layer_scores,
        min_count=_min_count(source, options),
        min_count_given=options.min_count is not None and _can_omit_vectors(source, options),
        corpus_shards=list(shards),
        types_bound=_types_bound(source, found.characters),
        budget=options.memory_bytes,
        pilot_from=options.pilot_location,
        device=device if source.resident else None,
        placement=placement,
        remake=None
        if local_device is None or isinstance(checkpoint, LoadedModel)
        else partial(
            remake_source,
            checkpoint,
            weights_sha256(),
            options,
            device,
            corpus_key=source.corpus_key,
            batch_tokens=source.batch_tokens,
            end_to_end=source.end_to_end,
            by=by,
        ),
        by=by,
        contexts=contexts_of(source),
        finish=warn,
    )
    bounds = [_types_bound(other, found.characters) for other in kinds[1:]]
    others = map(partial(_by_other_units, made), kinds[1:], bounds, map(contexts_of, kinds[1:]))
    return replace(made, others=tuple(others))


def _known(placement: Placement) -> Callable[[], Placement]:
    return lambda: placement


def _find_beside(find: Callable[[], Placement], listener: Listener) -> Callable[[], Placement]:
    """Start to find the norm placement in another process, and return a function that waits for it.

    It is asked for when everything else is done, so an error is a warning: it must not cost a finished survey.
    """
    waiting = run_in_process(find)

    @cache
    def wait() -> Placement:
        try:
            return waiting()
        except Exception as error:
            listener.warn(f"the norm placement of the model is not recorded: {first_line(error)}")
            return Placement(None, {})

    return wait


def _by_other_units(
    plan: Plan, source: TextSource, types_bound: int, contexts: Callable[[], pd.DataFrame] | None
) -> Plan:
    """Return the plan of the same survey by another kind of unit."""
    identity = {**plan.identity, "settings": {**plan.identity["settings"], "units": source.units.kind}}
    return replace(plan, source=source, identity=identity, types_bound=types_bound, contexts=contexts)


def remake_source(
    checkpoint: Checkpoint,
    sha256: str,
    options: SurveyOptions,
    device: str,
    *,
    corpus_key: int,
    batch_tokens: int,
    end_to_end: bool,
    by: FieldChoice | None = None,
) -> TextSource:
    """Make the source of a plan on another machine."""
    local = locate_again(checkpoint, sha256)
    tokenizer = _load_tokenizer(local, options)
    _, source = _source(local, options, tokenizer, device, end_to_end=end_to_end)
    source.corpus_key, source.batch_tokens, source.by = corpus_key, batch_tokens, by
    return source


def _load_tokenizer(checkpoint: Checkpoint | LoadedModel, options: SurveyOptions) -> Any:
    if isinstance(checkpoint, LoadedModel):
        return checkpoint.tokenizer
    return load_tokenizer(checkpoint, trust_remote_code=options.trust_remote_code)


def _load_network(
    checkpoint: Checkpoint | LoadedModel, options: SurveyOptions, device: str, device_map: DeviceMap | None
) -> Any:
    if isinstance(checkpoint, LoadedModel):
        return checkpoint.network
    return load_model(
        checkpoint,
        dtype=options.dtype,
        device=device,
        trust_remote_code=options.trust_remote_code,
        attn=options.attn,
        device_map=device_map,
    )


def _source(
    checkpoint: Checkpoint | LoadedModel,
    options: SurveyOptions,
    tokenizer: Any,
    device: str,
    *,
    end_to_end: bool,
    device_map: DeviceMap | None = None,
) -> tuple[Any, TextSource]:
    kind, *others = options.kinds_of_units("id")
    network = _load_network(checkpoint, options, device, device_map)
    wrap = find_wrap(tokenizer) if options.wrap else UNWRAPPED
    with _one_thread_beside_gpu(device):
        source = TextSource(
            network,
            tokenizer,
            kind=kind,
            other_kinds=others,
            layers=options.layers,
            max_tokens=choose_window_length(network.config, tokenizer, options.max_tokens, wrap),
            drop_special=options.drop_special,
            wrap=options.wrap,
            clean_words=options.clean_words,
            chat=options.chat,
            resident=_resident(device),
            end_to_end=end_to_end,
            streams=options.streams,
            attention=options.attention,
        )
    return network, source


def _resident(device: str) -> bool:
    """Return whether sums are accumulated on this device."""
    return device.partition(":")[0] == "cuda"


def _one_thread_beside_gpu(device: str) -> AbstractContextManager[None]:
    """Use one CPU thread for small forward passes next to a GPU, where more threads take longer."""
    return one_torch_thread() if _resident(device) else nullcontext()


def _find_wrap(tokenizer: Any, name: str, listener: Listener) -> Wrap:
    """Return the tokens to add around every window, and warn if there are none."""
    wrap = find_wrap(tokenizer)
    if not wrap:
        own = " and ".join(_tokens_text(tokenizer, side) for side in own_special_tokens(tokenizer))
        listener.warn(f"--wrap has no effect on {name}: its tokenizer already adds {own}")
    return wrap


def _tokens_text(tokenizer: Any, ids: Sequence[int]) -> str:
    return " ".join(tokenizer.convert_ids_to_tokens(list(ids)))


def _warn_of_unknown(survey: Survey, unknown: str | None, listener: Listener) -> None:
    """Warn if much of the text is unknown to the tokenizer: the numbers would mean nothing."""
    if unknown is None or not (survey.units["unit"] == unknown).any():
        return
    # One layer of each stack: all layers have the same positions, and a large survey has millions of rows.
    found = [layer for layer in survey.facts["layers"] if layer.get("units", True)]
    layers = {layer.get("stack", ""): layer["index"] for layer in reversed(found)}
    tokens = survey.tokens[survey.tokens["layer"].isin(layers.values())]
    seen = tokens[(tokens["unit"] == unknown) & (tokens["population"] == "all")]
    share = float(seen["n"].max()) / survey.state.positions if len(seen) else 0.0
    if share > UNKNOWN:
        listener.warn(
            f"{share:.0%} of the positions are {unknown}: is this the kind of text that the tokenizer was made "
            "for? (Protein sequences need spaces between residues.)"
        )


def _min_count(source: TextSource, options: SurveyOptions) -> int | None:
    """Return the least occurrences of a unit with a vector; None if they may depend on the memory."""
    if not _can_omit_vectors(source, options):
        if (options.min_count or 1) > 1:
            raise InputError(
                f"--min-count {options.min_count}: the positions of some layers belong to no units. "
                "Omit --min-count."
            )
        return 1
    return options.min_count


def _can_omit_vectors(source: TextSource, options: SurveyOptions) -> bool:
    """Return whether rare units may be left without a vector."""
    return (
        not options.contextuality and source.units.kind != "none" and all(layer.units for layer in source.layers)
    )


def _types_bound(source: TextSource, characters: int) -> int:
    """Return the largest possible number of units: the vocabulary, or one word per two characters."""
    return characters // 2 + 64 if source.units.open else min(len(source.units), characters + 64)


def _vocabulary_sha256(tokenizer: Any) -> str:
    return sha256(repr(sorted(tokenizer.get_vocab().items())).encode("utf-8", "surrogatepass")).hexdigest()
