"""The weights laboratory: statistics within and between the word, position and segment tables of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.measures.laboratories.table_pairs import norms
from theodolite.models.checkpoint import load_tokenizer, resolve
from theodolite.studies.laboratory import Findings, check_laboratory_folder, make_facts
from theodolite.studies.text_model import load_text_model
from theodolite.studies.weights.mean_embedding import METRICS, mean_extremes, token_table
from theodolite.studies.weights.model_tables import ModelTables
from theodolite.studies.weights.pair_tables import (
    TRAINED_POSITIONS,
    against_table,
    fold_tables,
    segment_table,
    value_histogram,
    value_rows,
)
from theodolite.studies.weights.pairs import BLOCK, PairTable
from theodolite.studies.weights.parameters import parameter_table, parts_table
from theodolite.studies.weights.positions import position_tables
from theodolite.studies.weights.projections import projection_tables
from theodolite.studies.weights.vocabulary import (
    summarise_vocabulary,
    token_units,
    vocabulary_overlap,
    vocabulary_table,
)

LABORATORY = "weights"
UNTRAINED = 0.9
"""Cosine with a special or unused token above which an ordinary token counts as untrained."""
QUICK_ROWS = 4096
"""Rows of a table that are paired with `quick`: 8.4 million pairs within a table."""
MEAN = "mean of words"


def weights(
    model: str | Path,
    *,
    out: str | Path | None = None,
    with_other: str | Path | None = None,
    above: float = 0.2,
    most: int = 10,
    keep_special: bool = False,
    keep_unused: bool = False,
    projections: bool = True,
    quick: bool = False,
    seed: int = 0,
    revision: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Measure the word, position and segment tables of a model; save the findings to `out` if given.

    Statistics are over all rows; lists of extreme pairs omit special and unused tokens unless they are kept.
    `with_other` is a second model whose vocabulary is compared with that of the first. `quick` measures the pairs
    of 4,096 random rows of a larger table instead of all its pairs.
    """
    check_settings(above, most)
    check_laboratory_folder(out, LABORATORY, overwrite=overwrite)
    listener = listener or Listener()
    loaded = load_text_model(
        model, device="cpu", revision=revision, trust_remote_code=trust_remote_code, listener=listener
    )
    tables = ModelTables.of(loaded.network, loaded.tokenizer)
    for note in tables.notes:
        listener.say(note)
    settings: dict[str, Any] = {"above": above, "most": most, "keep_special": keep_special}
    settings |= {"keep_unused": keep_unused, "projections": projections, "quick": quick, "seed": seed}
    facts = make_facts(
        LABORATORY, loaded.facts, **settings, **{"with": None if with_other is None else str(with_other)}
    )
    findings = Findings(facts, measure_weights(tables, facts, listener))
    if with_other is not None:
        _compare_vocabularies(findings, tables.units, str(with_other), trust_remote_code)
    return findings.save_if_asked(out, overwrite=overwrite)


def check_settings(above: float, most: int) -> None:
    """Raise for invalid settings."""
    if not 0 <= above < 1:
        raise InputError(f"--above must be a cosine of at least 0 and below 1 (got {above}).")
    if most < 1:
        raise InputError(f"--most must be at least 1 (got {most}).")


def measure_weights(
    tables: ModelTables, facts: dict[str, Any], listener: Listener | None = None, *, block: int = BLOCK
) -> dict[str, pd.DataFrame]:
    """Return all tables of the laboratory; adds a summary to the facts as `facts["found"]`."""
    listener, settings = listener or Listener(), facts["settings"]
    results = position_tables(tables, settings["seed"])
    tail = _untrained_from(results)
    untrained = untrained_tokens(tables)
    pair_tables = _pair_tables(tables, tail, untrained, settings)
    damaged = list(_describe_nonfinite(pair_tables, tables.names))
    for note in damaged:
        listener.warn(note)
    names = {name: tables.row_names("positions" if name == TRAINED_POSITIONS else name) for name in pair_tables}
    paired, sampled = pair_tables, []
    if settings.get("quick"):
        paired = {name: table.sample(QUICK_ROWS, settings["seed"]) for name, table in pair_tables.items()}
        sampled = list(_describe_sampled(pair_tables, paired))
    pair_findings = fold_tables(paired, names, tables.units, settings, listener, block)
    tokens = token_table(tables)
    results |= pair_findings.tables() | _segment_tables(pair_tables, names, settings["above"])
    results |= {"tokens": tokens, "mean_extremes": mean_extremes(tokens)}
    _add_values(results, pair_tables, tokens)
    parameters = parameter_table(tables.model, tables.names)
    results |= {"parameters": parameters, "parts": parts_table(parameters)}
    results["vocabulary"] = vocabulary_table(tables.units, facts["model"]["name"] if facts.get("model") else "")
    if settings["projections"]:
        listener.say("projecting")
        results |= projection_tables(tables, settings["seed"])
    facts["found"] = {
        "tables": {
            role: {"name": tables.names[role], "shape": list(t.shape)} for role, t in tables.by_role().items()
        },
        "dropped": tables.dropped,
        "position_kind": tables.position_kind,
        "untrained_from": tail,
        "untrained_tokens": [tables.units["name"].iloc[int(row)] for row in untrained.nonzero()[:, 0]],
        "notes": [*tables.notes, *damaged, *sampled, *pair_findings.notes],
        "beyond": pair_findings.beyond,
        "vocabulary": summarise_vocabulary(tables.units),
        "not_finite": {name: len(table.vectors) - len(table.rows) for name, table in pair_tables.items()},
        "zero": {name: int((table.norms == 0).sum()) for name, table in pair_tables.items()},
    }
    return results


