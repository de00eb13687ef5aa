"""Tracing sentences: what `theodolite trace` does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import InputError
from theodolite.sources.text.windows import encodable
from theodolite.studies.laboratory import Findings, check_free, facts_of
from theodolite.studies.sentence_states import SentenceReader
from theodolite.studies.text_model import load_text_model
from theodolite.studies.trace.choosing import check_words, chosen_tokens
from theodolite.studies.trace.comparing import compare, partings
from theodolite.studies.trace.paths import move_table, path_table
from theodolite.studies.trace.projecting import project
from theodolite.studies.trace.reference import SENTENCES, Reference
from theodolite.studies.trace.trails import Trails, trails_of
from theodolite.surveys.listener import Listener

TABLES = "tokens path moves compared partings reference projection shares".split()
MOST = 64
"""Sentences that are traced at once; tables have a row for each token and layer."""


def trace(
    model: str | Path,
    sentences: str | Iterable[str],
    *,
    out: str | Path | None = None,
    tokens: Sequence[str] = (),
    reference: Iterable[str] | None = None,
    layers: str | Sequence[int] | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Follow every token of a few sentences through the layers of a text model.

    The first sentence is compared with each other one, token by token; `reference` are the sentences whose random
    tokens say what is far (a few ordinary English ones unless given). `tokens` are words to project by themselves.
    """
    texts = [sentences] if isinstance(sentences, str) else list(sentences)
    others = list(SENTENCES if reference is None else reference)
    _check(texts, others)
    if out is not None:
        check_free(Path(out), "trace", overwrite=overwrite)
    loaded = load_text_model(
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    reader = SentenceReader(loaded.network, loaded.tokenizer, layers=layers)
    found = traced(reader, texts, others, tokens=tokens, model=loaded.facts)
    if out is not None:
        found.save(out, overwrite=overwrite)
    return found


def traced(
    reader: SentenceReader,
    sentences: Sequence[str],
    reference: Sequence[str],
    *,
    tokens: Sequence[str] = (),
    model: dict[str, Any] | None = None,
) -> Findings:
    """Trace sentences with a reader that is there already."""
    sentences, reference, tokens = (list(map(encodable, texts)) for texts in (sentences, reference, tokens))
    stacks = trails_of(reader, sentences)
    if not stacks:
        raise InputError("--layers: no layer among these has a state for every token, so there are no paths.")
    check_words(stacks, tokens)
    compared_with = trails_of(reader, reference) if len(sentences) > 1 else [None] * len(stacks)
    parts = [
        _stack(each, Reference(other, causal=reader.causal) if other else None, tokens)
        for each, other in zip(stacks, compared_with, strict=True)
    ]
    tables = {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]}
    facts = facts_of(
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
    kept = {layer.index for layer in traced_layers}
    facts["settings"]["layers_left_out"] = [each.name for each in reader.layers if each.index not in kept]
    return Findings(facts, tables)


def _stack(trails: Trails, reference: Reference | None, words: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return all tables of one stack; those of a comparison are there only where two sentences are."""
    path = path_table(trails)
    tables = {"tokens": _tokens(trails), "path": path, "moves": move_table(trails, path)}
    parted = None
    if reference is not None:
        tables["compared"], tables["reference"] = compare(trails, reference)
        tables["partings"] = parted = partings(tables["compared"])
    chosen = chosen_tokens(trails, words, parted)
    tables["tokens"]["chosen"] = chosen
    tables["projection"], tables["shares"] = project(trails, chosen)
    return tables


def _tokens(trails: Trails) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "stack": trails.stack,
            "sentence": trails.sentence,
            "position": trails.position,
            "id": trails.ids,
            "token": trails.text,
            "special": trails.special,
            "massive": trails.massive().any(axis=0),
        }
    )


def _check(sentences: Sequence[str], reference: Sequence[str]) -> None:
    if not sentences:
        raise InputError("SENTENCE: none came; wanted one, or two to compare.")
    if len(sentences) > MOST:
        raise InputError(f"SENTENCE: {len(sentences)} came, and at most {MOST} are traced at once.")
    for number, sentence in enumerate(sentences, 1):
        if not sentence.strip():
            raise InputError(f"Sentence {number} is empty; wanted at least one word.")
    if len(sentences) > 1 and not any(text.strip() for text in reference):
        raise InputError("--reference holds no sentence; leave it out for those that are built in.")
