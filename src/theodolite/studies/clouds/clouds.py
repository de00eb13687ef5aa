"""The clouds laboratory: documents of several corpora as vectors, as they are, at matched length, and plain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.studies.clouds.comparison import (
    METRICS,
    PERMUTATIONS,
    bin_edges,
    histogram_rows,
    pair_values,
    separation_rows,
    summary_rows,
)
from theodolite.studies.clouds.documents import (
    MIN_TOKENS,
    Document,
    Sample,
    check_limit,
    common_length,
    draw_documents,
    first_occurrences,
    truncate_texts,
)
from theodolite.studies.clouds.surface import plain_text, surface_features
from theodolite.studies.embeddings_2d import FEWEST, parse_methods, project_2d
from theodolite.studies.laboratory import Findings, check_laboratory_folder, make_facts
from theodolite.studies.pooling import DEFAULT_POOLING, Embedded, check_pooling, embed_with_reader, report_pooling
from theodolite.studies.sentences import SentenceReader
from theodolite.studies.text_model import load_text_model
from theodolite.studies.tokenization import token_ids

Array = NDArray[np.float64]
AS_IS, MATCHED, PLAIN = "as-is", "matched", "plain"
Rows = list[dict[str, Any]]
Texts = Mapping[str, list[Document]]
"""By corpus."""


def clouds(
    model: str | Path,
    corpora: Sequence[str | Path | Iterable[str]],
    *,
    out: str | Path | None = None,
    limit: int = 400,
    first: bool = False,
    layers: str | Sequence[int] = "-1",
    pooling: str = DEFAULT_POOLING,
    population: str | None = None,
    max_tokens: int = 128,
    projections: str = "pca,tsne,umap",
    permutations: int = PERMUTATIONS,
    sources: str | int | None = None,
    seed: int = 0,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Compute document vectors of two or more corpora at some layers and measure how separate the clouds are.

    From each corpus `limit` documents are drawn and truncated to `max_tokens` tokens. Everything is reported
    `as-is`; `matched`: every document truncated to the same number of tokens, shorter ones skipped; and `plain`:
    at matched length without capitals, punctuation and unknown words. `population` says which positions are
    pooled, by default all but sinks. `sources` says which documents belong together in folds and permutations:
    those of one "file", or this many consecutive ones. Tables: documents, separations, summaries, histograms,
    places, axes.
    """
    listener = listener or Listener()
    check_pooling(pooling, population)
    check_limit(limit)
    methods = parse_methods(projections)
    _check_numbers(max_tokens, permutations)
    check_laboratory_folder(out, "clouds", overwrite=overwrite)
    samples = draw_documents(corpora, limit, seed=seed, first=first, sources=sources, say=listener.say)
    loaded = load_text_model(
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    reader = SentenceReader(loaded.network, loaded.tokenizer, layers=layers, truncate=True)
    longest = reader.source.max_tokens - int(loaded.tokenizer.num_special_tokens_to_add())
    texts = _truncate_samples(loaded.tokenizer, samples, min(max_tokens, longest))
    _check_tokens(texts)
    matched, warnings = _match_lengths(loaded.tokenizer, texts)
    for warning in warnings:
        listener.warn(warning)
    states, documents = {}, []
    versions = {AS_IS: texts, MATCHED: matched, PLAIN: _make_plain(loaded.tokenizer, texts)}
    chosen = population
    for lengths, by_corpus in versions.items():
        counts = ", ".join(f"{len(found):,} of {name}" for name, found in by_corpus.items())
        listener.say(f"{lengths}: reading {counts}")
        states[lengths], embedded = _embed(reader, by_corpus, pooling, chosen)
        documents += _document_rows(lengths, by_corpus)
        if lengths == AS_IS and embedded is not None:  # the others are pooled as the whole documents are
            chosen, about = embedded.population, embedded.describe()
            warnings += report_pooling(reader, pooling, embedded, listener)
    tokens, groups = (
        {
            lengths: {name: [getattr(each, field) for each in found] for name, found in by_corpus.items()}
            for lengths, by_corpus in versions.items()
        }
        for field in ("tokens", "source")
    )
    listener.say("measuring")
    names = {layer.index: layer.name for layer in reader.layers}
    tables = measure_clouds(
        states,
        tokens,
        names,
        sources=groups,
        surface={lengths: _surface(loaded.tokenizer, by_corpus) for lengths, by_corpus in versions.items()},
        methods=methods,
        permutations=permutations,
        seed=seed,
    )
    matched_tokens = next((each.tokens for found in matched.values() for each in found), None)
    facts = make_facts(
        "clouds",
        loaded.facts,
        pooling=pooling,
        population=chosen,
        sources=sources,
        limit=limit,
        first=first,
        max_tokens=min(max_tokens, longest),
        matched_tokens=matched_tokens,
        projections=methods,
        permutations=permutations,
        seed=seed,
    )
    facts |= {
        "layers": [layer.facts() for layer in reader.layers],
        "corpus": {
            "name": ", ".join(sample.name for sample in samples),
            "documents": sum(len(s.texts) for s in samples),
        },
        "corpora": [
            {"name": s.name, "documents": len(s.texts), "read": s.read, "repeated": s.repeated} for s in samples
        ],
        "warnings": warnings,
        **about,
    }
    findings = Findings(facts, {"documents": pd.DataFrame(documents).astype({"number": "Int64"}), **tables})
    return findings.save_if_asked(out, overwrite=overwrite)


def measure_clouds(
    states: Mapping[str, Mapping[int, Mapping[str, Array]]],
    tokens: Mapping[str, Mapping[str, Sequence[int]]],
    names: Mapping[int, str],
    *,
    sources: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    surface: Mapping[str, Mapping[str, Mapping[str, Array]]] | None = None,
    methods: Sequence[str] = ("pca",),
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> dict[str, pd.DataFrame]:
    """Return the tables. states: by lengths, layer and corpus (documents, dim); others: by lengths and corpus."""
    rows_by_table: dict[str, Rows] = {
        name: [] for name in ("separations", "summaries", "histograms", "places", "axes")
    }
    for layer, name in names.items():
        values = {lengths: pair_values(by_layer[layer]) for lengths, by_layer in states.items()}
        edges = {
            metric: bin_edges(
                metric, [v for part in values.values() for key, v in part.items() if key[0] == metric]
            )
            for metric in METRICS
        }
        for lengths, by_layer in states.items():
            clouds = by_layer[layer]
            head = {"layer": layer, "layer_name": name, "lengths": lengths}
            separations = separation_rows(
                clouds,
                tokens[lengths],
                sources=sources[lengths] if sources else None,
                surface=surface[lengths] if surface else None,
                seed=seed,
                permutations=permutations,
            )
            rows_by_table["separations"] += [head | row for row in separations]
            rows_by_table["summaries"] += [head | row for row in summary_rows(values[lengths])]
            rows_by_table["histograms"] += [head | row for row in histogram_rows(values[lengths], edges)]
            for method in methods:
                places, shares = _project(clouds, method, seed)
                rows_by_table["places"] += [head | {"method": method} | row for row in places]
                rows_by_table["axes"] += [
                    head | {"method": method, "axis": axis, "share": share} for axis, share in enumerate(shares, 1)
                ]
    columns = {
        "places": "layer layer_name lengths method corpus document x y".split(),
        "axes": "layer layer_name lengths method axis share".split(),
    }
    return {name: pd.DataFrame(rows, columns=columns.get(name)) for name, rows in rows_by_table.items()}


def _project(clouds: Mapping[str, Array], method: str, seed: int) -> tuple[Rows, list[float]]:
    x = np.concatenate(list(clouds.values()))
    if len(x) < FEWEST or not np.isfinite(x).all():
        return [], []
    places, shares = project_2d(x, method, seed=seed)
    names = [(name, number) for name, cloud in clouds.items() for number in range(len(cloud))]
    rows = [
        {"corpus": name, "document": number, "x": float(px), "y": float(py)}
        for (name, number), (px, py) in zip(names, places, strict=True)
    ]
    return rows, shares


def _truncate_samples(tokenizer: Any, samples: Sequence[Sample], tokens: int) -> Texts:
    """Return the documents truncated to a number of tokens, without duplicates.

    Two documents that are equal up to there would give equal vectors in the training and the test data.
    """
    return {
        sample.name: _truncate(
            tokenizer,
            list(map(Document, sample.texts, repeat(0), sample.numbers, sample.sources)),
            tokens,
        )
        for sample in samples
    }


def _truncate(tokenizer: Any, documents: Sequence[Document], tokens: int) -> list[Document]:
    truncated = truncate_texts(tokenizer, [document.text for document in documents], tokens)
    kept = first_occurrences([text for text, _ in truncated])
    return [replace(documents[at], text=truncated[at][0], tokens=truncated[at][1]) for at in kept]


def _match_lengths(tokenizer: Any, texts: Texts) -> tuple[Texts, list[str]]:
    """Return the documents truncated to a common number of tokens, shorter ones skipped, and warnings."""
    length = common_length([[document.tokens for document in documents] for documents in texts.values()])
    if length < MIN_TOKENS:
        warning = (
            f"Half of the documents of a corpus have fewer than {MIN_TOKENS} tokens, so there are no results at "
            "matched length."
        )
        return {name: [] for name in texts}, [warning]
    long = {name: [each for each in documents if each.tokens >= length] for name, documents in texts.items()}
    # A text truncated inside a word may have another number of tokens, and two texts may become equal.
    short = {
        name: [each for each in _truncate(tokenizer, documents, length) if each.tokens == length]
        for name, documents in long.items()
    }
    lost = sum(map(len, long.values())) - sum(map(len, short.values()))
    return short, [
        f"{lost} documents were skipped at matched length: truncated to {length} tokens they are equal to another "
        "document or have a different number of tokens."
    ] if lost else []


def _make_plain(tokenizer: Any, texts: Texts) -> Texts:
    """Return the documents without capitals, punctuation and unknown words, at matched length."""
    plain = {}
    for name, documents in texts.items():
        bare = [replace(each, text=plain_text(each.text)) for each in documents]
        plain[name] = _truncate(tokenizer, [each for each in bare if each.text], max(d.tokens for d in documents))
    if not all(plain.values()):
        return {name: [] for name in texts}
    return _match_lengths(tokenizer, plain)[0]


def _embed(
    reader: SentenceReader, texts: Texts, how: str, population: str | None
) -> tuple[dict[int, dict[str, Array]], Embedded | None]:
    every = [document.text for documents in texts.values() for document in documents]
    ends = np.cumsum([len(documents) for documents in texts.values()])[:-1]
    if not every:
        return {layer.index: {name: np.empty((0, layer.dim)) for name in texts} for layer in reader.layers}, None
    embedded = embed_with_reader(reader, every, how, population=population)
    return {
        layer: dict(zip(texts, np.split(states.double().numpy(), ends), strict=True))
        for layer, states in embedded.vectors.items()
    }, embedded


def _surface(tokenizer: Any, texts: Texts) -> dict[str, dict[str, Array]]:
    unknown = getattr(tokenizer, "unk_token_id", None)
    found = {}
    for name, documents in texts.items():
        written = [document.text for document in documents]
        shares = [ids.count(unknown) / max(len(ids), 1) for ids in token_ids(tokenizer, written)]
        found[name] = surface_features(written, shares)
    return found


def _document_rows(lengths: str, texts: Texts) -> Rows:
    """Return one row per document, with its number in the corpus and its source."""
    return [
        {
            "lengths": lengths,
            "corpus": name,
            "document": at,
            "number": document.number,
            "tokens": document.tokens,
            "source": document.source,
        }
        for name, documents in texts.items()
        for at, document in enumerate(documents)
    ]


def _check_numbers(max_tokens: int, permutations: int) -> None:
    if max_tokens < MIN_TOKENS:
        raise InputError(f"--max-tokens must be at least {MIN_TOKENS} (got {max_tokens}).")
    if not 19 <= permutations <= 99_999:
        raise InputError(
            f"--permutations must be between 19 and 99,999 (got {permutations:,}); p is never below "
            "1/(permutations + 1)."
        )


def _check_tokens(texts: Texts) -> None:
    for name, documents in texts.items():
        blank = sum(document.tokens == 0 for document in documents)
        if blank:
            raise InputError(f"CORPUS {name!r}: {blank} documents have no tokens in this vocabulary; remove them.")