def untrained_tokens(tables: ModelTables) -> Tensor:
    """Return which ordinary tokens have nearly the vector of a special or unused token. (tokens,) bool

    Training moves the vectors of tokens that occur; those that never occurred are nearly equal to each other, and
    would be the most similar pairs of every list.
    """
    marked = torch.tensor((tables.units["special"] | tables.units["unused"]).to_numpy(bool))
    units = torch.nn.functional.normalize(tables.words.float(), dim=1)
    found = torch.zeros(len(marked), dtype=torch.bool)
    if marked.any():
        blocks = [(block @ units[marked].T > UNTRAINED).any(dim=1) for block in torch.split(units, BLOCK)]
        found = torch.cat(blocks) & ~marked
    return found


def _pair_tables(
    tables: ModelTables, tail: int | None, untrained: Tensor, settings: dict[str, Any]
) -> dict[str, PairTable]:
    units = tables.units
    omitted = torch.zeros(len(units), dtype=torch.bool) if settings["keep_unused"] else untrained.clone()
    for column, kept in (("special", settings["keep_special"]), ("unused", settings["keep_unused"])):
        if not kept:
            omitted |= torch.tensor(units[column].to_numpy(bool))
    pair_tables = {role: PairTable(role, table) for role, table in tables.by_role().items()}
    pair_tables["words"].listed = ~omitted
    if tail is not None and tables.positions is not None:
        pair_tables[TRAINED_POSITIONS] = PairTable(TRAINED_POSITIONS, tables.positions[:tail])
    return pair_tables


def _describe_nonfinite(pair_tables: dict[str, PairTable], parameters: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each table with rows that have no numbers; raise if no word has any."""
    for name, table in pair_tables.items():
        rows, parameter = len(table.vectors), parameters.get(name, name)
        left_out = rows - len(table.rows)
        if left_out == rows and name == "words":
            raise InputError(
                f"All {rows:,} rows of the word table ({parameter}) contain NaN or infinite numbers: the model "
                "is damaged or its training diverged. Nothing can be measured."
            )
        if left_out and name != TRAINED_POSITIONS:
            yield f"{left_out:,} of {rows:,} rows of {parameter} contain NaN or infinite numbers and were left out"


def _describe_sampled(whole: dict[str, PairTable], sampled: dict[str, PairTable]) -> Iterator[str]:
    """Yield a sentence for each table of which only some rows are paired."""
    for name, table in sampled.items():
        rows, of = len(table.rows), len(whole[name].rows)
        if rows < of:
            kept = f"pairs of {name}: of {rows:,} random rows of {of:,}"
            yield f"{kept}; extreme and close pairs are those of these rows"


def _segment_tables(
    pair_tables: dict[str, PairTable], names: dict[str, list[str]], above: float
) -> dict[str, pd.DataFrame]:
    if "segments" not in pair_tables:
        return {}
    segments = pair_tables["segments"]
    width = segments.vectors.shape[1]
    others = [pair_tables[role] for role in ("words", "positions") if role in pair_tables]
    others = [table for table in others if table.vectors.shape[1] == width]
    against = against_table(segments, others, names, above)
    return {"segments": segment_table(segments), "segments_against": against}


def _add_values(results: dict[str, pd.DataFrame], pair_tables: dict[str, PairTable], tokens: pd.DataFrame) -> None:
    """Add norms, and comparisons of tokens with the mean embedding, to the statistics and the histograms."""
    values = [(name, "", "norm", norms(table.vectors[table.rows].numpy())) for name, table in pair_tables.items()]
    values += [("words", MEAN, metric, tokens[metric].to_numpy()) for metric in METRICS if metric != "norm"]
    rows = pd.DataFrame([value_rows(*each) for each in values])
    bins = pd.concat([value_histogram(*each) for each in values])
    results["pairs"] = pd.concat([rows, results["pairs"]], ignore_index=True)
    results["histograms"] = pd.concat([bins, results["histograms"]], ignore_index=True)


def _untrained_from(results: dict[str, pd.DataFrame]) -> int | None:
    """Return the first position of the untrained tail, None if there is no tail or if it starts at 0."""
    if "position_tail" not in results:
        return None
    known = results["position_tail"]["first"].dropna()
    return (int(known.iloc[0]) or None) if len(known) else None


def _compare_vocabularies(findings: Findings, units: pd.DataFrame, other: str, trust: bool) -> None:
    tokenizer = load_tokenizer(resolve(other), trust_remote_code=trust)
    size = max(tokenizer.get_vocab().values()) + 1
    other_units = token_units(tokenizer, size)
    both = [findings.tables["vocabulary"], vocabulary_table(other_units, other)]
    findings.tables["vocabulary"] = pd.concat(both, ignore_index=True)
    findings.tables["overlap"] = vocabulary_overlap(units, other_units)
    findings.facts["found"]["other_vocabulary"] = {"name": other, **summarise_vocabulary(other_units)}
