"""Merging: surveys made apart become one, as if the documents had been read together."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from theodolite.errors import InputError
from theodolite.sources.units import Units
from theodolite.surveys.adding import add
from theodolite.surveys.folder import check_free, claim, open_survey, save
from theodolite.surveys.identity import differences
from theodolite.surveys.listener import Listener
from theodolite.surveys.state import State
from theodolite.surveys.storage import placed
from theodolite.surveys.survey import Survey
from theodolite.surveys.tables import make_tables

OTHER_THRESHOLD = (
    "the surveys were made with pilots that draw the line of massive norms elsewhere; use one --pilot"
)


def merge(
    surveys: Sequence[str | Path | Survey],
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Survey:
    """Merge surveys of one model and one set of settings over different documents.

    Sums add, centres are moved exactly, samples keep their smallest hashes. A shard may be in one of them only.
    """
    listener = listener or Listener()
    if len(surveys) < 2:
        raise InputError(f"merge wants at least two surveys; {len(surveys)} came.")
    folder = placed(out) if out is not None else None
    if folder is not None:
        check_free(folder, overwrite=overwrite)
    merged = _copy(_opened(surveys[0]))
    parts = [merged.facts["corpus"]]
    for other in map(_opened, surveys[1:]):
        listener.say(f"merging {other.folder or other.name}")
        _check(merged, other)
        _take_in(merged, other)
        parts.append(other.facts["corpus"])
    merged.facts["corpus"] = _joined(parts)
    merged.facts["identity"] = {
        **merged.facts["identity"],
        "corpus": {"sha256": merged.facts["corpus"]["sha256"], "part": None},
    }
    merged.tables = make_tables(
        merged.state,
        merged.layer_objects(),
        merged.facts["populations"],
        lost=merged.facts.get("lost"),
        told=listener.say,
    )
    merged.facts["counts"] |= {
        "positions": merged.state.positions,
        "types": len(merged.tables.units),
        "shards": len(merged.state.shards),
    }
    if folder is not None:
        claim(folder, overwrite=overwrite)
        save(merged, folder)
    return merged


def _opened(survey: str | Path | Survey) -> Survey:
    return survey if isinstance(survey, Survey) else open_survey(survey)


def _copy(survey: Survey) -> Survey:
    """Return a survey whose sums may be added to."""
    state = survey.state
    folds = {index: fold.copy() for index, fold in state.folds.items()}
    units = Units(state.units.kind, list(state.units.known))
    whole = State(folds, units, list(state.shards), 0, state.positions)
    facts = {**survey.facts, "counts": dict(survey.facts["counts"])}
    return Survey(facts, survey.tables, whole, survey.pilot, norms=survey.norms)  # of the same weights


def _check(merged: Survey, other: Survey) -> None:
    name = other.folder or other.name
    lines = differences(merged.facts["identity"], other.facts["identity"], merging=True)
    if lines:
        listed = "\n  ".join(lines)
        raise InputError(f"{name} cannot be merged: its settings differ:\n  {listed}")
    twice = set(merged.state.shards) & set(other.state.shards)
    if twice:
        raise InputError(
            f"{name} cannot be merged: {len(twice)} of its {len(other.state.shards)} shards are in another of the "
            "surveys already, and would count twice."
        )


def _take_in(merged: Survey, other: Survey) -> None:
    lost = dict(merged.facts.get("lost") or {}) | dict(other.facts.get("lost") or {})
    for index, fold in merged.state.folds.items():
        if (
            other.state.folds[index].frame.massive_above != fold.frame.massive_above
            and "without-massive" in merged.facts["populations"]
        ):
            lost["without-massive"] = OTHER_THRESHOLD
    theirs = other.state
    add(merged.state, lambda index: theirs.folds[index].copy(), theirs.units, theirs.shards, theirs.positions)
    if lost:
        merged.facts["lost"] = lost


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    names = list(dict.fromkeys(part["name"] for part in parts))
    digests = list(dict.fromkeys(part["sha256"] for part in parts))
    joined = digests[0] if len(digests) == 1 else sha256(" ".join(sorted(digests)).encode()).hexdigest()
    histograms = [part["words_histogram"] for part in parts if part.get("words_histogram")]
    words = [sum(counts) for counts in zip(*histograms, strict=True)] if len(histograms) == len(parts) else None
    sums = {key: sum(part[key] for part in parts) for key in ("documents", "characters", "read")}
    return {"name": " + ".join(names), "sha256": joined, **sums, "words_histogram": words, "parts": parts}
