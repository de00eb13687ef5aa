"""The contrast laboratory: differences between the two sentences of a pair, and the directions they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
    class_rows,
    cosine_rows,
    histogram,
    random_cosines,
    resolution_warnings,
)
from theodolite.studies.contrast.pairs import Pairs, drop_mirrored, pair_warnings, pairs_table, read_pairs
from theodolite.studies.laboratory import Findings, make_facts
from theodolite.studies.sentences import SentenceReader, check_pooling, embed_with_reader, warn_of_first_token
from theodolite.studies.text_model import load_text_model

AXES = 4
MEAN = 0
"""The pair number of a class's mean in the table of points; pairs are numbered from 1."""
Array = NDArray[np.float64]


def contrast(
    model: str | Path,
    pairs: str | Path | Mapping[str, Sequence[Sequence[str]]],
    *,
    layers: str | Sequence[int] | None = None,
    pooling: str = "mean",
    matched: bool = False,
    seed: int = 0,
    device: str = "cpu",
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Measure the directions of classes of sentence pairs at every layer. A difference is second minus first.

    `pairs` is a .json file or a mapping, {class: [[a, b], ...]}; `pooling` is first, mean, last or max. `matched`
    omits the pairs whose sentences differ in punctuation. Tables: pairs, classes, cosines, points, axes,
    reference; vectors: `differences` (layers, pairs, dim), in the order of the table of pairs.
    """
    listener = listener or Listener()
    check_pooling(pooling)
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
    warn_of_first_token(reader, pooling, listener)
    table = pairs_table(classes, token_counts(reader, _sentences(classes)))
    total = len(table)
    if matched:
        classes, table = _select_matched(classes, table)
    listener.say(f"reading {len(table)} pairs")
    vectors = embed_with_reader(reader, _sentences(classes), pooling)
    names = {layer.index: layer.name for layer in reader.layers}
    tables, differences = measure_contrast(
        {layer: states.double().numpy() for layer, states in vectors.items()}, classes, names, seed=seed
    )
    last = tables["cosines"][tables["cosines"]["layer"] == reader.layers[-1].index].to_dict("records")
    warnings = [*omitted, *pair_warnings(table), *resolution_warnings(last)]
    for warning in warnings:
        listener.warn(warning)
    facts = make_facts(
        "contrast",
        loaded.facts,
        pooling=pooling,
        matched=matched,
        seed=seed,
        difference="second sentence minus first",
    )
    name = "pairs" if isinstance(pairs, Mapping) else Path(pairs).name
    facts |= {
        "layers": [asdict(layer) for layer in reader.layers],
        "corpus": {"name": name, "documents": len(table), "left_out": total - len(table)},
        "warnings": warnings,
    }
    same_width = len({d.shape[1] for d in differences.values()}) == 1
    kept = {"differences": torch.from_numpy(np.stack(list(differences.values()))).float()} if same_width else {}
    return Findings(facts, {"pairs": table, **tables}, kept)


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
    vectors: Mapping[int, Array], classes: Pairs, names: Mapping[int, str], *, seed: int = 0
) -> tuple[dict[str, pd.DataFrame], dict[int, Array]]:
    """Return the tables and the differences of every layer.

    vectors: by layer (2 x pairs, dim), the two sentences of a pair next to each other, class by class.
    """
    sizes = [len(members) for members in classes.values()]
    ends = np.cumsum(sizes)[:-1]
    rows_by_table: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("classes", "cosines", "points", "axes", "reference")
    }
    every = {}
    for layer, x in vectors.items():
        head = {"layer": layer, "layer_name": names[layer]}
        every[layer] = x[1::2] - x[::2]
        differences = dict(zip(classes, np.split(every[layer], ends), strict=True))
        reference = random_cosines(x, int(np.median(sizes)), seed=seed)
        low, high = np.quantile(reference, [0.025, 0.975]).tolist() if len(reference) else (np.nan, np.nan)
        interval = {"reference_low": low, "reference_high": high}
        points, shares = project_differences(differences)
        rows_by_table["classes"] += [head | row for row in class_rows(differences, seed=seed)]
        rows_by_table["cosines"] += [
            head | row | interval for row in cosine_rows(differences, reference, seed=seed)
        ]
        rows_by_table["points"] += [head | row for row in points]
        rows_by_table["axes"] += [head | {"axis": axis, "share": share} for axis, share in enumerate(shares, 1)]
        rows_by_table["reference"] += [head | row for row in histogram(reference)]
    tables = {name: pd.DataFrame(rows) for name, rows in rows_by_table.items()}
    if not rows_by_table["cosines"]:  # there is only one class
        tables["cosines"] = pd.DataFrame(columns=COSINES)
    return tables, every


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
