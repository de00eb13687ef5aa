"""Exact nearest rows of queries by brute force, one block of the store after another, in bounded memory.

Scores are float32 matrix products. Only scores that reach the k-th best so far are looked at further, so the time
is nearly that of the products.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.errors import InputError, nearest
from theodolite.stores.reader import BLOCK_ROWS, Block, Reader

Metric = Literal["cosine", "dot", "euclidean"]
METRICS: tuple[str, ...] = get_args(Metric)
_CPU_TILE, _GPU_TILE = (1024, 2048), (4096, 65536)
"""Queries and rows of one matrix product: 8 MB of scores on a CPU, 1 GB on a GPU."""
_NONE = -1


class Hits(NamedTuple):
    """The k nearest rows of every query, nearest first; equal scores in the order of rows.

    scores  (queries, k) float64: cosine or dot product, descending, or Euclidean distance, ascending; NaN: no row
    rows    (queries, k) int64 row numbers; -1: no row
    """

    scores: NDArray[np.float64]
    rows: NDArray[np.int64]


def check_metric(metric: str) -> None:
    """Reject a metric that is not known."""
    if metric not in METRICS:
        raise InputError(
            f"--metric must be one of {', '.join(METRICS)} (got {metric!r}).{nearest(metric, list(METRICS))}"
        )


def search(
    source: Reader | Iterable[Block],
    queries: NDArray[Any] | Tensor,
    k: int,
    metric: str = "cosine",
    *,
    exclude: NDArray[np.integer[Any]] | None = None,
    device: str | torch.device = "cpu",
) -> Hits:
    """Return the k nearest rows of a store for each query: (queries, k) scores and row numbers.

    Rows with a value that is not finite, or a norm above 1e19, are never found; by cosine, nor are zero rows or
    rows with a norm below 1e-19. exclude: (queries,) a row that a query must not find, such as itself; -1: none.
    Cost: rows x queries x dim multiplications, and memory for one block and one tile of scores.

    >>> from theodolite.stores.reader import ArrayReader
    >>> store = ArrayReader(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]]), name="three", digest="")
    >>> search(store, np.array([[1.0, 0.1]]), 2, "dot").rows.tolist()
    [[2, 0]]
    """
    found = Search(queries, k, metric, exclude=exclude, device=device)
    rows = BLOCK_ROWS if found.device.type == "cpu" else _GPU_TILE[1]
    for block in source if isinstance(source, Iterable) else source.blocks(rows=rows):
        found.update(block)
    return found.result()


class Search:
    """The nearest rows so far. `update` with every block, `merge` searches of other blocks, read `result`.

    Memory: 24 k bytes a query and one tile of scores. Rounding of a score: about 1e-7 |q| |x| sqrt(dim). Euclidean
    distances are computed about the mean of the queries: a common offset of all vectors does not add to it.
    """

    def __init__(
        self,
        queries: NDArray[Any] | Tensor,
        k: int,
        metric: str = "cosine",
        *,
        exclude: NDArray[np.integer[Any]] | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        check_metric(metric)
        if k < 1:
            raise InputError(f"k must be at least 1 (got {k}).")
        if queries.ndim != 2:
            raise InputError(f"queries must have the shape (queries, dim) (got {tuple(queries.shape)}).")
        self.k, self.metric, self.device = k, metric, torch.device(device)
        self.count, self.dim = int(queries.shape[0]), int(queries.shape[1])
        wide = torch.as_tensor(queries).double()
        finite = wide.isfinite().all(1)
        wide = torch.where(finite[:, None], wide, 0.0)
        self.centre = torch.zeros(self.dim, dtype=torch.float32, device=self.device)
        self.valid = finite.to(self.device)
        if metric == "cosine":
            norms = wide.norm(dim=1, keepdim=True)
            self.valid &= (norms[:, 0] > 0).to(self.device)
            wide = wide / norms.clamp_min(torch.finfo(torch.float64).tiny)
        elif metric == "euclidean" and finite.any():
            self.centre = wide[finite].mean(0).float().to(self.device)
            wide = wide - self.centre.double().cpu()
        self._squares = (wide**2).sum(1)
        self._queries = wide.float().to(self.device)
        self._exclude = None if exclude is None else torch.as_tensor(np.asarray(exclude, np.int64)).to(self.device)
        if self._exclude is not None and self._exclude.shape != (self.count,):
            raise InputError(f"exclude must have the shape ({self.count},) (got {tuple(self._exclude.shape)}).")
        self._scores = torch.full((self.count, k), -torch.inf, device=self.device)
        self._rows = torch.full((self.count, k), _NONE, dtype=torch.int64, device=self.device)
        self._memory = torch.empty(0, device=self.device)
        self._held = torch.empty(0, self.dim, device=self.device)
        self._pending: list[tuple[Tensor, Tensor, Tensor]] = []  # query, row and score of each candidate
        self._waiting = torch.zeros(self.count, dtype=torch.int64, device=self.device)
        self._next, self._in_order = 0, True  # whether candidates were added in the order of rows

    def update(self, block: Block) -> None:
        """Search one block."""
        if block.vectors.shape[1] != self.dim:
            raise InputError(
                f"queries have {self.dim} coordinates, and the store's vectors {block.vectors.shape[1]}. "
                "Use queries from the same model."
            )
        self._in_order &= block.start >= self._next
        self._next = max(self._next, block.start + len(block))
        queries, rows = _CPU_TILE if self.device.type == "cpu" else _GPU_TILE
        for first in range(0, len(block), rows):
            vectors, offset = self._prepare(block.vectors[first : first + rows])
            for low in range(0, self.count, queries):
                self._search_tile(slice(low, low + queries), block.start + first, vectors, offset)

    def merge(self, other: Search) -> None:
        """Add what a search with the same queries found in other blocks."""
        other._compact()
        queries = torch.arange(self.count, device=self.device)[:, None].expand(-1, other.k).flatten()
        known = other._rows.flatten() != _NONE
        self._next, self._in_order = max(self._next, other._next), False
        self._add(
            queries[known],
            other._rows.to(self.device).flatten()[known],
            other._scores.to(self.device).flatten()[known],
        )
        self._compact()

    def state(self) -> dict[str, Tensor]:
        """Return what has been found, for a checkpoint."""
        self._compact()
        return {"scores": self._scores.cpu(), "rows": self._rows.cpu()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Continue from a checkpoint of a search with the same queries, k and metric."""
        self._pending.clear()
        self._waiting.zero_()
        self._scores, self._rows = state["scores"].to(self.device), state["rows"].to(self.device)
        self._next, self._in_order = int(self._rows.max()) + 1 if self._rows.numel() else 0, True

    def result(self) -> Hits:
        """Return the nearest rows of all blocks so far."""
        self._compact()
        scores = self._scores.double().cpu()
        if self.metric == "euclidean":
            scores = (self._squares[:, None] - 2 * scores).clamp_min(0).sqrt()
        missing = self._rows.cpu() == _NONE
        return Hits(scores.masked_fill(missing, torch.nan).numpy(), self._rows.cpu().numpy())

    def _prepare(self, block: NDArray[Any] | Tensor) -> tuple[Tensor, Tensor | None]:
        """Return float32 rows, and what to add to their products, if anything: -inf hides a row."""
        given = (
            block if isinstance(block, Tensor) else torch.from_numpy(np.require(block, requirements=["C", "W"]))
        )
        if given.dtype == torch.float16:
            given = given.to(self.device)  # as stored: half as many bytes to send
        # Reused: new memory for every tile fragments the heap, which then grows with the number of rows.
        if self.metric == "dot" and given.dtype == torch.float32 and given.device.type == self.device.type:
            vectors = given
        else:
            if len(self._held) < len(given):
                self._held = torch.empty(len(given), self.dim, device=self.device)
            vectors = self._held[: len(given)].copy_(given)
        if self.metric == "euclidean":
            vectors -= self.centre
        squares = torch.linalg.vecdot(vectors, vectors)
        usable = squares.isfinite()
        if self.metric == "cosine":
            usable &= squares > 0
            vectors *= squares.rsqrt()[:, None]
        offset = -squares / 2 if self.metric == "euclidean" else None
        if not usable.all():
            vectors = torch.where(usable[:, None], vectors, 0.0)
            offset = torch.where(usable, 0.0 if offset is None else offset, -torch.inf)
        return vectors, offset

    def _search_tile(self, part: slice, start: int, vectors: Tensor, offset: Tensor | None) -> None:
        queries = self._queries[part]
        scores = self._tile(len(queries), len(vectors))
        if self.device.type == "cpu":
            # On AMD processors OpenBLAS of NumPy is a tenth faster than MKL of torch.
            np.matmul(queries.numpy(), vectors.numpy().T, out=scores.numpy())
        else:
            torch.mm(queries, vectors.T, out=scores)
        if offset is not None:
            scores += offset
        if self._exclude is not None:
            column = self._exclude[part] - start
            (inside,) = torch.nonzero((column >= 0) & (column < len(vectors)), as_tuple=True)
            scores[inside, column[inside]] = -torch.inf
        cut = self._scores[part, -1].clamp_min(torch.finfo(torch.float32).min)
        cut = torch.where(self.valid[part], cut, torch.inf)
        if bool(cut.min() == torch.finfo(torch.float32).min):
            cut = torch.maximum(cut, _bound_kth(scores, self.k))
        found, columns = _find_reaching(scores, cut)
        if len(found) > 4 * self.k * len(cut):
            found, columns = _find_reaching(scores, torch.maximum(cut, _bound_kth(scores, self.k)))
        self._add(found + part.start, columns + start, scores[found, columns])

    def _tile(self, queries: int, rows: int) -> Tensor:
        """Return memory for the scores of one tile: allocating it for each takes a tenth of the time."""
        if self._memory.numel() < queries * rows:
            self._memory = torch.empty(queries * rows, device=self.device)
        return self._memory[: queries * rows].view(queries, rows)

    def _add(self, queries: Tensor, rows: Tensor, scores: Tensor) -> None:
        if not len(queries):
            return
        self._pending.append((queries, rows, scores))
        self._waiting += torch.bincount(queries, minlength=self.count)
        if int(self._waiting.max()) >= max(2 * self.k, 64):
            self._compact()

    def _compact(self) -> None:
        """Reduce the candidates to the k best of each query."""
        if not self._pending:
            return
        queries, rows, scores = (torch.cat(parts) for parts in zip(*self._pending, strict=True))
        order = _sort_stably(queries, self.count)
        queries, rows, scores = queries[order], rows[order], scores[order]
        place = torch.arange(len(queries), device=self.device) - (self._waiting.cumsum(0) - self._waiting)[queries]
        shape = (self.count, int(self._waiting.max()))
        new_scores = torch.full(shape, -torch.inf, device=self.device)
        new_rows = torch.full(shape, _NONE, dtype=torch.int64, device=self.device)
        new_scores[queries, place], new_rows[queries, place] = scores, rows
        all_scores, all_rows = torch.cat([self._scores, new_scores], 1), torch.cat([self._rows, new_rows], 1)
        if not self._in_order:
            by_row = all_rows.argsort(1)
            all_scores, all_rows = all_scores.gather(1, by_row), all_rows.gather(1, by_row)
            self._in_order = True
        all_scores, by_score = all_scores.sort(dim=1, descending=True, stable=True)
        self._scores = all_scores[:, : self.k].contiguous()
        self._rows = all_rows.gather(1, by_score[:, : self.k])
        self._pending.clear()
        self._waiting.zero_()


