"""Eigenproblems that are solved ahead: the same solutions, in order, and errors where they belong."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.devices import DEVICES
from tests.hard_cases import of_states

from theodolite.statistics.fold import LayerFold
from theodolite.tables import eigenproblems
from theodolite.tables.eigenproblems import LayerSolutions, solve_ahead

CELLS = [(0, 1), (0,)]
LAYERS = 12


def folds() -> list[LayerFold]:
    found = []
    for seed in range(LAYERS):
        case = of_states(torch.randn(60, 6, generator=torch.Generator().manual_seed(seed)) + 1)
        first = torch.arange(60) < 4
        case.states[first] = case.states[0] * 20  # one vector, as after a start token
        found.append(replace(case, places=replace(case.places, first=first)).fold())
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_solutions_are_those_of_the_second_moments(device: str) -> None:
    layers = folds()
    with solve_ahead([(fold, CELLS) for fold in layers], device) as get:
        for number in reversed(range(LAYERS)):  # the order in which threads ask for them is not known
            solutions = get(number)
            assert solutions is not None
            for cells in CELLS:
                fold = layers[number]
                n, covariance = fold.scatter.covariance(cells)
                mean = fold.scatter.sum[list(cells)].sum(0) / n + fold.frame.centre
                moment = (covariance + torch.outer(mean, mean)).numpy()
                values, vectors = solutions.axes(cells)
                np.testing.assert_allclose(values, np.linalg.eigvalsh(moment)[::-1], rtol=1e-9)
                axes = vectors.cpu().numpy()
                np.testing.assert_allclose(axes @ np.diag(values[::-1]) @ axes.T, moment, rtol=1e-9, atol=1e-9)


def test_without_a_device_nothing_is_solved_ahead() -> None:
    with solve_ahead([(fold, CELLS) for fold in folds()], None) as get:
        assert get(3) is None


@pytest.mark.parametrize("ahead", [0, 1, 5, 50])
def test_layers_are_solved_one_after_the_other_and_not_too_far_ahead(
    ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eigenproblems, "LAYERS_AHEAD", ahead)
    layers, solved, threads = folds(), list[int](), set[str]()
    solve = LayerSolutions.solve

    def record(self: LayerSolutions, cells: Any) -> None:
        number = next(n for n, fold in enumerate(layers) if fold is self._fold)
        if tuple(cells) == CELLS[0]:
            solved.append(number)
            threads.add(threading.current_thread().name)
        solve(self, cells)

    monkeypatch.setattr(LayerSolutions, "solve", record)
    with solve_ahead([(fold, CELLS) for fold in layers], "cpu") as get:
        get(2)
    assert solved == sorted(solved)
    assert set(range(3)) <= set(solved) <= set(range(3 + ahead))
    assert len(threads) == 1
    assert not threads & {thread.name for thread in threading.enumerate()}


def test_a_failed_solution_is_raised_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = folds()
    solve = LayerSolutions.solve

    def fail(self: LayerSolutions, cells: Any) -> None:
        if self._fold is layers[1]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        solve(self, cells)

    monkeypatch.setattr(LayerSolutions, "solve", fail)
    with solve_ahead([(fold, CELLS) for fold in layers], "cpu") as get:
        assert get(0) is not None
        with pytest.raises(torch.OutOfMemoryError):
            get(1)
        assert get(2) is not None
