"""The weights laboratory: the tables of a model, within themselves and between them, before any context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import torch

from theodolite.errors import InputError
from theodolite.measures.pair_values import norms
from theodolite.sources.text.checkpoint import load_tokenizer, resolve
from theodolite.studies.laboratory import Findings, check_free, facts_of
from theodolite.studies.text_model import load_text_model
from theodolite.studies.weights import pair_tables
from theodolite.studies.weights.against_mean import METRICS, mean_extremes, token_table
from theodolite.studies.weights.folding import TRAINED, fold_sides
from theodolite.studies.weights.pairs import BLOCK, Side
from theodolite.studies.weights.parts import parameter_table, parts
from theodolite.studies.weights.positions import position_tables
from theodolite.studies.weights.projections import projection_tables
from theodolite.studies.weights.structure import overlap, structure, summary
from theodolite.studies.weights.tables import Tables
from theodolite.studies.weights.units import units_of
from theodolite.surveys.listener import Listener

LABORATORY = "weights"
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
    seed: int = 0,
    revision: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Weigh the tables of a model; save the findings where `out` names a folder.

    Statistics are over all rows; extreme pairs leave special and unused tokens out unless they are kept.
    `with_other` names a model whose vocabulary is set beside this one's.
    """
    check(above, most)
    if out is not None:
        check_free(Path(out), LABORATORY, overwrite=overwrite)
    ear = listener or Listener()
    loaded = load_text_model(model, revision=revision, trust_remote_code=trust_remote_code, listener=ear)
    tables = Tables.of(loaded.network, loaded.tokenizer)
    for note in tables.notes:
        ear.say(note)
    settings: dict[str, Any] = {"above": above, "most": most, "keep_special": keep_special}
    settings |= {"keep_unused": keep_unused, "projections": projections, "seed": seed}
    facts = facts_of(
        LABORATORY, loaded.facts, **settings, **{"with": None if with_other is None else str(with_other)}
    )
    found = Findings(facts, weigh(tables, facts, ear))
    if with_other is not None:
        _compare(found, tables.units, str(model), str(with_other), trust_remote_code)
    if out is not None:
        found.save(out, overwrite=overwrite)
    return found


def check(above: float, most: int) -> None:
    """Refuse settings that mean nothing."""
    if not 0 <= above < 1:
        raise InputError(f"--above {above}: wanted a cosine from 0 to below 1.")
    if most < 1:
        raise InputError(f"--most {most}: wanted at least 1 pair of each kind.")


def weigh(
    tables: Tables, facts: dict[str, Any], listener: Listener | None = None, *, block: int = BLOCK
) -> dict[str, pd.DataFrame]:
    """Return all tables of the laboratory; what was found goes to `facts["found"]`."""
    ear, settings = listener or Listener(), facts["settings"]
    found = position_tables(tables, settings["seed"])
    tail = _untrained_from(found)
    sides = _sides(tables, tail, settings)
    names = {name: tables.row_names("positions" if name == TRAINED else name) for name in sides}
    folded = fold_sides(sides, names, tables.units, settings, ear, block)
    tokens = token_table(tables)
    found |= folded.tables() | _segment_tables(sides, names, settings["above"])
    found |= {"tokens": tokens, "mean_extremes": mean_extremes(tokens)}
    _add_values(found, sides, tokens)
    parameters = parameter_table(tables.model, tables.names)
    found |= {"parameters": parameters, "parts": parts(parameters)}
    found["vocabulary"] = structure(tables.units, facts["model"]["name"] if facts.get("model") else "")
    if settings["projections"]:
        ear.say("projecting")
        found |= projection_tables(tables, settings["seed"])
    facts["found"] = {
        "tables": {
            role: {"name": tables.names[role], "shape": list(t.shape)} for role, t in tables.by_role().items()
        },
        "dropped": tables.dropped,
        "position_kind": tables.position_kind,
        "untrained_from": tail,
        "notes": [*tables.notes, *folded.notes],
        "beyond": folded.beyond,
        "vocabulary": summary(tables.units),
        "not_finite": {name: len(side.vectors) - len(side.rows) for name, side in sides.items()},
        "zero": {name: int((side.norms == 0).sum()) for name, side in sides.items()},
    }
    return found


def _sides(tables: Tables, tail: int | None, settings: dict[str, Any]) -> dict[str, Side]:
    units = tables.units
    out = torch.zeros(len(units), dtype=torch.bool)
    for column, kept in (("special", settings["keep_special"]), ("unused", settings["keep_unused"])):
        if not kept:
            out |= torch.tensor(units[column].to_numpy(bool))
    sides = {role: Side(role, table) for role, table in tables.by_role().items()}
    sides["words"].listed = ~out
    if tail is not None and tables.positions is not None:
        sides[TRAINED] = Side(TRAINED, tables.positions[:tail])
    return sides


def _segment_tables(sides: dict[str, Side], names: dict[str, list[str]], above: float) -> dict[str, pd.DataFrame]:
    if "segments" not in sides:
        return {}
    segments = sides["segments"]
    width = segments.vectors.shape[1]
    others = [sides[role] for role in ("words", "positions") if role in sides]
    others = [side for side in others if side.vectors.shape[1] == width]
    against = pair_tables.against_table(segments, others, names, above)
    return {"segments": pair_tables.segment_table(segments), "segments_against": against}


def _add_values(found: dict[str, pd.DataFrame], sides: dict[str, Side], tokens: pd.DataFrame) -> None:
    """Add norms, and tokens against the mean embedding, to the statistics and the histograms."""
    values = [(name, "", "norm", norms(side.vectors[side.rows].numpy())) for name, side in sides.items()]
    values += [("words", MEAN, metric, tokens[metric].to_numpy()) for metric in METRICS if metric != "norm"]
    rows = pd.DataFrame([pair_tables.value_rows(*each) for each in values])
    bins = pd.concat([pair_tables.value_histogram(*each) for each in values])
    found["pairs"] = pd.concat([rows, found["pairs"]], ignore_index=True)
    found["histograms"] = pd.concat([bins, found["histograms"]], ignore_index=True)


def _untrained_from(found: dict[str, pd.DataFrame]) -> int | None:
    """Return the first untrained position, where the study of positions found a tail of them; never 0."""
    if "position_tail" not in found:
        return None
    known = found["position_tail"]["first"].dropna()
    return (int(known.iloc[0]) or None) if len(known) else None


def _compare(found: Findings, units: pd.DataFrame, model: str, other: str, trust: bool) -> None:
    tokenizer = load_tokenizer(resolve(other), trust_remote_code=trust)
    size = max(tokenizer.get_vocab().values()) + 1
    theirs = units_of(tokenizer, size)
    both = [found.tables["vocabulary"], structure(theirs, other)]
    found.tables["vocabulary"] = pd.concat(both, ignore_index=True)
    found.tables["overlap"] = overlap(units, theirs)
    found.facts["found"]["other_vocabulary"] = {"name": other, **summary(theirs)}
