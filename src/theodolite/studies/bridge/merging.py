"""Merging bridges over different documents: sums are added, as if one run had read all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.models.layers import Layer
from theodolite.storage.files import read_json
from theodolite.studies.bridge.bridge import FIGURE, Bridge, finish
from theodolite.studies.bridge.reading import explain_difference, identify
from theodolite.studies.laboratory import (
    FACTS_FILE,
    Findings,
    check_laboratory_folder,
    is_laboratory,
    open_laboratory,
)

OTHER_LIMITS = (
    "The thresholds of sinks are those of the first texts of each run, and differ between the merged runs."
)


def merge_bridges(
    bridges: Sequence[str | Path | Findings],
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Merge bridges of the same models and settings over different documents, made with `keep_sums`.

    Sums are exact, about a common centre. The thresholds above which a position is a sink are those of each run.
    """
    listener = listener or Listener()
    if len(bridges) < 2:
        raise InputError(f"merge requires at least two bridges (got {len(bridges)}).")
    check_laboratory_folder(out, "bridge", overwrite=overwrite)
    found = [each if isinstance(each, Findings) else open_laboratory(each) for each in bridges]
    names = [
        f"bridge {number + 1}" if isinstance(each, Findings) else str(each) for number, each in enumerate(bridges)
    ]
    _check(found, names)
    total = _restore(found[0])
    for other, name in zip(found[1:], names[1:], strict=True):
        listener.say(f"merging {name}")
        total.merge(_restore(other))
    facts = found[0].facts | _add_facts([each.facts for each in found])
    if facts["settings"]["population"] != "all":
        total.warnings.append(OTHER_LIMITS)
    merged, _ = finish(total, facts, listener)
    merged.save_if_asked(out, overwrite=overwrite)
    if out is not None:
        (Path(out) / FIGURE).unlink(missing_ok=True)
    return merged


def is_bridge(folder: str | Path) -> bool:
    """Return whether a folder contains the results of a bridge."""
    return is_laboratory(folder) and read_json(Path(folder) / FACTS_FILE).get("laboratory") == "bridge"


def _restore(found: Findings) -> Bridge:
    sides = [found.facts[name] for name in ("layers", "layers_b") if found.facts[name] is not None]
    layers = [[Layer(**layer) for layer in side] for side in sides]
    made = Bridge(layers, found.facts["settings"]["sample_size"], plan=found.facts["sums"]["pairs"])
    made.load(found.vectors)
    return made


def _check(found: Sequence[Findings], names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for each, name in zip(found, names, strict=True):
        if each.facts["laboratory"] != "bridge":
            raise InputError(
                f"{name} contains results of `theodolite {each.facts['laboratory']}`, not of a bridge."
            )
        if not each.facts.get("sums", {}).get("kept"):
            raise InputError(f"{name} has no sums to merge. Run it again with --keep-sums.")
        if (why := explain_difference(identify(found[0].facts), identify(each.facts))) is not None:
            raise InputError(f"{names[0]} and {name} cannot be merged: {why}.")
        for digest in _digests(each.facts):
            if digest in seen:
                raise InputError(
                    f"{seen[digest]} and {name} have read the same documents: they would count twice."
                )
            seen[digest] = name


def _digests(facts: dict[str, Any]) -> list[str]:
    return [part["sha256"] for part in facts["corpus"].get("parts", [facts["corpus"]])]


def _add_facts(several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the facts that add up over documents."""
    corpora = [facts["corpus"] for facts in several]
    models = [facts["positions"]["models"] for facts in several]
    parts = [part for corpus in corpora for part in corpus.get("parts", [corpus])]
    return {
        "corpus": {
            "name": " + ".join(dict.fromkeys(part["name"] for part in parts)),
            **{name: sum(corpus[name] for corpus in corpora) for name in ("documents", "held_out")},
            "parts": parts,
        },
        "positions": {
            "matched": sum(facts["positions"]["matched"] for facts in several),
            "models": [
                {name: sum(counts[name] for counts in side) for name in side[0]}
                for side in zip(*models, strict=True)
            ],
        },
        "seconds": {name: sum(facts["seconds"][name] for facts in several) for name in several[0]["seconds"]},
    }
