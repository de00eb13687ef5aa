"""A run over a store: everything about it, in one pass over its vectors and one search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from theodolite.engines.progress import Listener
from theodolite.environment import versions
from theodolite.errors import InputError
from theodolite.storage.files import read_tensors, write_tensors
from theodolite.storage.lock import exclusive
from theodolite.stores.answer import Section
from theodolite.stores.compare import compare_stores
from theodolite.stores.cost import measure_cost
from theodolite.stores.details import add_details
from theodolite.stores.dimensions import describe_dimensions
from theodolite.stores.hubs import Lists, describe_hubs
from theodolite.stores.neighbours import (
    describe_isolated,
    describe_near_duplicates,
    find_neighbours,
)
from theodolite.stores.pair_scores import METRICS, pair_moments
from theodolite.stores.reader import Reader
from theodolite.stores.results import PARTS, SCHEMA, StoreResults
from theodolite.stores.rows import describe_rows
from theodolite.stores.scan import Scan, scan_store
from theodolite.stores.score_floor import DOCUMENTS, QUERIES, describe_floor

Source = str | Path | NDArray[Any] | Tensor
Column = str | Sequence[Any] | None
FALSE_MATCH_RATE, NEAR_DUPLICATE, QUERY_COUNT = 1e-3, 0.98, 4096


class StoreRun:
    """One run over a store: its passes, and its checkpoints in the folder."""

    def __init__(
        self,
        reader: Reader,
        queries: Reader | None,
        against: Reader | None,
        settings: dict[str, Any],
        folder: Path | None,
        device: str,
        listener: Listener,
    ) -> None:
        self.reader, self.queries, self.against, self.settings = reader, queries, against, settings
        self.folder, self.device, self.listener = folder, device, listener
        self.started = datetime.now(UTC)

    def run(self, *, resume: bool) -> StoreResults:
        """Measure the store, and write the results if there is a folder; no other run may write there."""
        if self.folder is None:
            return self.measure(resume=False)
        with exclusive(self.folder, self.listener.say):
            made = self.measure(resume=resume)
            made.save(self.folder)
        return made

    def measure(self, *, resume: bool) -> StoreResults:
        """Read the store twice, and return the results."""
        scan = self._scan(resume)
        sections, query_scan = self._describe(scan, resume)
        if self.settings["cost"] and scan.count > 1:
            sections.append(
                measure_cost(
                    self.reader,
                    self.queries,
                    scan=scan,
                    metric=self.settings["metric"],
                    transforms=self.settings["transforms"],
                    device=self.device,
                    state=self._load(PARTS[2]) if resume and self._has(PARTS[2]) else None,
                    save=None if self.folder is None else lambda state: self._save(PARTS[2], state),
                    listener=self.listener,
                )
            )
        if self.against is not None:
            self.listener.say(f"comparing with {self.against.name}")
            groups, metric = self.settings["groups"], self.settings["metric"]
            sections.append(
                compare_stores(self.against, self.reader, groups=groups, metric=metric, device=self.device)
            )
        tables = add_details(
            {name: table for each in sections for name, table in each.tables.items()}, self.reader
        )
        for section in sections:
            section.tables.update({name: tables[name] for name in section.tables})
        notes = [str(note) for note in getattr(self.reader, "notes", [])]
        for note in notes:
            self.listener.warn(note)
        facts = self._facts(scan, query_scan, notes)
        return StoreResults(facts, sections, scan.state(), self.folder)

    def _scan(self, resume: bool) -> Scan:
        """Return the scan of the store, continued from a checkpoint if there is one."""
        scan, path = None, None if self.folder is None else self.folder / PARTS[0]
        if resume and path is not None and path.is_file():
            scan = Scan.from_state(self._load(PARTS[0]))
            self.listener.say(f"continuing after {scan.rows:,} rows")
        else:
            self._drop_checkpoints()
        self.listener.say(f"reading {self.reader.name}")
        save = None if path is None else lambda scan: self._save(PARTS[0], scan.state())
        known = self.reader.count
        if scan is None or known is None or scan.rows < known:
            scan = scan_store(
                self.reader,
                scan=scan,
                sample_size=self.settings["sample_size"],
                scatter=self.settings["cost"] and self.settings["metric"] != "cosine",
                save=save,
                listener=self.listener,
            )
        if save is not None:
            save(scan)
        return scan

    def _describe(self, scan: Scan, resume: bool) -> tuple[list[Section], Scan | None]:
        metric, bound = self.settings["metric"], self.settings["near_duplicate"]
        mean_cosine = pair_moments(scan.count, scan.units, scan.products).mean
        queries = None
        if self.queries is not None:
            queries = scan_store(self.queries, sample_size=self.settings["query_count"])
            if not queries.count:
                raise InputError(f"--queries {self.queries.name} has no usable vector.")
        sections = [describe_rows(scan, metric), describe_dimensions(scan, mean_cosine)]
        self.listener.say("measuring the scores of random pairs")
        floor = describe_floor(scan, metric, self.settings["false_match_rate"], queries)
        sections.append(floor)
        if scan.count < 2:
            return sections, queries
        self.listener.say("searching the nearest documents")
        found = find_neighbours(
            self.reader,
            scan,
            metric=metric,
            count=self.settings["query_count"],
            queries=None if queries is None else queries.sample.sorted()["vector"],
            device=self.device,
            state=self._load(PARTS[1]) if resume and self._has(PARTS[1]) else None,
            save=None if self.folder is None else lambda state: self._save(PARTS[1], state),
            listener=self.listener,
        )
        usable = np.zeros(scan.rows, bool)
        usable[scan.hashed_rows] = True
        census = found.queries is None and len(found.rows) == scan.count
        lists = found.documents.rows if found.queries is None else found.queries.rows
        kind = DOCUMENTS if found.queries is None else QUERIES
        self.listener.say("comparing all rows for near duplicates")
        sections.append(
            describe_near_duplicates(self.reader, scan, found, metric=metric, bound=bound, mean_cosine=mean_cosine)
        )
        sections.append(
            describe_hubs(Lists(lists, usable, "documents" if kind == DOCUMENTS else "queries", census))
        )
        sections.append(
            describe_isolated(found, floor.facts["pairs"][kind]["threshold"], metric, count=scan.count)
        )
        return sections, queries

    def _facts(self, scan: Scan, queries: Scan | None, notes: list[str]) -> dict[str, Any]:
        reader = self.reader
        return {
            "schema": SCHEMA,
            "store": {
                "name": reader.name,
                "rows": scan.rows,
                "usable": scan.count,
                "dim": reader.dim,
                "dtype": reader.dtype,
                "metric": reader.metric,
                "columns": list(reader.columns),
                "digest": reader.digest,
            },
            "queries": None
            if self.queries is None or queries is None
            else {"name": self.queries.name, "rows": queries.rows, "digest": self.queries.digest},
            "against": None
            if self.against is None
            else {"name": self.against.name, "digest": self.against.digest},
            "settings": self.settings,
            "notes": notes,
            "versions": versions(),
            "times": {
                "started": self.started.isoformat(timespec="seconds"),
                "seconds": round((datetime.now(UTC) - self.started).total_seconds(), 1),
            },
        }

    def _identity(self) -> dict[str, str]:
        """Return what a checkpoint depends on."""
        asked = "" if self.queries is None else self.queries.digest
        used = {name: self.settings[name] for name in ("metric", "sample_size", "query_count", "cost")}
        return {"digest": self.reader.digest, "queries": asked, "settings": repr(used)}

    def _has(self, name: str) -> bool:
        return self.folder is not None and (self.folder / name).is_file()

    def _save(self, name: str, state: dict[str, Tensor]) -> None:
        if self.folder is not None:
            write_tensors(self.folder / name, state, self._identity())

    def _load(self, name: str) -> dict[str, Tensor]:
        assert self.folder is not None
        state, saved = read_tensors(self.folder / name)
        mine = self._identity()
        if saved["digest"] != mine["digest"] or saved["queries"] != mine["queries"]:
            raise InputError(
                f"--resume: {self.reader.name} or its queries have changed since the interrupted run. "
                "Start again with --overwrite."
            )
        if saved["settings"] != mine["settings"]:
            raise InputError(
                f"--resume: the interrupted run had other settings: {saved['settings']} there, "
                f"{mine['settings']} now."
            )
        return state

    def _drop_checkpoints(self) -> None:
        for part in PARTS if self.folder is not None else ():
            (self.folder / part).unlink(missing_ok=True)  # type: ignore[operator]


@contextmanager
def rename_source(option: str) -> Iterator[None]:
    """Name the option in errors about a source that was given with it."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error).replace("SOURCE ", f"{option} ", 1)) from error


