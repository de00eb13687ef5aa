"""The eigenproblems of layers: one per layer where populations differ by few vectors, solved ahead on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.devices import BEHIND, to_device
from theodolite.engines.gpu import on_own_stream
from theodolite.measures import spectrum as spectra
from theodolite.measures.rank_one import add_outer_product, eigenvalues_about_mean
from theodolite.statistics.fold import LayerFold

Array = NDArray[np.float64]
Cells = tuple[int, ...]
Axes = tuple[Array, Tensor]
"""The eigenvalues of a second moment, largest first, and its eigenvectors as columns, smallest first."""
MOST_MEAN = 1e6
"""Up to this ratio of M to V, rounding of the second moment is negligible in the spectrum of the covariance."""
MOST_DISTINCT = 8
"""Different vectors that are added to a solution one by one; each takes a tenth of the time of a new one."""
LAYERS_AHEAD = 8
"""Layers that are solved before they are asked for. Memory: 8 dim^2 bytes each."""


class Spectra(NamedTuple):
    """What one population's numbers are computed from."""

    centred: Array  # (dim,) eigenvalues of the covariance, largest first
    second: Array  # (dim,) those of the second moment
    directions: Tensor  # (dim, any) unit eigenvectors of the second moment, and a column of 0 for missing ones
    variances: Array  # (dim,)


class LayerSolutions:
    """Solutions for one layer on a device, each of which serves all populations that differ by few vectors."""

    def __init__(self, fold: LayerFold, device: str) -> None:
        self._fold, self.device = fold, device
        self._bases: dict[Cells, tuple[Cells, list[tuple[Tensor, Tensor]]]] = {}
        self._solved: dict[Cells, Axes] = {}

    def solve(self, cells: Sequence[int]) -> None:
        """Solve what the axes of these cells require, if it has not been solved before."""
        base, _ = self._base_of(tuple(cells))
        if base not in self._solved:
            covariance, mean = _moments(self._fold, base, self.device)
            self._solved[base] = spectra.eigenvectors(covariance.addr_(mean, mean))

    def axes(self, cells: Sequence[int]) -> Axes:
        """Return the axes of these cells: those of the cells with a matrix, to which other vectors are added."""
        self.solve(cells)
        base, more = self._base_of(tuple(cells))
        if not more:
            return self._solved[base]
        scatter, place = self._fold.scatter, torch.device(self.device)
        n, of_base = (int(scatter.n[list(each)].sum()) for each in (cells, base))
        values, vectors = self._solved[base]
        values_up = to_device(torch.from_numpy(values[::-1].copy()), place) * (of_base / n)
        centre = to_device(self._fold.frame.centre.double(), place)
        for y, counts in more:
            for x in (y + centre) * (counts.double() / n).sqrt()[:, None]:
                values_up, vectors = add_outer_product(values_up, vectors, x)
        return np.maximum(values_up.cpu().numpy()[::-1], 0.0), vectors

    def _base_of(self, cells: Cells) -> tuple[Cells, list[tuple[Tensor, Tensor]]]:
        """Return the cells to be solved, and the different vectors of the others with their counts.

        All cells are solved together if the others have more than a few different vectors.
        """
        if cells not in self._bases:
            scatter = self._fold.scatter
            base = tuple(sorted(scatter.products.keys() & set(cells)))
            others = sorted(scatter.vectors.keys() & set(cells))
            more = [scatter.distinct_vectors(cell, torch.device(self.device), MOST_DISTINCT) for cell in others]
            known = [each for each in more if each is not None]
            few = len(known) == len(more) and sum(len(counts) for _, counts in known) <= MOST_DISTINCT
            self._bases[cells] = (base, known) if base and few else (cells, [])
        return self._bases[cells]


@contextmanager
def solve_ahead(
    layers: Sequence[tuple[LayerFold, Sequence[Cells]]], device: str | None
) -> Iterator[Callable[[int], LayerSolutions | None]]:
    """Yield a function that waits for the solutions of a layer; without a device it returns None.

    One thread solves one layer after the other. An eigenproblem uses the complete GPU in many steps of
    milliseconds, so several at once are no faster. What other threads compute in microseconds goes ahead of the
    next step.
    """
    if device is None:
        yield lambda number: None
        return

    def solve(number: int) -> LayerSolutions:
        fold, cells = layers[number]
        solutions = LayerSolutions(fold, device)
        with on_own_stream(device, BEHIND):
            for each in cells:
                solutions.solve(each)
        return solutions

    futures: list[Future[LayerSolutions] | None] = []
    lock = Lock()
    with ThreadPoolExecutor(1, "solving") as pool:

        def start(count: int) -> None:
            while len(futures) < min(count, len(layers)):
                futures.append(pool.submit(solve, len(futures)))

        def get(number: int) -> LayerSolutions:
            with lock:
                start(number + 1 + LAYERS_AHEAD)
                future, futures[number] = futures[number], None  # so that its memory is freed after use
            assert future is not None
            return future.result()

        start(LAYERS_AHEAD)
        try:
            yield get
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def solve_population(
    fold: LayerFold, cells: Sequence[int], device: str | None, solutions: LayerSolutions | None
) -> Spectra:
    """Return the spectra of the union of the cells, which are not empty.

    With a device they are computed there, from `solutions` of the layer if there are any.
    """
    few = fold.scatter.few_vectors(cells, device)
    if few is not None:
        found = spectra.few_vectors_spectrum(few, fold.frame.centre.double())
        return Spectra(*found, few.var(dim=0, correction=0).cpu().numpy())
    if device is None:
        covariance, mean = _moments(fold, cells, device)
        second, directions = spectra.eigenvectors(covariance + torch.outer(mean, mean))
        return Spectra(spectra.eigenvalues(covariance), second, directions, covariance.diagonal().numpy().copy())
    second, directions = (solutions or LayerSolutions(fold, device)).axes(cells)
    mean, variances = _mean(fold, cells, device), fold.scatter.variances(cells)[1].numpy()
    if float(mean @ mean) < MOST_MEAN * variances.sum():
        return Spectra(eigenvalues_about_mean(second, directions, mean), second, directions, variances)
    return Spectra(spectra.eigenvalues(_moments(fold, cells, device)[0]), second, directions, variances)


def _moments(fold: LayerFold, cells: Sequence[int], device: str | None) -> tuple[Tensor, Tensor]:
    """Return the covariance and the mean of the cells."""
    return fold.scatter.covariance(cells, device)[1], _mean(fold, cells, device)


def _mean(fold: LayerFold, cells: Sequence[int], device: str | None) -> Tensor:
    chosen, centre = list(cells), fold.frame.centre.double()
    mean = fold.scatter.sum[chosen].sum(0) / max(int(fold.scatter.n[chosen].sum()), 1) + centre
    return mean if device is None else to_device(mean, torch.device(device))
