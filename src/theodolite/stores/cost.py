"""What a change of the vectors would cost: recall, rank churn, bytes and time of every transform.

Transforms are fitted to the scan of the store: its moments and its sample. Then every block is searched as it is
and after each transform.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.engines.progress import Listener, Progress
from theodolite.errors import InputError, TheodoliteError
from theodolite.hashing import mix, text_hash
from theodolite.stores import scan as scanning
from theodolite.stores.answer import Answer, Section
from theodolite.stores.query_time import time_query
from theodolite.stores.reader import Block, Reader
from theodolite.stores.recall import churn_at, find_pareto, mean_interval, recall_at
from theodolite.stores.scan import Scan, scan_store
from theodolite.stores.search import Search, check_metric
from theodolite.stores.transforms import (
    AS_IS,
    PQ_CENTROIDS,
    PQ_POINTS,
    Moments,
    StoreTransform,
    fit_transform,
    parse_transform,
    prepare_vectors,
)
from theodolite.text import format_percent

PLACES = (1, 10, 100)
QUERY_COUNT, TRAINING_ROWS = 1000, PQ_CENTROIDS * PQ_POINTS
GOOD_RECALL = 0.95
"""Recall@10 from which a transform is called good."""
NUMBERS = [f"{name}_{k}" for name, ks in (("recall", PLACES), ("churn", (10,))) for k in ks]
COLUMNS = [
    "transform",
    "bytes",
    "compression",
    *(f"{number}{end}" for number in NUMBERS for end in ("", "_low", "_high")),
    "query_ms",
    "needs_originals",
    "pareto",
    "undefined",
]


@dataclass
class FirstPass:
    """What transforms are fitted to. Everything but `contents` is bounded; `contents` takes 8 bytes a row.

    moments   of rows that are finite and not zero; by cosine, of vectors of length 1
    rows      number of rows, usable or not
    contents  (rows,) a number that rows with equal vectors share
    queries, query_rows    (queries, dim) rows chosen by hash, and their numbers
    training  (rows, dim) other rows chosen by hash; all chosen ones if these are too few
    """

    moments: Moments
    rows: int
    contents: NDArray[np.int64]
    queries: NDArray[np.float32]
    query_rows: NDArray[np.int64]
    training: NDArray[np.float32]


def measure_cost(
    reader: Reader,
    queries: NDArray[Any] | Reader | None = None,
    *,
    scan: Scan | None = None,
    metric: str | None = None,
    transforms: Sequence[str] | None = None,
    query_count: int = QUERY_COUNT,
    training_rows: int = TRAINING_ROWS,
    device: str = "cpu",
    state: Mapping[str, Tensor] | None = None,
    save: Callable[[dict[str, Tensor]], None] | None = None,
    listener: Listener | None = None,
) -> Section:
    """Return the section "cost": recall@1, 10 and 100, rank churn, bytes and time after each transform.

    queries: vectors of real queries; by default, rows of the store chosen by hash, which do not find themselves.
    scan: of this store, with `scatter` unless the metric is cosine; by default, it is made first.
    transforms: such as "centre+pca:128+int8"; by default, `default_transforms`. Cost: for each transform, rows x
    queries x width multiplications. `save` is called about every minute with a state that `state` continues from.
    """
    metric = metric or reader.metric or "cosine"
    check_metric(metric)
    names = list(default_transforms(reader.dim, reader.dtype) if transforms is None else transforms)
    for name in names:
        parse_transform(name)
    listener = listener or Listener()
    if scan is None:
        scan = scan_for_transforms(reader, metric, query_count + training_rows, listener)
    first = prepare_fit(scan, metric, query_count, training_rows)
    exclude = None if queries is not None else first.query_rows
    asked = _read_queries(queries, query_count, reader) if queries is not None else first.queries
    if not len(asked) or first.moments.count < 2:
        reason = f"{first.moments.count} usable vectors and {len(asked)} queries: nothing to search for"
        unknown = Answer("What would it cost to shrink the vectors?", "unknown", "It could not be measured.")
        return Section("cost", [unknown], {"cost": pd.DataFrame(columns=COLUMNS)}, {"undefined": reason})
    listener.say("cost: fitting transforms")
    fitted, problems = _fit_all(names, first, metric, reader.dtype)
    searches = _Searches(fitted, asked, exclude, metric, device)
    if state and not searches.load(state, first.training):
        listener.say("cost: other transforms than before the interruption; searching from the first row")
    listener.say("cost: searching all rows after each transform")
    searches.run(reader, first, save, listener)
    contents = np.append(first.contents, -1)  # row -1: nothing was found
    truth = contents[searches.result(AS_IS)]
    original = _original_bytes(reader)
    whole = fit_transform(AS_IS, first.moments, first.training, metric)
    stored = {_stored_name(one): one for one in [whole, *fitted]}
    times = {name: time_query(one, first, asked) for name, one in stored.items()}
    rows = [_describe_whole(original, times[AS_IS])]
    for transform in fitted:
        row = _describe(transform, original, truth, contents[searches.result(_stored_name(transform))])
        rows.append(row | {"query_ms": times[_stored_name(transform)]})
    rows += [{"transform": name, "undefined": reason} for name, reason in problems.items()]
    table = pd.DataFrame(rows).reindex(columns=COLUMNS)
    table["pareto"] = False
    for _, kind in table.groupby(table["needs_originals"].eq(True)):
        table.loc[kind.index, "pareto"] = find_pareto(
            kind["bytes"].to_numpy(float), kind["recall_10"].to_numpy(float)
        )
    facts = {
        "metric": metric,
        "rows": first.rows,
        "queries": len(asked),
        "query_source": "rows chosen by hash" if queries is None else "given",
        "training_rows": len(first.training),
    }
    return Section("cost", [_answer(table, rescored) for rescored in (False, True)], {"cost": table}, facts)


def default_transforms(dim: int, dtype: str = "float32") -> list[str]:
    """Return the transforms that are tried by default.

    >>> default_transforms(50)[5:9]
    ['pca:12', 'truncate:25', 'truncate:12', 'int8']
    """
    small = [n for n in (dim // 2, dim // 4) if n]
    codes = [max(n for n in range(1, dim + 1) if dim % n == 0 and n <= max(dim // part, 1)) for part in (4, 8)]
    names = [] if dtype == "float16" else ["float16"]
    names += ["centre", *(["remove:1"] if dim > 1 else []), "whiten", *(f"pca:{n}" for n in small)]
    names += [f"truncate:{n}" for n in small]
    for quantizer in ("int8", "binary", "centre+binary", *(f"pq:{n}" for n in dict.fromkeys(codes))):
        names += [quantizer] if quantizer == "int8" else [quantizer, f"{quantizer}+rescore:4"]
    return names + [f"pca:{n}+int8" for n in small]


def scan_for_transforms(reader: Reader, metric: str, sample_size: int, listener: Listener | None = None) -> Scan:
    """Return a scan of the store with the moments that transforms require."""
    return scan_store(reader, sample_size=sample_size, scatter=metric != "cosine", listener=listener)


def prepare_fit(scan: Scan, metric: str, query_count: int, training_rows: int) -> FirstPass:
    """Return moments, queries and the training sample of a scan."""
    contents = np.full(scan.rows, scan.rows)
    contents[scan.hashed_rows] = np.unique(scan.hashes, return_inverse=True)[1]
    if metric == "cosine":
        mean = scan.units / max(scan.count, 1)
        moments = Moments(scan.dim, scan.count, mean, scan.products - scan.count * np.outer(mean, mean))
    elif scan.moments is None:
        raise InputError(f"Transforms by {metric} require a scan with scatter=True.")
    else:
        moments = scan.moments
    sample = scan.sample.sorted()
    vectors, rows = sample.get("vector", torch.empty(0, scan.dim)), sample.get("row", torch.empty(0).long())
    first = query_count if len(rows) >= 2 * query_count else 0
    training = vectors[first : first + training_rows].numpy()
    return FirstPass(
        moments, scan.rows, contents, vectors[:query_count].numpy(), rows[:query_count].numpy(), training
    )


def find_usable(vectors: NDArray[Any], metric: str) -> NDArray[np.bool_]:
    """Return which rows are finite and, by cosine, not zero. (rows,)"""
    usable = np.isfinite(vectors).all(axis=1)
    return np.asarray(usable & (vectors != 0).any(axis=1)) if metric == "cosine" else usable


def _read_queries(queries: NDArray[Any] | Reader, most: int, reader: Reader) -> NDArray[np.float32]:
    """Return at most `most` of the given queries, chosen by hash."""
    if isinstance(queries, np.ndarray):
        vectors, seed = queries.astype(np.float32), 0
    else:
        vectors = np.concatenate([block.vectors.astype(np.float32) for block in queries.blocks()])
        seed = text_hash(queries.digest)
    if vectors.ndim != 2 or vectors.shape[1] != reader.dim:
        raise InputError(
            f"--queries must have {reader.dim} coordinates, as the store has (got the shape {vectors.shape})."
        )
    return vectors[np.sort(np.argsort(mix(seed, np.arange(len(vectors))))[:most])]


def _fit_all(
    names: Sequence[str], first: FirstPass, metric: str, dtype: str
) -> tuple[list[StoreTransform], dict[str, str]]:
    """Return the transforms that can be fitted, and for the others the reason."""
    fitted: dict[str, StoreTransform] = {}
    known: dict[str, StoreTransform] = {}
    problems: dict[str, str] = {}
    for name in dict.fromkeys(names):
        stored, _, rescore = name.partition("+rescore:")
        if name == AS_IS or stored in problems:
            problems |= {name: problems[stored]} if stored in problems else {}
            continue
        try:
            if stored not in known:
                known[stored] = fit_transform(stored, first.moments, first.training, metric, dtype=dtype)
            fitted[name] = replace(known[stored], name=name, rescore=int(rescore or 0))
        except TheodoliteError as error:
            problems[name] = str(error)
    return list(fitted.values()), problems


class _Searches:
    """The searches before and after each transform, side by side over the same blocks."""

    def __init__(
        self,
        fitted: Sequence[StoreTransform],
        queries: NDArray[np.float32],
        exclude: NDArray[np.int64] | None,
        metric: str,
        device: str,
    ) -> None:
        most = max(PLACES)
        self.metric, self.next_row = metric, 0
        self.stored = {
            _stored_name(one): one for one in sorted(fitted, key=lambda one: one.rescore)
        }  # most candidates
        self.searches = {AS_IS: Search(queries, most, metric, exclude=exclude, device=device)}
        for name, one in self.stored.items():
            places = most * max(one.rescore, 1)
            self.searches[name] = Search(
                one.queries(queries), places, one.score_metric, exclude=exclude, device=device
            )

    def run(
        self,
        reader: Reader,
        first: FirstPass,
        save: Callable[[dict[str, Tensor]], None] | None,
        listener: Listener,
    ) -> None:
        """Search all rows of the store from `next_row` on."""
        start = self.next_row
        started = saved = time.monotonic()
        for block in reader.blocks(start):
            self._update(block)
            now = time.monotonic()
            done = self.next_row / first.rows
            listener.progress(Progress(done, self.next_row - start, now - started, start / first.rows, "rows"))
            stop = listener.stop()
            if save is not None and (stop or now - saved > scanning.CHECKPOINT_SECONDS):
                save(self.state(first.training))
                saved = time.monotonic()
            if stop:
                more = " Continue with --resume." if save is not None else ""
                raise TheodoliteError(
                    f"Stopped while searching after transforms, after {self.next_row:,} rows.{more}"
                )

    def _update(self, block: Block) -> None:
        self.searches[AS_IS].update(block)
        hidden = ~find_usable(block.vectors, self.metric)
        prepared = prepare_vectors(block.vectors, self.metric)
        for name, transform in self.stored.items():
            decoded = transform.decode(transform.encode(prepared, prepared=True))
            if hidden.any():
                decoded = np.where(hidden[:, None], np.float32(np.nan), decoded)
            self.searches[name].update(Block(block.start, decoded))
        self.next_row = block.start + len(block)

    def result(self, name: str) -> NDArray[np.int64]:
        """Return the rows that are found: (queries, places)."""
        return self.searches[name].result().rows

    def state(self, training: NDArray[np.float32]) -> dict[str, Tensor]:
        """Return what was found so far, what it depends on, and the next row."""
        tensors = {
            f"{name}.{part}": values
            for name, search in self.searches.items()
            for part, values in search.state().items()
        }
        return {**tensors, **self._fits(training), "next_row": torch.tensor(self.next_row)}

    def load(self, state: Mapping[str, Tensor], training: NDArray[np.float32]) -> bool:
        """Continue from a state; return False if its transforms are not the same."""
        fits = self._fits(training)
        known = {name: state[name] for name in state if name.endswith(".fit")}
        if known.keys() != fits.keys() or not all(torch.equal(known[name], fits[name]) for name in fits):
            return False
        for name, search in self.searches.items():
            search.load({part: state[f"{name}.{part}"] for part in ("scores", "rows")})
        self.next_row = int(state["next_row"])
        return True

    def _fits(self, training: NDArray[np.float32]) -> dict[str, Tensor]:
        """Return by transform the bytes that it makes of a few rows: equal if it is the same transform."""
        codes = {name: one.encode(training[:4]) for name, one in self.stored.items()}
        return {
            f"{name}.fit": torch.from_numpy(np.ascontiguousarray(one).view(np.uint8))
            for name, one in codes.items()
        }


def _stored_name(transform: StoreTransform) -> str:
    """Return the name without rescoring: what is stored and searched is the same."""
    return transform.name.partition("+rescore:")[0]


def _original_bytes(reader: Reader) -> int:
    """Return the bytes of a vector as it is stored."""
    if getattr(reader, "packing", None) == "binary":
        return -(-reader.dim // 8)
    return int(reader.dim * np.dtype(reader.dtype).itemsize)


def _describe_whole(original: int, query_ms: float) -> dict[str, Any]:
    """Return the row of the vectors as they are, which is exact by definition: no interval."""
    exact = {number: 1.0 if number.startswith("recall") else 0.0 for number in NUMBERS}
    row = {"transform": AS_IS, "bytes": original, "compression": 1.0, **exact, "query_ms": query_ms}
    return row | {"needs_originals": False, "undefined": ""}


def _describe(
    transform: StoreTransform, original: int, truth: NDArray[np.int64], found: NDArray[np.int64]
) -> dict[str, Any]:
    rescore, size = transform.rescore, transform.bytes
    row: dict[str, Any] = {"transform": transform.name, "bytes": size, "compression": original / size}
    for number in NUMBERS:
        kind, k = number.split("_")
        share = recall_at if kind == "recall" else churn_at
        shares = share(truth, found, int(k), candidates=rescore * int(k) if rescore else None)
        value = mean_interval(shares)
        row |= {number: value.value, f"{number}_low": value.low, f"{number}_high": value.high}
    return row | {"needs_originals": bool(rescore), "undefined": ""}


def _answer(table: pd.DataFrame, rescored: bool) -> Answer:
    """Answer how small vectors can be: the fewest bytes whose recall@10 is good, with its whole interval."""
    question = "How small can the vectors be?"
    if rescored:
        question = "How small can they be if the best are scored again with the originals?"
    whole = table.iloc[0]
    smaller = table[(table["bytes"] < whole["bytes"]) & (table["needs_originals"] == rescored)]
    if smaller["recall_10"].isna().all():
        failed = [] if rescored else [reason for reason in table["undefined"].fillna("") if reason]
        return Answer(question, "unknown", " ".join(["No smaller form was tried.", *failed[:1]]))
    good = smaller[smaller["recall_10_low"] >= GOOD_RECALL]
    best = (
        good.sort_values(["bytes", "recall_10"], ascending=[True, False]).iloc[0]
        if len(good)
        else smaller.loc[smaller["recall_10"].idxmax()]
    )
    kept = f"keeps {format_percent(best['recall_10'])} of the 10 nearest"
    size = f"{best['bytes']:,.0f} bytes a vector instead of {whole['bytes']:,.0f}"
    if len(good):
        sentence = f"{best['transform']} {kept} with {size}."
    else:
        sentence = f"None tried keeps {GOOD_RECALL:.0%} of the 10 nearest; {best['transform']} {kept} with {size}."
    return Answer(
        question,
        "good" if len(good) else "attention",
        sentence,
        float(best["recall_10"]),
        float(best["recall_10_low"]),
        float(best["recall_10_high"]),
        reason=f"recall@10 against exact search; good from {GOOD_RECALL:.0%}, with its whole interval",
        advice="Compare all in the table cost, and write the vectors with --apply.",
    )
