"""The groups laboratory: whether sentences with the same meaning have vectors close to each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.measures.laboratories.groups import (
    cosine_distances,
    cosines,
    distances,
    separation,
    silhouettes,
    within_between,
)
from theodolite.measures.projection import principal_components
from theodolite.measures.uncertainty import holm
from theodolite.models.layers import Layer
from theodolite.studies.groups.sentences import CONTROLS, expand_groups, make_nonsense, read_groups
from theodolite.studies.laboratory import Findings, check_laboratory_folder, make_facts
from theodolite.studies.pooling import DEFAULT_POOLING, check_pooling, embed_with_reader, report_pooling
from theodolite.studies.sentences import SentenceReader
from theodolite.studies.text_model import load_text_model
from theodolite.studies.tokenization import equal_sentence_warnings, loss_warnings

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
ALL_EQUAL = "all vectors are equal"
NO_PAIRS = "there are no pairs within a group, or none between two groups"
NOT_FINITE = "a vector is not finite"
MAX_TESTED_GROUPS = 12
"""With more groups, pairs of groups are not tested: there would be more tests than sentences."""
GROUPS, WITH_NONSENSE = "groups", "with-nonsense"
AXES = ("x", "y", "z")
MAX_SENTENCES = 5000
"""Maximum number of sentences: every pair of them is measured at every layer."""


def groups(
    model: str | Path,
    sentences: str | Path | Mapping[str, Iterable[str]],
    *,
    out: str | Path | None = None,
    pooling: str = DEFAULT_POOLING,
    population: str | None = None,
    special: bool = True,
    layers: str | Sequence[int] | None = None,
    controls: int | None = None,
    permutations: int = 999,
    seed: int = 0,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Measure whether the sentences of a group are closer to each other than to those of other groups.

    `sentences` maps groups to lists of sentences, or is a .json, .jsonl or .csv file of them; sentences may be
    templates such as `{a|b|c}`. `pooling` is first, mean, last, max or cls; `population` says which positions are
    pooled, by default all but sinks. `controls` is the number of nonsense sentences of each kind. Default: the
    median size of the groups; 0 for none.
    """
    listener = listener or Listener()
    given = read_groups(sentences) if isinstance(sentences, str | Path) else sentences
    expanded, dropped = expand_groups(given)
    _check(expanded, controls, permutations)
    check_pooling(pooling, population)
    check_laboratory_folder(out, "groups", overwrite=overwrite)
    loaded = load_text_model(
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    reader = SentenceReader(loaded.network, loaded.tokenizer, layers=layers)
    real = [sentence for group in expanded.values() for sentence in group]
    reader.check(real)
    reader.truncate = True  # random letters give more tokens than the sentence they replace
    table = _sentence_table(_add_controls(expanded, controls, seed), loaded.tokenizer)
    texts = table["sentence"].tolist()
    embedded = embed_with_reader(reader, texts, pooling, special=special, population=population)
    vectors = {layer: states.double().numpy() for layer, states in embedded.vectors.items()}
    warnings = [*loss_warnings(loaded.tokenizer, real), *equal_sentence_warnings(loaded.tokenizer, real)]
    for warning in warnings:
        listener.warn(warning)
    warnings += report_pooling(reader, pooling, embedded, listener)
    facts = make_facts(
        "groups",
        loaded.facts,
        file=str(sentences) if isinstance(sentences, str | Path) else None,
        pooling=pooling,
        population=embedded.population,
        special=special,
        permutations=permutations,
        seed=seed,
        duplicates_dropped=dropped,
    )
    facts |= {"warnings": warnings, **embedded.describe()}
    facts["layers"] = [{"index": layer.index, "name": layer.name, "dim": layer.dim} for layer in reader.layers]
    findings = Findings(facts, _tables(table, reader.layers, vectors, permutations, seed, listener))
    return findings.save_if_asked(out, overwrite=overwrite)


def measure_groups(vectors: Floats, group: Integers, *, permutations: int, seed: int) -> dict[str, Any]:
    """Return distances within and between groups, silhouettes and the separation test; NaN with the reason."""
    matrix = distances(vectors)
    distance, cosine = within_between(matrix, group), within_between(cosines(vectors), group)
    test = separation(matrix, group, permutations=permutations, seed=seed)
    return {
        "n": len(group),
        "groups": len(np.unique(group)),
        "within_distance": distance.within,
        "between_distance": distance.between,
        "within_cosine": cosine.within,
        "between_cosine": cosine.between,
        "separation": test.value,
        "p": test.p,
        "p_least": test.p_least,
        "silhouette": float(silhouettes(matrix, group).mean()),
        "silhouette_cosine": float(silhouettes(cosine_distances(vectors), group).mean()),
        "undefined": _undefined_reason(matrix, test.value),
    }


def pair_rows(
    vectors: Floats, group: Integers, names: Sequence[str], *, permutations: int, seed: int
) -> list[dict[str, Any]]:
    """Return one row per pair of groups, also of a group with itself: mean distance and cosine, and the test."""
    distance_matrix, cosine_matrix = distances(vectors), cosines(vectors)
    rows = []
    for one, name in enumerate(names):
        for other in range(one, len(names)):
            members = np.isin(group, (one, other))
            codes = group[members]
            part = np.ix_(members, members)
            distance = within_between(distance_matrix[part], codes)
            cosine = within_between(cosine_matrix[part], codes)
            row: dict[str, Any] = {"group": name, "other": names[other], "n": int(members.sum())}
            if one == other:
                rows.append(row | {"distance": distance.within, "cosine": cosine.within})
                continue
            row |= {"distance": distance.between, "cosine": cosine.between}
            if len(names) <= MAX_TESTED_GROUPS:
                test = separation(distance_matrix[part], codes, permutations=permutations, seed=seed)
                row |= {"separation": test.value, "p": test.p, "p_least": test.p_least}
            rows.append(row)
    adjusted = holm([row.get("p", np.nan) for row in rows])
    return [row | {"p_holm": float(p)} for row, p in zip(rows, adjusted, strict=True)]


def _undefined_reason(matrix: Floats, value: float) -> str | None:
    if not np.isnan(value):
        return None
    if not np.isfinite(matrix).all():
        return NOT_FINITE
    return ALL_EQUAL if len(matrix) > 1 and not matrix.any() else NO_PAIRS


def count_words(sentences: Sequence[str]) -> NDArray[np.float64]:
    """Count each word in each sentence (bag of words), ignoring case. (sentences, words)

    >>> count_words(["A cat, a dog.", "The cat."])
    array([[2., 1., 1., 0.],
           [0., 1., 0., 1.]])
    """
    split = [re.findall(r"\w+", sentence.casefold()) for sentence in sentences]
    column = {word: number for number, word in enumerate(dict.fromkeys(word for words in split for word in words))}
    table = np.zeros((len(sentences), max(len(column), 1)))
    for row, words in enumerate(split):
        for word in words:
            table[row, column[word]] += 1
    return table


def _add_controls(groups: dict[str, list[str]], controls: int | None, seed: int) -> dict[str, list[str]]:
    """Append the two groups of nonsense."""
    count = controls if controls is not None else max(2, int(median(map(len, groups.values()))))
    real = [sentence for group in groups.values() for sentence in group]
    return groups | ({kind: make_nonsense(real, kind, count, seed) for kind in CONTROLS} if count else {})


def _sentence_table(groups: Mapping[str, Sequence[str]], tokenizer: Any) -> pd.DataFrame:
    rows = [(group, sentence, group in CONTROLS) for group, texts in groups.items() for sentence in texts]
    table = pd.DataFrame(rows, columns=["group", "sentence", "nonsense"])
    table.insert(0, "number", np.arange(len(table)))
    table["tokens"] = [len(tokenizer(sentence)["input_ids"]) for sentence in table["sentence"]]
    return table


def _tables(
    table: pd.DataFrame,
    layers: Sequence[Layer],
    vectors: Mapping[int, Floats],
    permutations: int,
    seed: int,
    listener: Listener,
) -> dict[str, pd.DataFrame]:
    names = list(dict.fromkeys(table["group"]))
    code = table["group"].map(names.index).to_numpy(np.int64)
    real = ~table["nonsense"].to_numpy(bool)
    sets = {GROUPS: real} | ({WITH_NONSENSE: np.ones_like(real)} if not real.all() else {})
    rows, pairs, points = [], [], []
    how = {"permutations": permutations, "seed": seed}
    for layer in layers:
        listener.say(f"measuring layer {layer.index} ({layer.name})")
        head = {"layer": layer.index, "layer_name": layer.name}
        every = vectors[layer.index]
        for population, mask in sets.items():
            projection = principal_components(every[mask], len(AXES))
            shares = {f"share_{axis}": share for axis, share in zip(AXES, projection.shares, strict=True)}
            rows.append(
                head | {"population": population} | measure_groups(every[mask], code[mask], **how) | shares
            )
            at = dict(zip(AXES, projection.points.T, strict=True))
            points.append(
                pd.DataFrame(head | {"population": population, "number": table["number"].to_numpy()[mask]} | at)
            )
        pairs += [head | row for row in pair_rows(every, code, names, **how)]
    words = count_words(table["sentence"].tolist())
    bag = [{"population": name} | measure_groups(words[mask], code[mask], **how) for name, mask in sets.items()]
    return {
        "sentences": table,
        "layers": pd.DataFrame(rows),
        "pairs": pd.DataFrame(pairs),
        "projection": pd.concat(points, ignore_index=True),
        "bag_of_words": pd.DataFrame(bag),
    }


def _check(groups: Mapping[str, Sequence[str]], controls: int | None, permutations: int) -> None:
    reserved = [name for name in CONTROLS if name in groups]
    if reserved:
        raise InputError(f"The group name {reserved[0]!r} is reserved for a control; rename your group.")
    if not groups or (len(groups) < 2 and controls == 0):
        raise InputError(f"At least two groups are required to compare them (got {len(groups)}).")
    total = sum(map(len, groups.values()))
    if total > MAX_SENTENCES:
        raise InputError(
            f"At most {MAX_SENTENCES:,} sentences are allowed, because every pair is measured (got {total:,})."
        )
    if controls is not None and not 0 <= controls <= MAX_SENTENCES:
        raise InputError(
            f"--controls must be between 0 and {MAX_SENTENCES:,} sentences of each kind (got {controls})."
        )
    if permutations < 1:
        raise InputError(f"--permutations must be at least 1 (got {permutations}).")
