"""Probing: the implementation of `theodolite probe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.studies.laboratory import Findings, check_laboratory_folder, make_facts
from theodolite.studies.probe.classifiers import (
    CLASSES,
    CONTROL,
    PROBES,
    Vectors,
    check_sklearn,
    cross_validate,
    fit_probe,
    make_confusion_rows,
    make_control_splits,
    make_fold_rows,
    make_splits,
    summarise,
)
from theodolite.studies.probe.selection import (
    WordSelection,
    WordToken,
    add_spelling,
    choose_words,
    count_words,
    marks_spaces,
    report_selection,
)
from theodolite.studies.probe.vectors import (
    INPUT_TABLE,
    INPUT_TABLE_NAME,
    parse_layers,
    read_layer_vectors,
    read_table_vectors,
)
from theodolite.studies.probe.words import Entry, make_entries, read_word_list, read_wordnet
from theodolite.studies.text_model import open_text_model

LABORATORY = "probe"


class Representation(NamedTuple):
    """The vectors of all words at one layer, or in the input table (`layer` None)."""

    layer: int | None
    layer_name: str
    x: Vectors


def probe(
    model: str | Path,
    words: str | Path | Sequence[tuple[str, str]] | None = None,
    *,
    out: str | Path | None = None,
    wordnet: str | Sequence[str] | None = None,
    layer: str | int | Sequence[str | int] = INPUT_TABLE,
    show: Sequence[str] = (),
    folds: int = 5,
    most: int = 500,
    wrap: bool = False,
    seed: int = 0,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Train small classifiers to predict the classes of words from their vectors, and report their accuracy.

    `words` is a .csv file with the columns word and label, or pairs; `wordnet` names classes of WordNet instead.
    `layer` is "table", a number, or several. Words in `show` are never trained on. Every class is reduced to the
    size of the smallest class, and to at most `most` words. `wrap` adds BOS before each word.
    """
    listener = listener or Listener()
    check_sklearn()
    _check_numbers(folds, most)
    places = parse_layers([layer] if isinstance(layer, str | int) else layer)
    check_laboratory_folder(out, LABORATORY, overwrite=overwrite)
    entries, about = _load_entries(words, wordnet)
    opened = open_text_model(
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    tokenizer = opened.tokenizer
    chosen = choose_words(entries, tokenizer, show, folds=folds, most=most, seed=seed)
    report_selection(chosen, listener)
    loaded = opened.load()
    read = list({word.token: word for word in (*chosen.probed, *chosen.shown) if word.token is not None}.values())
    taken = _read_vectors(loaded.network, tokenizer, read, places, wrap=wrap)
    facts = make_facts(
        LABORATORY,
        loaded.facts,
        words=about,
        layer=places,
        show=[word.word for word in chosen.shown],
        folds=folds,
        most=most,
        wrap=wrap,
        spaced=marks_spaces(tokenizer),
        seed=seed,
    )
    facts |= {"counts": count_words(chosen.table), "classes": chosen.classes}
    row_of = {word.token: row for row, word in enumerate(read) if word.token is not None}
    tables = make_tables(chosen, taken, row_of, folds=folds, seed=seed, listener=listener)
    findings = Findings(facts, {**tables, "words": add_spelling(chosen.table, tokenizer)})
    return findings.save_if_asked(out, overwrite=overwrite)


def _read_vectors(
    network: Any, tokenizer: Any, words: Sequence[WordToken], places: Sequence[str | int], *, wrap: bool
) -> list[Representation]:
    found: dict[str | int, Representation] = {}
    if INPUT_TABLE in places:
        found[INPUT_TABLE] = Representation(None, INPUT_TABLE_NAME, read_table_vectors(network, words))
    numbers = [place for place in places if isinstance(place, int)]
    if numbers:
        states = read_layer_vectors(network, tokenizer, words, numbers, wrap=wrap)
        for number, (layer, x) in zip(numbers, states, strict=True):
            found[number] = Representation(layer.index, layer.name, x)
    return list({found[place].layer: found[place] for place in places}.values())  # -1 and 6 may be one


def _load_entries(
    words: str | Path | Sequence[tuple[str, str]] | None, wordnet: str | Sequence[str] | None
) -> tuple[list[Entry], dict[str, Any]]:
    """Return the list of words and a description of its source for laboratory.json."""
    if (words is None) == (wordnet is None):
        given = "neither" if words is None else "both"
        raise InputError(f"Give either --words FILE.csv or --wordnet CLASSES (got {given}).")
    if wordnet is not None:
        classes = wordnet.split(",") if isinstance(wordnet, str) else list(wordnet)
        entries, name = read_wordnet(classes), f"WordNet: {', '.join(classes)}"
    elif isinstance(words, str | Path):
        entries, name = read_word_list(words), Path(words).name
    else:
        entries, name = make_entries(words or ()), "pairs"
    if not entries:
        raise InputError("--words contains no words after the first line.")
    text = "\n".join(f"{word}\t{label}" for word, label in entries)
    return entries, {"name": name, "entries": len(entries), "sha256": sha256(text.encode()).hexdigest()}


def _check_numbers(folds: int, most: int) -> None:
    if folds < 2:
        raise InputError(f"--folds requires 2 or more (got {folds}).")
    if most < folds:
        raise InputError(f"--most requires at least {folds} words per class, one per fold (got {most}).")


def make_tables(
    chosen: WordSelection,
    places: Sequence[Representation],
    row_of: Mapping[int, int],
    *,
    folds: int,
    seed: int,
    listener: Listener,
) -> dict[str, pd.DataFrame]:
    """Score every probe at every layer; folds and shuffled labels are the same for all.

    `row_of` maps a token to its row in the vectors.
    """
    rows: dict[str, list[dict[str, Any]]] = {"probes": [], "folds": [], "confusions": [], "confidence": []}
    known = [word for word in chosen.shown if word.token is not None]
    at, seen = _token_rows(chosen.probed, row_of), _token_rows(known, row_of)
    for place in places:
        for probe in PROBES:
            listener.say(f"{place.layer_name}: {probe}")
            head = {"layer": place.layer, "layer_name": place.layer_name, "probe": probe}
            found = _score_probe(probe, chosen, known, place.x[at], place.x[seen], folds=folds, seed=seed)
            if unconverged := found["probes"][0]["unconverged"]:
                listener.warn(f"{place.layer_name}, {probe}: {unconverged} of {2 * folds} fits did not converge.")
            for name, more in found.items():
                rows[name] += [head | row for row in more]
    tables = {name: pd.DataFrame(found) for name, found in rows.items() if found}
    return {name: table.astype({"layer": "Int64"}) for name, table in tables.items()}


def _score_probe(
    probe: str,
    chosen: WordSelection,
    known: Sequence[WordToken],
    x: Vectors,
    shown: Vectors,
    *,
    folds: int,
    seed: int,
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of one probe for every table. x: (words, dim), shown: (known, dim)"""
    real = cross_validate(probe, x, make_splits(chosen.labels, folds, seed), shown, seed=seed)
    control = cross_validate(probe, x, make_control_splits(chosen.labels, folds, seed), shown[:0], seed=seed)
    row = summarise(real, control, len(chosen.classes))
    sure = fit_probe(probe, x, chosen.labels, seed).confidence(shown) if len(shown) else np.empty((0, 0))
    spread = real.confidence.std(axis=0, ddof=1)
    return {
        "probes": [row | {"folds": folds, "words": len(x), "dim": x.shape[1]}],
        "folds": [*make_fold_rows(CLASSES, real), *make_fold_rows(CONTROL, control)],
        "confusions": make_confusion_rows(real, chosen.classes),
        "confidence": _make_confidence_rows(chosen, known, sure, spread),
    }


def _token_rows(words: Sequence[WordToken], row_of: Mapping[int, int]) -> list[int]:
    return [row_of[word.token] for word in words if word.token is not None]


def _make_confidence_rows(
    chosen: WordSelection, known: Sequence[WordToken], sure: Vectors, spread: Vectors
) -> list[dict[str, Any]]:
    """Return one row per displayed word and class; null with a reason if the word is not a single token."""
    at = {word.word: row for row, word in enumerate(known)}
    own: dict[str, list[str]] = {}
    for word, label in zip(chosen.table["word"], chosen.table["label"], strict=True):
        own.setdefault(word, []).append(label)
    return [
        {
            "word": word.word,
            "classes": ", ".join(dict.fromkeys(own.get(word.word, []))),
            "label": label,
            "confidence": float(sure[at[word.word], number]) if word.word in at else np.nan,
            "confidence_sd": float(spread[at[word.word], number]) if word.word in at else np.nan,
            "undefined": word.reason,
        }
        for word in chosen.shown
        for number, label in enumerate(chosen.classes)
    ]
