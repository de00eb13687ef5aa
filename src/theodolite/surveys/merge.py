"""Merging: surveys made apart become one, as if the documents had been read together."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from theodolite.errors import InputError
from theodolite.sources.units import Units
from theodolite.surveys.adding import add
from theodolite.surveys.alone import alone
from theodolite.surveys.folder import check_free, claim, open_survey, save
from theodolite.surveys.identity import differences
from theodolite.surveys.listener import Listener
from theodolite.surveys.state import State
from theodolite.surveys.storage import Place, placed
from theodolite.surveys.survey import Survey
from theodolite.surveys.tables import make_tables, nonfinite

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
    if folder is None:
        return _merged(surveys, listener)
    check_free(folder, overwrite=overwrite)
    _check_apart(folder, surveys)
    with alone(folder, listener.say):
        merged = _merged(surveys, listener)
        claim(folder, overwrite=overwrite)
        save(merged, folder)
    return merged


def _merged(surveys: Sequence[str | Path | Survey], listener: Listener) -> Survey:
    merged = _copy(_opened(surveys[0]))
    parts = _parts(merged)
    for other in map(_opened, surveys[1:]):
        listener.say(f"merging {other.folder or other.name}")
        _check(merged, other, parts)
        _take_in(merged, other)
        parts += _parts(other)
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
        "nonfinite": nonfinite(merged.tables.layers, merged.facts["populations"]),
    }
    return merged


def _check_apart(folder: Place, surveys: Sequence[str | Path | Survey]) -> None:
    """Refuse a folder that is read from: until the new survey is whole, the old one must be."""
    read = [one.folder if isinstance(one, Survey) else placed(one) for one in surveys]
    if any(place is not None and _spelled(place) == _spelled(folder) for place in read):
        raise InputError(f"--out {folder} is one of the surveys to merge; give another folder.")


def _spelled(place: Place) -> str:
    return str(place.resolve() if isinstance(place, Path) else place)


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


def _parts(survey: Survey) -> list[dict[str, Any]]:
    """Return what a survey tells of its corpus, or of each one that it was merged from, with how it was cut."""
    corpus, settings = survey.facts["corpus"], survey.facts["identity"]["settings"]
    return [{"shard_chars": settings.get("shard_chars")} | part for part in corpus.get("parts") or [corpus]]


def _check(merged: Survey, other: Survey, parts: list[dict[str, Any]]) -> None:
    name = other.folder or other.name
    lines = differences(merged.facts["identity"], other.facts["identity"], merging=True)
    if lines:
        listed = "\n  ".join(lines)
        raise InputError(f"{name} cannot be merged: its settings differ:\n  {listed}")
    cut = {part["sha256"]: part["shard_chars"] for part in parts}
    for part in _parts(other):
        there, here = part["shard_chars"], cut.get(part["sha256"], part["shard_chars"])
        if there != here:
            raise InputError(
                f"{name} cannot be merged: {part['name']} was cut into shards of {there:,} characters there and "
                f"of {here:,} in another, as on a GPU and on a processor, so that documents would count twice or "
                "not at all; survey all parts of one corpus on the same kind of device."
            )
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
    counts = merged.facts["counts"]
    counts["left_out"] = counts.get("left_out", 0) + other.facts["counts"].get("left_out", 0)


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    names = list(dict.fromkeys(part["name"] for part in parts))
    digests = list(dict.fromkeys(part["sha256"] for part in parts))
    joined = digests[0] if len(digests) == 1 else sha256(" ".join(sorted(digests)).encode()).hexdigest()
    documents = sum(part["documents"] for part in parts)
    corpora = list({part["sha256"]: part for part in parts}.values())  # all else a part tells of its whole corpus
    histograms = [corpus["words_histogram"] for corpus in corpora if corpus.get("words_histogram")]
    words = [sum(counts) for counts in zip(*histograms, strict=True)] if len(histograms) == len(corpora) else None
    sums = {key: sum(corpus[key] for corpus in corpora) for key in ("characters", "read")}
    told = {"name": " + ".join(names), "sha256": joined, "documents": documents, **sums}
    return told | {"words_histogram": words, "parts": parts}
