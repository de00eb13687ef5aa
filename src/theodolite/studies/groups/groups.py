"""Groups of sentences that say the same: what `theodolite groups` does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from theodolite.errors import InputError
from theodolite.measures.projection import principal
from theodolite.sources.layers import Layer
from theodolite.studies.groups.bag import bags
from theodolite.studies.groups.measuring import measured, pair_rows
from theodolite.studies.groups.nonsense import CONTROLS, nonsense
from theodolite.studies.groups.reading import expanded, read_groups
from theodolite.studies.laboratory import Findings, check_free, facts_of
from theodolite.studies.pooling import check_pooling, pooled_by
from theodolite.studies.sentence_states import SentenceReader
from theodolite.studies.text_model import load_text_model
from theodolite.surveys.listener import Listener

GROUPS, WITH_NONSENSE = "groups", "with-nonsense"
AXES = ("x", "y", "z")
MOST = 5000
"""Sentences in all: every pair of them is measured at every layer."""


def groups(
    model: str | Path,
    sentences: str | Path | Mapping[str, Iterable[str]],
    *,
    out: str | Path | None = None,
    pooling: str | None = None,
    special: bool = True,
    layers: str | Sequence[int] | None = None,
    controls: int | None = None,
    permutations: int = 999,
    seed: int = 0,
    device: str = "cpu",
    dtype: str = "float32",
    revision: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Measure whether the sentences of a group lie nearer to each other than to those of other groups.

    `sentences` are lists of sentences by group, or a .json, .jsonl or .csv of them, with templates `{a|b|c}`.
    `pooling` is first, mean, last or max: the first token unless told, the last in causal models, whose first
    token sees nothing of the sentence. `controls` is how many sentences of each kind of nonsense are made: as many
    as the middle group has unless told, 0 for none.
    """
    given = read_groups(sentences) if isinstance(sentences, str | Path) else sentences
    written, dropped = expanded(given)
    _check(written, controls, permutations)
    if pooling is not None:
        check_pooling(pooling)
    if out is not None:
        check_free(Path(out), "groups", overwrite=overwrite)
    loaded = load_text_model(
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=listener,
    )
    reader = SentenceReader(loaded.network, loaded.tokenizer, layers=layers)
    how = pooling or ("last" if reader.causal else "first")
    made = _with_controls(written, controls, seed)
    table = _sentence_table(made, loaded.tokenizer)
    vectors = _vectors(reader, table, how, special=special)
    facts = facts_of(
        "groups",
        loaded.facts,
        file=str(sentences) if isinstance(sentences, str | Path) else None,
        pooling=how,
        special=special,
        permutations=permutations,
        seed=seed,
        duplicates_dropped=dropped,
    )
    facts["layers"] = [{"index": each.index, "name": each.name, "dim": each.dim} for each in reader.layers]
    found = Findings(facts, _tables(table, reader.layers, vectors, permutations, seed, listener or Listener()))
    if out is not None:
        found.save(out, overwrite=overwrite)
    return found


def _with_controls(written: dict[str, list[str]], controls: int | None, seed: int) -> dict[str, list[str]]:
    """Return the groups and, behind them, the two of nonsense."""
    count = controls if controls is not None else max(2, int(median(map(len, written.values()))))
    real = [sentence for group in written.values() for sentence in group]
    return written | ({kind: nonsense(real, kind, count, seed) for kind in CONTROLS} if count else {})


def _sentence_table(made: Mapping[str, Sequence[str]], tokenizer: Any) -> pd.DataFrame:
    rows = [(group, sentence, group in CONTROLS) for group, texts in made.items() for sentence in texts]
    table = pd.DataFrame(rows, columns=["group", "sentence", "nonsense"])
    table.insert(0, "number", np.arange(len(table)))
    table["tokens"] = [len(tokenizer(sentence)["input_ids"]) for sentence in table["sentence"]]
    return table


def _vectors(
    reader: SentenceReader, table: pd.DataFrame, how: str, *, special: bool
) -> dict[int, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the sentences' vectors at every layer; nonsense that is too long for the model is cut."""
    parts = []
    for controls, part in table.groupby("nonsense", sort=True):
        reader.truncate = bool(controls)  # random letters make more tokens than the sentence that they stand for
        parts.append(pooled_by(reader, part["sentence"].tolist(), how, special=special))
    return {
        layer.index: np.concatenate([part[layer.index].double().numpy() for part in parts])
        for layer in reader.layers
    }


def _tables(
    table: pd.DataFrame,
    layers: Sequence[Layer],
    vectors: Mapping[int, np.ndarray[Any, np.dtype[np.float64]]],
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
            flat = principal(every[mask], len(AXES))
            shares = {f"share_{axis}": share for axis, share in zip(AXES, flat.shares, strict=True)}
            rows.append(head | {"population": population} | measured(every[mask], code[mask], **how) | shares)
            at = dict(zip(AXES, flat.points.T, strict=True))
            points.append(
                pd.DataFrame(head | {"population": population, "number": table["number"].to_numpy()[mask]} | at)
            )
        pairs += [head | row for row in pair_rows(every, code, names, **how)]
    words = bags(table["sentence"].tolist())
    bag = [{"population": name} | measured(words[mask], code[mask], **how) for name, mask in sets.items()]
    return {
        "sentences": table,
        "layers": pd.DataFrame(rows),
        "pairs": pd.DataFrame(pairs),
        "projection": pd.concat(points, ignore_index=True),
        "bag_of_words": pd.DataFrame(bag),
    }


def _check(written: Mapping[str, Sequence[str]], controls: int | None, permutations: int) -> None:
    taken = [name for name in CONTROLS if name in written]
    if taken:
        raise InputError(f"Group {taken[0]!r} is the name of a control that is made here; call yours otherwise.")
    if not written or (len(written) < 2 and controls == 0):
        raise InputError(f"{len(written)} group came; wanted at least two to tell apart.")
    total = sum(map(len, written.values()))
    if total > MOST:
        raise InputError(f"{total:,} sentences came; every pair is measured, so wanted at most {MOST:,}.")
    if controls is not None and not 0 <= controls <= MOST:
        raise InputError(f"--controls {controls}: wanted 0 to {MOST:,} sentences of each kind of nonsense.")
    if permutations < 1:
        raise InputError(f"--permutations {permutations}: wanted at least 1.")