def check_groups(groups: str | None, reader: Reader, other: Reader | None) -> None:
    """Raise if the column of documents is not read, or is not needed."""
    if groups is None:
        return
    if other is None:
        raise InputError(
            "--groups requires --against: it keeps the rows of a document together in that comparison."
        )
    for each in (reader, other):
        if groups not in each.columns:
            known = ", ".join(each.columns) or "no column"
            raise InputError(
                f"--groups {groups!r} is not read from {each.name}, which has {known}; name its column with "
                "--label-column and give --groups label."
            )


def check_options(rate: float, bound: float, sample_size: int, query_count: int, metric: str | None) -> None:
    """Raise if an option has an impossible value."""
    if metric is not None and metric not in METRICS:
        raise InputError(
            f"--metric must be one of {', '.join(METRICS)} (got {metric!r}). L2 is euclidean, IP is dot."
        )
    if not 0 < rate < 1:
        raise InputError(f"--false-match-rate must be between 0 and 1 (got {rate}).")
    if not 0 < bound < 1:
        raise InputError(f"--near-duplicate must be a cosine between 0 and 1 (got {bound}).")
    for flag, value in (("--sample-size", sample_size), ("--query-count", query_count)):
        if value < 2:
            raise InputError(f"{flag} must be at least 2 (got {value}).")
    if query_count > sample_size:
        raise InputError(f"--query-count {query_count:,} must not exceed --sample-size {sample_size:,}.")
