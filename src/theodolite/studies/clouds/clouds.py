"""The clouds laboratory: documents of several corpora as vectors, as they are and again at equal length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.studies.clouds.distributions import (
    METRICS,
    edges_of,
    histogram_rows,
    summary_rows,
    values,
)
from theodolite.studies.clouds.documents import Drawn, check_limit, draw
from theodolite.studies.clouds.lengths import SHORTEST, common_length, cut, first_of_each
from theodolite.studies.clouds.projections import check_methods, project
from theodolite.studies.clouds.separation import PERMUTATIONS, separation_rows
from theodolite.studies.first_token import warn_of_first
from theodolite.studies.laboratory import Findings, facts_of
from theodolite.studies.pooling import check_pooling, pooled_by
from theodolite.studies.sentence_states import SentenceReader
from theodolite.studies.text_model import load_text_model
from theodolite.surveys.listener import Listener

Array = NDArray[np.float64]
AS_IS, MATCHED = "as-is", "matched"
Rows = list[dict[str, Any]]


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
    """Pool documents of two or more corpora at some layers and measure how far the clouds are apart.

    Of each corpus `limit` documents are drawn, each read up to `max_tokens` tokens. Everything is told `as-is` and
    `matched`: every document cut to one number of tokens, shorter ones left out. Tables: documents, separations,
    summaries, histograms, places, axes.
    """
    listener = listener or Listener()
    check_pooling(pooling)
    check_limit(limit)
    methods = check_methods(projections)
    _check_numbers(max_tokens, permutations)
    drawn = draw(corpora, limit, seed=seed, first=first, say=listener.say)
    loaded = load_text_model(
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    reader = SentenceReader(loaded.network, loaded.tokenizer, layers=layers, truncate=True)
    warn_of_first(reader, pooling, listener)
    room = reader.source.max_tokens - int(loaded.tokenizer.num_special_tokens_to_add())
    texts, numbers = _different(loaded.tokenizer, drawn, min(max_tokens, room))
    _check_spelled(texts)
    equal, told = _equal(loaded.tokenizer, texts)
    for words in told:
        listener.warn(words)
    states, documents = {}, []
    for lengths, held in ((AS_IS, texts), (MATCHED, equal)):
        counts = ", ".join(f"{len(of):,} of {name}" for name, of in held.items())
        listener.say(f"{lengths}: reading {counts}")
        states[lengths] = _pooled(reader, held, pooling)
        documents += _documents(lengths, held, numbers if lengths == AS_IS else None)
    tokens = {
        lengths: {name: [count for _, count in of] for name, of in held.items()}
        for lengths, held in ((AS_IS, texts), (MATCHED, equal))
    }
    listener.say("measuring")
    named = {layer.index: layer.name for layer in reader.layers}
    tables = measured(states, tokens, named, methods=methods, permutations=permutations, seed=seed)
    matched_tokens = next((count for of in equal.values() for _, count in of), None)
    facts = facts_of(
        "clouds",
        loaded.facts,
        pooling=pooling,
        limit=limit,
        first=first,
        max_tokens=min(max_tokens, room),
        matched_tokens=matched_tokens,
        projections=methods,
        permutations=permutations,
        seed=seed,
    )
    facts |= {
        "layers": [asdict(layer) for layer in reader.layers],
        "corpus": {"name": ", ".join(each.name for each in drawn), "documents": sum(len(d.texts) for d in drawn)},
        "corpora": [
            {"name": d.name, "documents": len(d.texts), "read": d.read, "repeated": d.repeated} for d in drawn
        ],
        "warnings": told,
    }
    return Findings(facts, {"documents": pd.DataFrame(documents).astype({"number": "Int64"}), **tables})


def measured(
    states: Mapping[str, Mapping[int, Mapping[str, Array]]],
    tokens: Mapping[str, Mapping[str, Sequence[int]]],
    names: Mapping[int, str],
    *,
    methods: Sequence[str] = ("pca",),
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> dict[str, pd.DataFrame]:
    """Return the tables; states: by lengths, layer and corpus (documents, dim)."""
    found: dict[str, Rows] = {name: [] for name in ("separations", "summaries", "histograms", "places", "axes")}
    for layer, name in names.items():
        held = {lengths: values(of[layer]) for lengths, of in states.items()}
        edges = {
            metric: edges_of(metric, [v for of in held.values() for key, v in of.items() if key[0] == metric])
            for metric in METRICS
        }
        for lengths, of in states.items():
            head = {"layer": layer, "layer_name": name, "lengths": lengths}
            apart = separation_rows(of[layer], tokens[lengths], seed=seed, permutations=permutations)
            found["separations"] += [head | row for row in apart]
            found["summaries"] += [head | row for row in summary_rows(held[lengths])]
            found["histograms"] += [head | row for row in histogram_rows(held[lengths], edges)]
            for method in methods:
                places, shares = _places(of[layer], method, seed)
                found["places"] += [head | {"method": method} | row for row in places]
                found["axes"] += [
                    head | {"method": method, "axis": axis, "share": share} for axis, share in enumerate(shares, 1)
                ]
    columns = {
        "places": "layer layer_name lengths method corpus document x y".split(),
        "axes": "layer layer_name lengths method axis share".split(),
    }
    return {name: pd.DataFrame(rows, columns=columns.get(name)) for name, rows in found.items()}


def _places(clouds: Mapping[str, Array], method: str, seed: int) -> tuple[Rows, list[float]]:
    x = np.concatenate(list(clouds.values()))
    if len(x) < 4 or not np.isfinite(x).all():
        return [], []
    places, shares = project(x, method, seed=seed)
    names = [(name, number) for name, of in clouds.items() for number in range(len(of))]
    rows = [
        {"corpus": name, "document": number, "x": float(px), "y": float(py)}
        for (name, number), (px, py) in zip(names, places, strict=True)
    ]
    return rows, shares


def _different(
    tokenizer: Any, drawn: Sequence[Drawn], tokens: int
) -> tuple[dict[str, list[tuple[str, int]]], dict[str, list[int]]]:
    """Return the documents cut to so many tokens, none twice, and their numbers in their corpora.

    Two documents that begin alike would be one vector, in the line's training and in its test.
    """
    texts, numbers = {}, {}
    for each in drawn:
        held = cut(tokenizer, each.texts, tokens)
        kept = first_of_each([text for text, _ in held])
        texts[each.name] = [held[at] for at in kept]
        numbers[each.name] = [each.numbers[at] for at in kept]
    return texts, numbers


def _equal(
    tokenizer: Any, texts: Mapping[str, list[tuple[str, int]]]
) -> tuple[dict[str, list[tuple[str, int]]], list[str]]:
    """Return the documents that are long enough cut to one number of tokens, and what is to be said of it."""
    length = common_length([[count for _, count in of] for of in texts.values()])
    if length < SHORTEST:
        words = f"Half of a corpus has fewer than {SHORTEST} tokens a document: nothing is told at matched length."
        return {name: [] for name in texts}, [words]
    long = {name: [text for text, count in of if count >= length] for name, of in texts.items()}
    short = {}
    for name, of in long.items():
        held = cut(tokenizer, of, length)
        # A text cut inside a word may come out with another number of tokens, and two may begin alike.
        short[name] = [held[at] for at in first_of_each([text for text, _ in held]) if held[at][1] == length]
    lost = sum(map(len, long.values())) - sum(map(len, short.values()))
    return short, [
        f"{lost} documents are not matched: cut to {length} tokens they were others again, or too many."
    ] if lost else []


def _pooled(
    reader: SentenceReader, texts: Mapping[str, list[tuple[str, int]]], how: str
) -> dict[int, dict[str, Array]]:
    every = [text for of in texts.values() for text, _ in of]
    ends = np.cumsum([len(of) for of in texts.values()])[:-1]
    vectors = pooled_by(reader, every, how)
    return {
        layer: dict(zip(texts, np.split(states.double().numpy(), ends), strict=True))
        for layer, states in vectors.items()
    }


def _documents(
    lengths: str, texts: Mapping[str, list[tuple[str, int]]], numbers: Mapping[str, Sequence[int]] | None
) -> Rows:
    """Return a row a document; its number in the corpus where none were left out."""
    return [
        {
            "lengths": lengths,
            "corpus": name,
            "document": at,
            "number": None if numbers is None else numbers[name][at],
            "tokens": count,
        }
        for name, of in texts.items()
        for at, (_, count) in enumerate(of)
    ]


def _check_numbers(max_tokens: int, permutations: int) -> None:
    if max_tokens < SHORTEST:
        raise InputError(f"--max-tokens wants at least {SHORTEST}, but {max_tokens} came.")
    if not 19 <= permutations <= 99_999:
        raise InputError(
            f"--permutations wants 19 to 99,999, but {permutations:,} came: p is never below 1/(permutations + 1)."
        )


def _check_spelled(texts: Mapping[str, list[tuple[str, int]]]) -> None:
    for name, of in texts.items():
        blank = sum(count == 0 for _, count in of)
        if blank:
            raise InputError(
                f"CORPUS {name!r}: {blank} documents have no token in this vocabulary; leave them out."
            )
