"""The contrast laboratory: pairs of sentences through a model, differences, directions, and how sure they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.studies.contrast.directions import COSINES, class_rows, cosine_rows, limits
from theodolite.studies.contrast.likeness import pairs_table, warnings
from theodolite.studies.contrast.pairs_file import Pairs, read_pairs, without_mirrors
from theodolite.studies.contrast.plane import plane
from theodolite.studies.contrast.random_pairs import histogram, random_cosines
from theodolite.studies.first_token import warn_of_first
from theodolite.studies.laboratory import Findings, facts_of
from theodolite.studies.pooling import check_pooling, pooled_by
from theodolite.studies.sentence_states import SentenceReader
from theodolite.studies.text_model import load_text_model
from theodolite.surveys.listener import Listener

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
    """Measure the directions of classes of sentence pairs at every layer; difference means second minus first.

    `pairs` is a .json file or a mapping, {class: [[a, b], ...]}; `pooling` first, mean, last or max. `matched`
    leaves out the pairs whose sentences differ in punctuation. Tables: pairs, classes, cosines, points, axes,
    reference; vectors: `differences` (layers, pairs, dim), in the order of the table of pairs.
    """
    listener = listener or Listener()
    check_pooling(pooling)
    classes, mirrored = without_mirrors(read_pairs(pairs))
    loaded = load_text_model(
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    reader = SentenceReader(loaded.network, loaded.tokenizer, layers=layers)
    warn_of_first(reader, pooling, listener)
    table = pairs_table(classes, token_counts(reader, _sentences(classes)))
    written = len(table)
    if matched:
        classes, table = _matched(classes, table)
    listener.say(f"reading {len(table)} pairs")
    vectors = pooled_by(reader, _sentences(classes), pooling)
    named = {layer.index: layer.name for layer in reader.layers}
    tables, differences = measured(
        {layer: states.double().numpy() for layer, states in vectors.items()}, classes, named, seed=seed
    )
    last = tables["cosines"][tables["cosines"]["layer"] == reader.layers[-1].index].to_dict("records")
    told = [*mirrored, *warnings(table), *limits(last)]
    for words in told:
        listener.warn(words)
    facts = facts_of(
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
        "corpus": {"name": name, "documents": len(table), "left_out": written - len(table)},
        "warnings": told,
    }
    same_width = len({d.shape[1] for d in differences.values()}) == 1
    kept = {"differences": torch.from_numpy(np.stack(list(differences.values()))).float()} if same_width else {}
    return Findings(facts, {"pairs": table, **tables}, kept)


def measured(
    vectors: Mapping[int, Array], classes: Pairs, names: Mapping[int, str], *, seed: int = 0
) -> tuple[dict[str, pd.DataFrame], dict[int, Array]]:
    """Return the tables and the differences of every layer.

    vectors: by layer (2 x pairs, dim), the two sentences of a pair one after the other, class by class.
    """
    sizes = [len(members) for members in classes.values()]
    ends = np.cumsum(sizes)[:-1]
    found: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("classes", "cosines", "points", "axes", "reference")
    }
    every = {}
    for layer, x in vectors.items():
        head = {"layer": layer, "layer_name": names[layer]}
        every[layer] = x[1::2] - x[::2]
        differences = dict(zip(classes, np.split(every[layer], ends), strict=True))
        reference = random_cosines(x, int(np.median(sizes)), seed=seed)
        low, high = np.quantile(reference, [0.025, 0.975]).tolist() if len(reference) else (np.nan, np.nan)
        ends_of = {"reference_low": low, "reference_high": high}
        points, shares = plane(differences)
        found["classes"] += [head | row for row in class_rows(differences, seed=seed)]
        found["cosines"] += [head | row | ends_of for row in cosine_rows(differences, reference, seed=seed)]
        found["points"] += [head | row for row in points]
        found["axes"] += [head | {"axis": axis, "share": share} for axis, share in enumerate(shares, 1)]
        found["reference"] += [head | row for row in histogram(reference)]
    tables = {name: pd.DataFrame(rows) for name, rows in found.items()}
    if not found["cosines"]:  # one class alone
        tables["cosines"] = pd.DataFrame(columns=COSINES)
    return tables, every


def token_counts(reader: SentenceReader, sentences: Sequence[str]) -> list[int]:
    """Return how many tokens each sentence has, special ones left out."""
    counts = [0] * len(sentences)
    for window in reader.source.windows(list(enumerate(sentences)))[0]:
        counts[window.document] += int((~window.special).sum())
    return counts


def _sentences(classes: Pairs) -> list[str]:
    return [sentence for members in classes.values() for pair in members for sentence in pair]


def _matched(classes: Pairs, table: pd.DataFrame) -> tuple[Pairs, pd.DataFrame]:
    """Return the pairs of equal punctuation; refuse where a class loses all."""
    kept = table[~table["punctuation_differs"]]
    alike = {
        name: [members[number - 1] for number in kept.loc[kept["class"] == name, "pair"]]
        for name, members in classes.items()
    }
    for name, members in alike.items():
        if not members:
            raise InputError(f"--matched leaves nothing of {name!r}: every pair of it differs in punctuation.")
    numbers = kept.groupby("class", sort=False).cumcount() + 1  # as they stand among those kept
    return alike, kept.assign(pair=numbers).reset_index(drop=True)
