"""The clouds laboratory: documents of several corpora as vectors, as they are and again at matched length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
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
    Sample,
    check_limit,
    common_length,
    draw_documents,
    first_occurrences,
    truncate_texts,
)
from theodolite.studies.embeddings_2d import FEWEST, parse_methods, project_2d
from theodolite.studies.laboratory import Findings, make_facts
from theodolite.studies.sentences import SentenceReader, check_pooling, embed_with_reader, warn_of_first_token
from theodolite.studies.text_model import load_text_model

Array = NDArray[np.float64]
AS_IS, MATCHED = "as-is", "matched"
Rows = list[dict[str, Any]]
Texts = Mapping[str, list[tuple[str, int]]]
"""By corpus: documents, each with its number of tokens."""


def clouds(
    model: str | Path,
    corpora: Sequence[str | Path | Iterable[str]],
    *,
    limit: int = 400,
    first: bool = False,
    layers: str | Sequence[int] = "-1",
    pooling: str = "mean",
    max_tokens: int = 128,
    projections: str = "pca,tsne,umap",
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    device: str = "cpu",
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Compute document vectors of two or more corpora at some layers and measure how separate the clouds are.

    From each corpus `limit` documents are drawn and truncated to `max_tokens` tokens. Everything is reported
    `as-is` and `matched`: every document truncated to the same number of tokens, shorter ones skipped. Tables:
    documents, separations, summaries, histograms, places, axes.
    """
    listener = listener or Listener()
    check_pooling(pooling)
    check_limit(limit)
    methods = parse_methods(projections)
    _check_numbers(max_tokens, permutations)
    samples = draw_documents(corpora, limit, seed=seed, first=first, say=listener.say)
    loaded = load_text_model(
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    reader = SentenceReader(loaded.network, loaded.tokenizer, layers=layers, truncate=True)
    warn_of_first_token(reader, pooling, listener)
    longest = reader.source.max_tokens - int(loaded.tokenizer.num_special_tokens_to_add())
    texts, numbers = _truncate_samples(loaded.tokenizer, samples, min(max_tokens, longest))
    _check_tokens(texts)
    matched, warnings = _match_lengths(loaded.tokenizer, texts)
    for warning in warnings:
        listener.warn(warning)
    states, documents = {}, []
    versions = {AS_IS: texts, MATCHED: matched}
    for lengths, by_corpus in versions.items():
        counts = ", ".join(f"{len(pairs):,} of {name}" for name, pairs in by_corpus.items())
        listener.say(f"{lengths}: reading {counts}")
        states[lengths] = _embed(reader, by_corpus, pooling)
        documents += _document_rows(lengths, by_corpus, numbers if lengths == AS_IS else None)
    tokens = {
        lengths: {name: [count for _, count in pairs] for name, pairs in by_corpus.items()}
        for lengths, by_corpus in versions.items()
    }
    listener.say("measuring")
    names = {layer.index: layer.name for layer in reader.layers}
    tables = measure_clouds(states, tokens, names, methods=methods, permutations=permutations, seed=seed)
    matched_tokens = next((count for pairs in matched.values() for _, count in pairs), None)
    facts = make_facts(
        "clouds",
        loaded.facts,
        pooling=pooling,
        limit=limit,
        first=first,
        max_tokens=min(max_tokens, longest),
        matched_tokens=matched_tokens,
        projections=methods,
        permutations=permutations,
        seed=seed,
    )
    facts |= {
        "layers": [asdict(layer) for layer in reader.layers],
        "corpus": {
            "name": ", ".join(sample.name for sample in samples),
            "documents": sum(len(s.texts) for s in samples),
        },
        "corpora": [
            {"name": s.name, "documents": len(s.texts), "read": s.read, "repeated": s.repeated} for s in samples
        ],
        "warnings": warnings,
    }
    return Findings(facts, {"documents": pd.DataFrame(documents).astype({"number": "Int64"}), **tables})


def measure_clouds(
    states: Mapping[str, Mapping[int, Mapping[str, Array]]],
    tokens: Mapping[str, Mapping[str, Sequence[int]]],
    names: Mapping[int, str],
    *,
    methods: Sequence[str] = ("pca",),
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> dict[str, pd.DataFrame]:
    """Return the tables; states: by lengths, layer and corpus (documents, dim)."""
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
            separations = separation_rows(clouds, tokens[lengths], seed=seed, permutations=permutations)
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


def _truncate_samples(
    tokenizer: Any, samples: Sequence[Sample], tokens: int
) -> tuple[Texts, dict[str, list[int]]]:
    """Return the documents truncated to a number of tokens without duplicates, and their numbers in the corpora.

    Two documents that are equal up to there would give equal vectors in the training and the test data.
    """
    texts, numbers = {}, {}
    for sample in samples:
        truncated = truncate_texts(tokenizer, sample.texts, tokens)
        kept = first_occurrences([text for text, _ in truncated])
        texts[sample.name] = [truncated[at] for at in kept]
        numbers[sample.name] = [sample.numbers[at] for at in kept]
    return texts, numbers


def _match_lengths(tokenizer: Any, texts: Texts) -> tuple[Texts, list[str]]:
    """Return the documents truncated to a common number of tokens, shorter ones skipped, and warnings."""
    length = common_length([[count for _, count in pairs] for pairs in texts.values()])
    if length < MIN_TOKENS:
        warning = (
            f"Half of the documents of a corpus have fewer than {MIN_TOKENS} tokens, so there are no results at "
            "matched length."
        )
        return {name: [] for name in texts}, [warning]
    long = {name: [text for text, count in pairs if count >= length] for name, pairs in texts.items()}
    short = {}
    for name, documents in long.items():
        truncated = truncate_texts(tokenizer, documents, length)
        # A text truncated inside a word may have another number of tokens, and two texts may become equal.
        short[name] = [
            truncated[at]
            for at in first_occurrences([text for text, _ in truncated])
            if truncated[at][1] == length
        ]
    lost = sum(map(len, long.values())) - sum(map(len, short.values()))
    return short, [
        f"{lost} documents were skipped at matched length: truncated to {length} tokens they are equal to another "
        "document or have a different number of tokens."
    ] if lost else []


def _embed(reader: SentenceReader, texts: Texts, how: str) -> dict[int, dict[str, Array]]:
    every = [text for pairs in texts.values() for text, _ in pairs]
    ends = np.cumsum([len(pairs) for pairs in texts.values()])[:-1]
    vectors = embed_with_reader(reader, every, how)
    return {
        layer: dict(zip(texts, np.split(states.double().numpy(), ends), strict=True))
        for layer, states in vectors.items()
    }


def _document_rows(lengths: str, texts: Texts, numbers: Mapping[str, Sequence[int]] | None) -> Rows:
    """Return one row per document, with its number in the corpus if it is known."""
    return [
        {
            "lengths": lengths,
            "corpus": name,
            "document": at,
            "number": None if numbers is None else numbers[name][at],
            "tokens": count,
        }
        for name, pairs in texts.items()
        for at, (_, count) in enumerate(pairs)
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
    for name, pairs in texts.items():
        blank = sum(count == 0 for _, count in pairs)
        if blank:
            raise InputError(f"CORPUS {name!r}: {blank} documents have no tokens in this vocabulary; remove them.")
