"""The contrast laboratory: differences between the two sentences of a pair, and the directions they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.measures.projection import principal_axes
from theodolite.studies.contrast.directions import (
    COSINES,
    Clusters,
    Sides,
    class_rows,
    cosine_rows,
    histogram,
    random_means,
    resolution_warnings,
)
from theodolite.studies.contrast.pairs import (
    Pairs,
    drop_mirrored,
    find_template,
    pair_warnings,
    pairs_table,
    read_pairs,
    swap,
)
from theodolite.studies.contrast.swaps import list_words, make_random_swaps, read_word_vectors
from theodolite.studies.laboratory import Findings, check_laboratory_folder, make_facts
from theodolite.studies.pooling import DEFAULT_POOLING, check_pooling, embed_with_reader, report_pooling
from theodolite.studies.sentences import SentenceReader
from theodolite.studies.text_model import load_text_model
from theodolite.studies.tokenization import loss_warnings, token_ids

AXES = 4
RANDOM_SWAPS = 30
MEAN = 0
"""The pair number of a class's mean in the table of points; pairs are numbered from 1."""
Array = NDArray[np.float64]


def contrast(
    model: str | Path,
    pairs: str | Path | Mapping[str, Sequence[Sequence[str]]],
    *,
    out: str | Path | None = None,
    layers: str | Sequence[int] | None = None,
    pooling: str = DEFAULT_POOLING,
    population: str | None = None,
    matched: bool = False,
    random_swaps: int = RANDOM_SWAPS,
    seed: int = 0,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Measure the directions of classes of sentence pairs at every layer. A difference is second minus first.

    `pairs` is a .json file or a mapping, {class: [[a, b], ...]}; `pooling` is first, mean, last, max or cls;
    `population` says which positions are pooled, by default all but sinks. `matched` omits the pairs whose
    sentences differ in punctuation. `random_swaps` is the number of random versions of each class to compare with.
    Tables: pairs, classes, cosines, points, axes, reference; vectors: `differences` (layers, pairs, dim), in the
    order of the table of pairs.
    """
    listener = listener or Listener()
    check_pooling(pooling, population)
    if random_swaps < 0:
        raise InputError(f"--random-swaps must be at least 0 (got {random_swaps}).")
    check_laboratory_folder(out, "contrast", overwrite=overwrite)
    classes, omitted = drop_mirrored(read_pairs(pairs))
    loaded = load_text_model(
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    reader = SentenceReader(loaded.network, loaded.tokenizer, layers=layers)
    given = _sentences(classes)
    reader.check(given)
    table = pairs_table(classes, token_counts(reader, given), token_ids(loaded.tokenizer, given))
    total = len(table)
    if matched:
        classes, table = _select_matched(classes, table)
    random = make_random_swaps(classes, random_swaps, seed=seed)
    listener.say(f"reading {len(table)} pairs, and {random_swaps} random versions of each class")
    reader.truncate = True  # a random word may have more tokens than the one it replaces
    every = _sentences(classes) + [s for versions in random.values() for each in versions for p in each for s in p]
    embedded = embed_with_reader(reader, every, pooling, population=population)
    names = {layer.index: layer.name for layer in reader.layers}
    vectors = {layer: states[: 2 * len(table)].double().numpy() for layer, states in embedded.vectors.items()}
    shapes = {name: (len(versions), len(classes[name])) for name, versions in random.items()}
    tables, differences = measure_contrast(
        vectors,
        classes,
        names,
        random={
            layer: _random_differences(states[2 * len(table) :].numpy(), shapes)
            for layer, states in embedded.vectors.items()
        },
        words=read_word_vectors(loaded.network, loaded.tokenizer, list_words(classes)),
        seed=seed,
    )
    last = tables["cosines"][tables["cosines"]["layer"] == reader.layers[-1].index].to_dict("records")
    losses = loss_warnings(loaded.tokenizer, _sentences(classes))
    warnings = [*omitted, *pair_warnings(table), *losses, *resolution_warnings(last)]
    for warning in warnings:
        listener.warn(warning)
    warnings += report_pooling(reader, pooling, embedded, listener)
    facts = make_facts(
        "contrast",
        loaded.facts,
        pooling=pooling,
        population=embedded.population,
        matched=matched,
        random_swaps=random_swaps,
        seed=seed,
        difference="second sentence minus first",
    )
    name = "pairs" if isinstance(pairs, Mapping) else Path(pairs).name
    facts |= {
        "layers": [layer.facts() for layer in reader.layers],
        "corpus": {"name": name, "documents": len(table), "left_out": total - len(table)},
        "warnings": warnings,
        **embedded.describe(),
    }
    same_width = len({d.shape[1] for d in differences.values()}) == 1
    kept = {"differences": torch.from_numpy(np.stack(list(differences.values()))).float()} if same_width else {}
    return Findings(facts, {"pairs": table, **tables}, kept).save_if_asked(out, overwrite=overwrite)


def project_differences(differences: Mapping[str, Array]) -> tuple[list[dict[str, Any]], list[float]]:
    """Return d1 to d4 of every difference and of the mean of every class, and the axes' shares of squared length.

    Axes go through 0, not through the mean of the differences: at 0 the two sentences of a pair are equal.
    """
    axes, sizes = principal_axes(np.concatenate(list(differences.values())), AXES)
    total = float(np.square(sizes).sum())
    names = [f"d{number}" for number in range(1, AXES + 1)]
    rows: list[dict[str, Any]] = []
    for name, d in differences.items():
        points = (np.vstack([d.mean(axis=0), d]) @ axes.T).tolist()
        rows += [
            {"class": name, "pair": pair, **dict(zip(names, point, strict=True))}
            for pair, point in enumerate(points, MEAN)
        ]
    shares = np.square(sizes[:AXES]) / total if total > 0 else np.full(AXES, np.nan)
    return rows, shares.tolist()


def measure_contrast(
    vectors: Mapping[int, Array],
    classes: Pairs,
    names: Mapping[int, str],
    *,
    random: Mapping[int, Mapping[str, NDArray[np.floating[Any]]]] | None = None,
    words: Mapping[str, Sides] | None = None,
    seed: int = 0,
) -> tuple[dict[str, pd.DataFrame], dict[int, Array]]:
    """Return the tables and the differences of every layer.

    vectors: by layer (2 x pairs, dim), the two sentences of a pair next to each other, class by class. random: by
    layer and class, the differences of its random versions (versions, pairs, dim). words: by class, for WEAT.
    """
    sizes = [len(members) for members in classes.values()]
    ends = np.cumsum(sizes)[:-1]
    rows_by_table: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("classes", "cosines", "points", "axes", "reference")
    }
    every = {}
    clusters = {
        name: Clusters([swap(*pair) for pair in members], [find_template(*pair) for pair in members])
        for name, members in classes.items()
    }
    for layer, x in vectors.items():
        head = {"layer": layer, "layer_name": names[layer]}
        every[layer] = x[1::2] - x[::2]
        differences = dict(zip(classes, np.split(every[layer], ends), strict=True))
        sides = {name: (part[::2], part[1::2]) for name, part in zip(classes, np.split(x, 2 * ends), strict=True)}
        means = {
            name: random_means(versions, seed=seed + number)
            for number, (name, versions) in enumerate(random[layer].items() if random else ())
        }
        cosines, reference = cosine_rows(
            differences, means, sentences=sides, words=words, clusters=clusters, seed=seed
        )
        points, shares = project_differences(differences)
        rows_by_table["classes"] += [head | row for row in class_rows(differences, seed=seed)]
        rows_by_table["cosines"] += [head | row for row in cosines]
        rows_by_table["points"] += [head | row for row in points]
        rows_by_table["axes"] += [head | {"axis": axis, "share": share} for axis, share in enumerate(shares, 1)]
        rows_by_table["reference"] += [head | row for row in histogram(reference)]
    columns = {"cosines": COSINES}  # also if there is only one class
    return {name: pd.DataFrame(rows, columns=columns.get(name)) for name, rows in rows_by_table.items()}, every


def _random_differences(states: NDArray[Any], shapes: Mapping[str, tuple[int, int]]) -> dict[str, NDArray[Any]]:
    """Return the differences of the random versions of each class. states: (sentences, dim), class by class"""
    ends = np.cumsum([2 * versions * pairs for versions, pairs in shapes.values()])[:-1]
    return {
        name: (part[1::2] - part[::2]).reshape(*shape, states.shape[1])
        for (name, shape), part in zip(shapes.items(), np.split(states, ends), strict=True)
    }


def token_counts(reader: SentenceReader, sentences: Sequence[str]) -> list[int]:
    """Return the number of tokens of each sentence, without special tokens."""
    counts = [0] * len(sentences)
    for window in reader.source.windows(list(enumerate(sentences)))[0]:
        counts[window.document] += int((~window.special).sum())
    return counts


def _sentences(classes: Pairs) -> list[str]:
    return [sentence for members in classes.values() for pair in members for sentence in pair]


def _select_matched(classes: Pairs, table: pd.DataFrame) -> tuple[Pairs, pd.DataFrame]:
    """Return the pairs with equal punctuation; raise if a class has none."""
    kept = table[~table["punctuation_differs"]]
    alike = {
        name: [members[number - 1] for number in kept.loc[kept["class"] == name, "pair"]]
        for name, members in classes.items()
    }
    for name, members in alike.items():
        if not members:
            raise InputError(f"--matched omits every pair of {name!r}, because all of them differ in punctuation.")
    numbers = kept.groupby("class", sort=False).cumcount() + 1  # renumbered among the pairs kept
    return alike, kept.assign(pair=numbers).reset_index(drop=True)
