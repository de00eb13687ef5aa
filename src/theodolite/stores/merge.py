"""Merge the results of parts of a store, such as its files, into those of the whole: what the scan gives.

Rows, exact duplicates, dimensions and scores of random pairs come from sums, hashes and samples, which merge. Near
duplicates, hubs, isolated documents and costs depend on a search of all rows, so they are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from theodolite.errors import InputError
from theodolite.stores.dimensions import describe_dimensions
from theodolite.stores.pair_scores import pair_moments
from theodolite.stores.results import StoreResults, open_results
from theodolite.stores.rows import describe_rows
from theodolite.stores.scan import Scan
from theodolite.stores.score_floor import describe_floor


def merge_results(folders: Sequence[str | Path]) -> StoreResults:
    """Return the sections "rows", "dimensions" and "floor" of a store from the folders of its parts.

    Rows are numbered through in the order of the folders. `save` writes the result, which can be merged again.
    """
    parts = [open_results(folder) for folder in folders]
    if len(parts) < 2:
        raise InputError(f"Merging requires at least two folders (got {len(parts)}).")
    _check_alike(parts)
    scan = Scan.from_state(parts[0].sums)
    for part in parts[1:]:
        other = Scan.from_state(part.sums)
        other.number_from(scan.rows)
        scan.merge(other)
    facts, settings = parts[0].facts, parts[0].facts["settings"]
    store = facts["store"] | {
        "name": " + ".join(part.name for part in parts),
        "rows": scan.rows,
        "usable": scan.count,
        "columns": [],
        "digest": "+".join(part.facts["store"]["digest"] for part in parts),
    }
    mean_cosine = pair_moments(scan.count, scan.units, scan.products).mean
    sections = [
        describe_rows(scan, settings["metric"]),
        describe_dimensions(scan, mean_cosine),
        describe_floor(scan, settings["metric"], settings["false_match_rate"], None),
    ]
    left_out = "Near duplicates, hubs, isolated documents and costs require a run over the whole store."
    notes = [left_out, *(note for part in parts for note in part.facts["notes"])]
    kept = {name: facts[name] for name in ("schema", "settings", "versions", "times")}
    return StoreResults({**kept, "store": store, "queries": None, "notes": notes}, sections, scan.state())


def _check_alike(parts: Sequence[StoreResults]) -> None:
    """Reject parts that cannot belong to one store, and parts that are given twice."""
    for what, group, name in (
        ("coordinates", "store", "dim"),
        ("types of numbers", "store", "dtype"),
        ("metrics", "settings", "metric"),
        ("false-match rates", "settings", "false_match_rate"),
        ("sample sizes", "settings", "sample_size"),
    ):
        found = [part.facts[group][name] for part in parts]
        if len(set(found)) > 1:
            raise InputError(f"The parts have different {what}: {', '.join(map(str, found))}.")
    known: set[str] = set()
    for part in parts:
        for digest in str(part.facts["store"]["digest"]).split("+"):
            if digest in known:
                raise InputError(f"{part.name} is given twice: {part.folder}.")
            known.add(digest)
