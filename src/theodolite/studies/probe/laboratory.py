"""The laboratory: a model and a list of words in; scores, confusions and the displayed words' classes out."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from theodolite.errors import InputError
from theodolite.sources.modality import modality
from theodolite.sources.text.checkpoint import load_model, load_tokenizer, resolve
from theodolite.studies.laboratory import Findings, facts_of
from theodolite.studies.probe.chosen import choose_words, spelled_out, tell
from theodolite.studies.probe.classifiers import needs_sklearn
from theodolite.studies.probe.selection import counts
from theodolite.studies.probe.spelling import Spelled, marks_spaces
from theodolite.studies.probe.tables import Place, scored_tables
from theodolite.studies.probe.vectors import TABLE, TABLE_NAME, layer_vectors, parsed, table_vectors
from theodolite.studies.probe.word_list import Entry, checked, read_words
from theodolite.studies.probe.wordnet import wordnet_words
from theodolite.surveys.early import check_device
from theodolite.surveys.listener import Listener
from theodolite.surveys.model_facts import model_facts

LABORATORY = "probe"


def probe(
    model: str | Path,
    words: str | Path | Sequence[tuple[str, str]] | None = None,
    *,
    wordnet: str | Sequence[str] | None = None,
    layer: str | int | Sequence[str | int] = TABLE,
    show: Sequence[str] = (),
    folds: int = 5,
    most: int = 500,
    wrap: bool = False,
    seed: int = 0,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Train small classifiers to tell the classes of words from their vectors, and say how well they do.

    `words` is a .csv with the columns word and label, or pairs; `wordnet` names classes of WordNet instead.
    `layer` is "table", a number, or several. Words in `show` are never trained on. At most `most` words of a class
    are drawn, and of every class as many as of the smallest. `wrap` puts BOS in front of each word.
    """
    listener = listener or Listener()
    needs_sklearn()
    _check_numbers(folds, most)
    check_device(device)
    places = parsed([layer] if isinstance(layer, str | int) else layer)
    entries, about = _entries(words, wordnet)
    checkpoint = resolve(str(model), revision=revision, progress=listener.say)
    kind = modality(checkpoint.folder, checkpoint.name, trust_remote_code=trust_remote_code)
    if kind != "text":
        raise InputError(f"MODEL {checkpoint.name!r} takes {kind}; theodolite probe is for models of text.")
    tokenizer = load_tokenizer(checkpoint, trust_remote_code=trust_remote_code)
    chosen = choose_words(entries, tokenizer, show, folds=folds, most=most, seed=seed)
    tell(chosen, listener)
    where = device or "cpu"
    listener.say(f"loading {checkpoint.name}")
    network = load_model(checkpoint, dtype=dtype, device=where, trust_remote_code=trust_remote_code)
    read = list({word.token: word for word in (*chosen.probed, *chosen.shown) if word.token is not None}.values())
    taken = _vectors(network, tokenizer, read, places, wrap=wrap)
    facts = facts_of(
        LABORATORY,
        model_facts(checkpoint, network, dtype, where),
        words=about,
        layer=places,
        show=[word.word for word in chosen.shown],
        folds=folds,
        most=most,
        wrap=wrap,
        spaced=marks_spaces(tokenizer),
        seed=seed,
    )
    facts |= {"counts": counts(chosen.table), "classes": chosen.classes}
    row_of = {word.token: row for row, word in enumerate(read) if word.token is not None}
    tables = scored_tables(chosen, taken, row_of, folds=folds, seed=seed, listener=listener)
    return Findings(facts, {**tables, "words": spelled_out(chosen.table, tokenizer)})


def _vectors(
    network: Any, tokenizer: Any, words: Sequence[Spelled], places: Sequence[str | int], *, wrap: bool
) -> list[Place]:
    found: dict[str | int, Place] = {}
    if TABLE in places:
        found[TABLE] = Place(None, TABLE_NAME, table_vectors(network, words))
    numbers = [place for place in places if isinstance(place, int)]
    if numbers:
        states = layer_vectors(network, tokenizer, words, numbers, wrap=wrap)
        for number, (layer, x) in zip(numbers, states, strict=True):
            found[number] = Place(layer.index, layer.name, x)
    return list({found[place].layer: found[place] for place in places}.values())  # -1 and 6 may be one


def _entries(
    words: str | Path | Sequence[tuple[str, str]] | None, wordnet: str | Sequence[str] | None
) -> tuple[list[Entry], dict[str, Any]]:
    """Return the list of words and what is to be remembered of where it came from."""
    if (words is None) == (wordnet is None):
        raise InputError("Give --words FILE.csv or --wordnet CLASSES, one of the two.")
    if wordnet is not None:
        classes = wordnet.split(",") if isinstance(wordnet, str) else list(wordnet)
        entries, name = wordnet_words(classes), f"WordNet: {', '.join(classes)}"
    elif isinstance(words, str | Path):
        entries, name = read_words(words), Path(words).name
    else:
        entries, name = checked(words or ()), "pairs"
    if not entries:
        raise InputError("--words holds no words below its first line.")
    told = "\n".join(f"{word}\t{label}" for word, label in entries)
    return entries, {"name": name, "entries": len(entries), "sha256": sha256(told.encode()).hexdigest()}


def _check_numbers(folds: int, most: int) -> None:
    if folds < 2:
        raise InputError(f"--folds {folds}: wanted 2 or more.")
    if most < folds:
        raise InputError(f"--most {most}: wanted at least one word a class for each of the {folds} folds.")
