"""theodolite.merge: several surveys become one, as if their documents had been read together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from theodolite.corpora.fields import FieldChoice
from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.sources.units import Units
from theodolite.state.state import State, add_sums
from theodolite.storage.file_names import UNITS
from theodolite.storage.location import Location, parse_location
from theodolite.storage.lock import check_unlocked, exclusive
from theodolite.surveys.by_field import BY, join_groups
from theodolite.surveys.folder import SUMS_KEPT, check_free, open_survey, require_sums, write
from theodolite.surveys.provenance import differences
from theodolite.surveys.survey import OTHER_UNITS, Survey
from theodolite.tables.contexts import keep_smallest
from theodolite.tables.field_groups import make_group_tables
from theodolite.tables.tables import make_tables, nonfinite
from theodolite.text import pluralize

OTHER_THRESHOLD = (
    "the pilots of the surveys have different thresholds for massive positions; use one --pilot for all"
)
SINKS = "without-sinks"
SINKS_NOT_SEPARATED = (
    "one of the surveys was made without this population; survey its documents again to have it in all of them"
)


def merge(
    surveys: Sequence[str | Path | Survey],
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Survey:
    """Merge surveys of one model and one set of settings over different documents.

    Sums are added about a common centre, samples keep the smallest hashes. No shard may be in two of the surveys.
    """
    listener = listener or Listener()
    if len(surveys) < 2:
        raise InputError(f"merge requires at least two surveys (got {len(surveys)}).")
    folder = parse_location(out) if out is not None else None
    if folder is None:
        return _merge_all(surveys, listener)
    check_unlocked(folder)
    check_free(folder, overwrite=overwrite)
    _check_apart(folder, surveys)
    with exclusive(folder, listener.say):
        merged = _merge_all(surveys, listener)
        write(merged, folder, overwrite=overwrite)
    return merged


def _merge_all(surveys: Sequence[str | Path | Survey], listener: Listener) -> Survey:
    """Merge the surveys, and those by other kinds of units that all of them have."""
    kinds: list[list[str]] = []

    def open_each() -> Iterator[Survey]:
        for survey in map(_open, surveys):
            kinds.append(survey.facts.get(OTHER_UNITS, []))
            yield survey

    merged = _merge_one_kind(open_each(), listener)
    common = [kind for kind in kinds[0] if all(kind in each for each in kinds)]
    if dropped := sorted({kind for each in kinds for kind in each if kind not in common}):
        listener.warn(f"units {', '.join(dropped)} are not merged: some of the surveys do not have them")
    merged.facts.pop(OTHER_UNITS, None)
    if common:
        merged.facts[OTHER_UNITS] = common
    merged.others = {
        kind: _merge_one_kind((_open(survey, kind) for survey in surveys), listener) for kind in common
    }
    return merged


def _merge_one_kind(surveys: Iterator[Survey], listener: Listener) -> Survey:
    merged = _copy(next(surveys))
    parts = _parts(merged)
    contexts = [merged.tables.contexts]
    for other in surveys:
        listener.say(f"merging {other.folder or other.name}")
        _check(merged, other, parts)
        _add_survey(merged, other)
        contexts.append(other.tables.contexts)
        parts += _parts(other)
    merged.facts["corpus"] = _join_corpus_facts(parts)
    merged.facts["identity"] = {
        **merged.facts["identity"],
        "corpus": {"sha256": merged.facts["corpus"]["sha256"], "part": None},
    }
    merged.tables = make_tables(
        merged.state,
        merged.layer_objects(),
        merged.facts["populations"],
        lost=merged.facts.get("lost"),
        say=listener.say,
    )
    merged.tables = replace(merged.tables, contexts=keep_smallest(contexts))
    if BY in merged.facts:
        choice = FieldChoice.from_dict(merged.facts[BY])
        groups = make_group_tables(merged.state, merged.layer_objects(), merged.facts["populations"], choice)
        merged.tables = replace(merged.tables, **groups._asdict())
    merged.facts[SUMS_KEPT] = True
    merged.facts["counts"] |= {
        "positions": merged.state.positions,
        "types": len(merged.tables.units),
        "shards": len(merged.state.shards),
        "nonfinite": nonfinite(merged.tables.layers, merged.facts["populations"]),
    }
    if "units_with_vector" in merged.facts["counts"]:
        merged.facts["counts"]["units_with_vector"] = merged.state.count_units_with_vector()
    return merged


def _check_apart(folder: Location, surveys: Sequence[str | Path | Survey]) -> None:
    """Reject a folder that is one of the inputs: it must stay complete until the new survey is."""
    read = [one.folder if isinstance(one, Survey) else parse_location(one) for one in surveys]
    if any(place is not None and _normalized(place) == _normalized(folder) for place in read):
        raise InputError(f"--out {folder} is one of the surveys to merge. Choose another folder.")


def _normalized(place: Location) -> str:
    return str(place.resolve() if isinstance(place, Path) else place)


def _open(survey: str | Path | Survey, kind: str | None = None) -> Survey:
    """Return the survey, or the one by another kind of unit."""
    if isinstance(survey, Survey):
        opened = survey if kind is None else survey.by(kind)
    else:
        opened = open_survey(survey if kind is None else parse_location(survey) / UNITS / kind)
    require_sums(opened, "merge")
    return opened


def _copy(survey: Survey) -> Survey:
    """Return a copy with sums that may be changed."""
    state = survey.state
    folds = {index: fold.copy() for index, fold in state.folds.items()}
    units = Units(state.units.kind, list(state.units.known))
    copied = State(folds, units, list(state.shards), 0, state.positions)
    facts = {**survey.facts, "counts": dict(survey.facts["counts"])}
    return Survey(facts, survey.tables, copied, survey.pilot, norms=survey.norms)


def _parts(survey: Survey) -> list[dict[str, Any]]:
    """Return the facts of the corpus, or of each corpus of a merged survey, with the size of its shards."""
    corpus, settings = survey.facts["corpus"], survey.facts["identity"]["settings"]
    return [{"shard_chars": settings.get("shard_chars")} | part for part in corpus.get("parts") or [corpus]]


def _check(merged: Survey, other: Survey, parts: list[dict[str, Any]]) -> None:
    name = other.folder or other.name
    identities = (_set_populations(one.facts["identity"], sinks=False) for one in (merged, other))
    lines = differences(*identities, merging=True, places=("in the others", f"in {name}"))
    if lines:
        listed = "\n  ".join(lines)
        raise InputError(
            f"{name} cannot be merged: its settings differ. Survey both with the same settings.\n  {listed}"
        )
    corpora = {part["sha256"] for part in (*parts, *_parts(other))}
    if merged.facts["settings"].get("min_count", 1) > 1 and len(corpora) > 1:
        raise InputError(
            f"{name} cannot be merged: which units have a vector depends on the corpus if --min-count is above 1 "
            f"(it is {merged.facts['settings']['min_count']}). Survey the corpora as one, or with --min-count 1."
        )
    shard_sizes = {part["sha256"]: part["shard_chars"] for part in parts}
    for part in _parts(other):
        theirs, ours = part["shard_chars"], shard_sizes.get(part["sha256"], part["shard_chars"])
        if theirs != ours:
            raise InputError(
                f"{name} cannot be merged: its shards of {part['name']} have {theirs:,} characters, those of "
                f"another survey {ours:,} (GPU and CPU use different sizes), so documents would be counted twice "
                "or not at all. Survey all parts of one corpus on the same kind of device."
            )
    twice = set(merged.state.shards) & set(other.state.shards)
    if twice:
        raise InputError(
            f"{name} cannot be merged: it is given twice, or some of its documents are also in another survey and "
            f"would be counted twice ({len(twice)} of its {pluralize(len(other.state.shards), 'shard')}). "
            "Merge surveys of different documents."
        )


def _set_populations(identity: dict[str, Any], *, sinks: bool) -> dict[str, Any]:
    """Return the identity of a run with or without the population that older surveys do not have."""
    settings = identity["settings"]
    populations = [name for name in settings["populations"] if name != SINKS] + [SINKS] * sinks
    return {**identity, "settings": {**settings, "populations": populations}}


def _add_survey(merged: Survey, other: Survey) -> None:
    lost = dict(merged.facts.get("lost") or {}) | dict(other.facts.get("lost") or {})
    separated = [SINKS in one.facts["populations"] for one in (merged, other)]
    if any(separated) and not all(separated):
        lost[SINKS] = SINKS_NOT_SEPARATED
        identity = _set_populations(merged.facts["identity"], sinks=True)
        settings = identity["settings"]
        merged.facts |= {
            "identity": identity,
            "settings": settings,
            "populations": list(settings["populations"]),
        }
    for index, fold in merged.state.folds.items():
        if other.state.folds[index].frame.massive_above != fold.frame.massive_above:
            for population in {"without-massive", SINKS} & set(merged.facts["populations"]):
                lost[population] = OTHER_THRESHOLD
    theirs = join_groups(merged.state, merged.facts, other.state, other.facts)
    add_sums(merged.state, lambda index: theirs.folds[index].copy(), theirs.units, theirs.shards, theirs.positions)
    if lost:
        merged.facts["lost"] = lost
    counts = merged.facts["counts"]
    counts["left_out"] = counts.get("left_out", 0) + other.facts["counts"].get("left_out", 0)


def _join_corpus_facts(parts: list[dict[str, Any]]) -> dict[str, Any]:
    names = list(dict.fromkeys(part["name"] for part in parts))
    digests = list(dict.fromkeys(part["sha256"] for part in parts))
    joined = digests[0] if len(digests) == 1 else sha256(" ".join(sorted(digests)).encode()).hexdigest()
    documents = sum(part["documents"] for part in parts)
    corpora = list(
        {part["sha256"]: part for part in parts}.values()
    )  # the other facts of a part are those of its corpus
    histograms = [corpus["words_histogram"] for corpus in corpora if corpus.get("words_histogram")]
    words = [sum(counts) for counts in zip(*histograms, strict=True)] if len(histograms) == len(corpora) else None
    sums = {key: sum(corpus[key] for corpus in corpora) for key in ("characters", "read")}
    facts = {"name": " + ".join(names), "sha256": joined, "documents": documents, **sums}
    return facts | {"words_histogram": words, "parts": parts}
