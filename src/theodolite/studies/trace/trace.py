"""Tracing sentences: the implementation of `theodolite trace`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.sources.text.windows import repair_surrogates
from theodolite.studies.laboratory import Findings, check_laboratory_folder, make_facts
from theodolite.studies.sentences import SentenceReader
from theodolite.studies.text_model import load_text_model
from theodolite.studies.tokenization import equal_sentence_warnings, loss_warnings
from theodolite.studies.trace.comparison import REFERENCE_SENTENCES, Reference, compare_sentences, make_partings
from theodolite.studies.trace.token_paths import (
    TokenPaths,
    is_ordinary,
    make_move_table,
    make_path_table,
    project_paths,
    read_paths,
)

MAX_SENTENCES = 64
"""Maximum number of sentences, since the tables have one row per token and layer."""


def trace(
    model: str | Path,
    sentences: str | Iterable[str],
    *,
    out: str | Path | None = None,
    tokens: Sequence[str] = (),
    reference: Iterable[str] | None = None,
    layers: str | Sequence[int] | None = None,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Follow every token of a few sentences through the layers of a text model.

    The first sentence is compared token by token with each other sentence. The distances between random tokens of
    the `reference` sentences (by default, built-in English ones) are the scale of that comparison. `tokens` are
    words to project separately.
    """
    texts = [sentences] if isinstance(sentences, str) else list(sentences)
    others = list(REFERENCE_SENTENCES if reference is None else reference)
    _check(texts, others)
    check_laboratory_folder(out, "trace", overwrite=overwrite)
    loaded = load_text_model(
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    reader = SentenceReader(loaded.network, loaded.tokenizer, layers=layers)
    found = trace_sentences(reader, texts, others, tokens=tokens, model=loaded.facts)
    if listener is not None:
        for warning in found.facts["warnings"]:
            listener.warn(warning)
    return found.save_if_asked(out, overwrite=overwrite)


def trace_sentences(
    reader: SentenceReader,
    sentences: Sequence[str],
    reference: Sequence[str],
    *,
    tokens: Sequence[str] = (),
    model: dict[str, Any] | None = None,
) -> Findings:
    """Trace sentences with an existing reader."""
    sentences, reference, tokens = (
        list(map(repair_surrogates, texts)) for texts in (sentences, reference, tokens)
    )
    stacks = read_paths(reader, sentences)
    if not stacks:
        raise InputError("--layers: none of these layers has one state per token; choose other layers.")
    check_tokens(stacks, tokens)
    compared_with = read_paths(reader, reference) if len(sentences) > 1 else [None] * len(stacks)
    parts = [
        _make_tables(each, Reference(other, causal=reader.causal) if other else None, tokens)
        for each, other in zip(stacks, compared_with, strict=True)
    ]
    tables = {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]}
    facts = make_facts(
        "trace",
        model,
        sentences=sentences,
        reference=reference if len(sentences) > 1 else [],
        tokens=tokens,
        causal=reader.causal,
    )
    traced_layers = [layer for each in stacks for layer in each.layers]
    facts["layers"] = [
        {"index": each.index, "name": each.name, "dim": each.dim, "library_index": each.library_index}
        for each in traced_layers
    ]
    facts["warnings"] = [
        *loss_warnings(reader.tokenizer, sentences),
        *equal_sentence_warnings(reader.tokenizer, sentences),
    ]
    kept = {layer.index for layer in traced_layers}
    facts["settings"]["layers_left_out"] = [each.name for each in reader.layers if each.index not in kept]
    return Findings(facts, tables)


def _make_tables(paths: TokenPaths, reference: Reference | None, words: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return all tables of one stack; the tables of a comparison require two sentences."""
    path = make_path_table(paths)
    tables = {"tokens": _make_token_table(paths), "path": path, "moves": make_move_table(paths, path)}
    parted = None
    if reference is not None:
        tables["compared"], tables["reference"] = compare_sentences(paths, reference)
        tables["partings"] = parted = make_partings(tables["compared"])
    chosen = select_tokens(paths, words, parted)
    tables["tokens"]["chosen"] = chosen
    tables["projection"], tables["shares"] = project_paths(paths, chosen)
    return tables


def _make_token_table(paths: TokenPaths) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "stack": paths.stack,
            "sentence": paths.sentence,
            "position": paths.position,
            "id": paths.ids,
            "token": paths.text,
            "special": paths.special,
            "massive": paths.massive().any(axis=0),
        }
    )


def _check(sentences: Sequence[str], reference: Sequence[str]) -> None:
    if not sentences:
        raise InputError("SENTENCE: give one sentence, or two to compare, or --file with one per line (got none).")
    if len(sentences) > MAX_SENTENCES:
        raise InputError(f"SENTENCE: expected at most {MAX_SENTENCES} sentences (got {len(sentences)}).")
    for number, sentence in enumerate(sentences, 1):
        if not sentence.strip():
            raise InputError(f"Sentence {number} is empty; expected at least one word.")
    if len(sentences) > 1 and not any(text.strip() for text in reference):
        raise InputError("--reference contains no sentence; omit it to use the built-in ones.")


def select_tokens(paths: TokenPaths, words: Sequence[str], partings: pd.DataFrame | None) -> NDArray[np.bool_]:
    """Return which tokens to project separately. (tokens,)

    By default, for two sentences: the shared token with the largest distance at the last layer, in both. For one
    sentence: its first two ordinary tokens.
    """
    if words:
        selected = {word.strip().casefold() for word in words}
        return np.array([text.strip().casefold() in selected for text in paths.text], dtype=bool)
    found = np.zeros(len(paths.ids), dtype=bool)
    first = paths.sentence == 0
    kept = np.flatnonzero(is_ordinary(paths) & first)
    kept = kept if len(kept) else np.flatnonzero(first)
    if partings is not None:
        shared = partings[partings["same"] & partings["position"].isin(paths.position[kept])]
        if shared["distance_last"].notna().any():
            farthest = shared.iloc[int(shared["distance_last"].argmax())]
            for sentence, position in (
                (0, farthest["position"]),
                (farthest["other"], farthest["position_other"]),
            ):
                found |= (paths.sentence == sentence) & (paths.position == position)
            return found
    found[kept[:2]] = True
    return found


def check_tokens(paths: Sequence[TokenPaths], words: Sequence[str]) -> None:
    """Reject a word that is not a token of any sentence; the error lists the tokens."""
    known = dict.fromkeys(text.strip() for each in paths for text in each.text)
    folded = {text.casefold() for text in known}
    for word in words:
        if word.strip().casefold() not in folded:
            raise InputError(
                f"--token {word!r} is not a token of these sentences. Their tokens: {', '.join(list(known)[:40])}."
            )