def _sort_stably(queries: Tensor, count: int) -> Tensor:
    """Return the order that sorts numbers below `count`, equal ones as they are."""
    if queries.device.type != "cpu":
        return torch.argsort(queries, stable=True)
    # NumPy sorts 16-bit numbers by radix, ten times as fast.
    narrow = queries.numpy().astype(np.uint16 if count <= 1 << 16 else np.int64)
    return torch.from_numpy(np.argsort(narrow, kind="stable"))


def _bound_kth(scores: Tensor, k: int) -> Tensor:
    """Return a lower bound of the k-th largest score of each query: that of the largest scores of groups."""
    queries, rows = scores.shape
    if rows < k:
        return torch.full((queries,), -torch.inf, device=scores.device)
    size = max(rows // (4 * k), 1)
    groups = scores[:, : rows - rows % size].view(queries, size, -1).amax(1) if size > 1 else scores
    return groups.topk(k, dim=1, sorted=False).values.amin(1)


def _find_reaching(scores: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
    """Return query and column of every score of at least its query's `cut`, ordered by query."""
    if scores.device.type != "cpu":
        found = (scores >= cut[:, None]).nonzero()
        return found[:, 0], found[:, 1]
    # NumPy is three times as fast as torch here.
    flat = np.flatnonzero(scores.numpy() >= cut.numpy()[:, None])
    queries, columns = np.divmod(flat, scores.shape[1])
    return torch.from_numpy(queries), torch.from_numpy(columns)
