"""Sinks: positions that are massive at any layer have their own cells at all layers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests import oracles
from tests.hard_cases import places
from tests.laws.harness import canonical
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.measures.decomposition import unit_moments
from theodolite.statistics.cells import CELLS, POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.sinks import BatchLayers

ROWS, DIM, WINDOW, UNITS = 600, 24, 20, 11
LONGER = 150.0
OF_V, OF_Q = 1e-9, 1e-12
"""The documented tolerance of V(X_t) on the CPU."""


@dataclass(frozen=True)
class Model:
    """All states of a small decoder: first positions are massive at layer 1 only, a few others at layer 2."""

    layers: list[Tensor]
    places: Places
    frames: list[Frame]

    @property
    def massive(self) -> NDArray[np.bool_]:
        """Which states are massive, by definition. (layers, rows)"""
        norms = np.stack([np.linalg.norm(layer.double().numpy(), axis=1) for layer in self.layers])
        above = np.array([frame.massive_above for frame in self.frames])[:, None]
        with np.errstate(invalid="ignore"):
            return np.isfinite(norms) & (norms > above)

    def belongs(self, layer: int, population: str) -> NDArray[np.bool_]:
        """Which rows belong to a population at a layer, by definition; rows that are not finite do not."""
        out = {
            "all": np.zeros(ROWS, dtype=bool),
            "without-first": self.places.first.numpy(),
            "without-massive": self.massive[layer],
            "without-sinks": self.massive.any(axis=0),
        }[population]
        return ~out & np.isfinite(self.layers[layer].double().numpy()).all(axis=1)

    def fold(
        self, size: int = 170, folds: list[LayerFold] | None = None, rows: Tensor | None = None
    ) -> list[LayerFold]:
        """Fold batches of complete windows; a block overwrites its input, as some models do."""
        found = folds or [LayerFold(frame) for frame in self.frames]
        for part in (torch.arange(ROWS) if rows is None else rows).split(size):
            at, layers = self.places.take(part), BatchLayers(dict(enumerate(found)))
            for index, states in enumerate(self.layers):
                given = states[part].clone()
                layers.add(Batch(index, given, at))
                given.fill_(7.0)
            layers.finish()
        return found


def make_model(dtype: torch.dtype = torch.float32, **frame: object) -> Model:
    random = torch.Generator().manual_seed(5)
    first = torch.arange(ROWS) % WINDOW == 0
    layers = [torch.randn(ROWS, DIM, generator=random) for _ in range(3)]
    for states in layers:
        states[:, 3] += 40.0
    layers[1][first] *= LONGER
    layers[2][[33, 150, 151, 407]] *= LONGER
    layers[0][407, 0] = torch.nan  # a sink that is not finite at another layer
    layers[2][9, 0] = torch.inf  # not finite is not massive
    where = places(torch.randint(UNITS, (ROWS,), generator=random), first, torch.arange(ROWS) // WINDOW)
    held = [states.to(dtype) for states in layers]
    settings = {"sample_size": 64, "separate_sinks": True} | frame
    frames = [Frame(states.float().nanmedian(dim=0).values, 10 * 42.0, **settings) for states in held]
    return Model(held, where, frames)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("population", POPULATIONS)
def test_sums_by_unit_equal_those_of_all_vectors(dtype: torch.dtype, population: str) -> None:
    model = make_model(dtype)
    for layer, fold in enumerate(model.fold()):
        rows = model.belongs(layer, population)
        sums = fold.moments.population(POPULATIONS[population])
        x, unit = model.layers[layer].double().numpy()[rows], model.places.unit.numpy()[rows]
        truth = oracles.qmv_by_unit(x, unit)
        assert sums.codes.tolist() == list(truth)
        found = unit_moments(sums.n.numpy(), sums.sum.numpy(), sums.squares.numpy(), sums.centre.numpy())
        v, q = (np.array([getattr(parts, name) for parts in truth.values()]) for name in "vq")
        assert (np.abs(found.v - v) <= OF_V * v + OF_Q * q).all()
        assert int(fold.scatter.covariance(POPULATIONS[population])[0]) == rows.sum()


def test_subtracting_massive_rows_would_lose_the_variance() -> None:
    """The tempting way: sums of everything, minus those of the sinks, in float32 within a batch."""
    model = make_model()
    rows = model.belongs(1, "without-sinks")
    x = model.layers[1]
    every, sinks = x[torch.from_numpy(model.belongs(1, "all"))], x[torch.from_numpy(model.massive.any(axis=0))]
    q = float((every.square().sum() - sinks.square().sum()) / rows.sum())
    true = float(x.double()[torch.from_numpy(rows)].square().sum(dim=1).mean())
    assert abs(q - true) > 1e-4 * true
    sums = model.fold()[1].moments.population(POPULATIONS["without-sinks"])
    c = sums.centre
    mine = float(sums.squares.sum() + 2 * (sums.sum @ c).sum() + sums.n.sum() * (c @ c)) / rows.sum()
    assert mine == pytest.approx(true, rel=1e-12)


def test_a_population_leaves_the_same_positions_out_at_every_layer() -> None:
    model = make_model()
    cells = list(POPULATIONS["without-sinks"])
    counted = [int(fold.norms.counts[cells].sum() + fold.norms.nonfinite[cells].sum()) for fold in model.fold()]
    assert counted == [ROWS - int(model.massive.any(axis=0).sum())] * 3
    assert len({int(fold.scatter.n[[2, 3]].sum()) for fold in model.fold()}) == 3  # massive ones differ by layer
    folds = model.fold()
    assert folds[0].norms.nonfinite.tolist() == [0, 0, 0, 0, 1, 0]  # the sink at 407 is not finite at layer 0
    assert folds[2].norms.nonfinite.tolist() == [1, 0, 0, 0, 0, 0]


def test_the_sample_has_only_rows_of_its_cells() -> None:
    model = make_model(sample_size=ROWS)
    for layer, fold in enumerate(model.fold()):
        sample = fold.sample.population(POPULATIONS["without-sinks"])
        expected = model.places.key[torch.from_numpy(model.belongs(layer, "without-sinks"))]
        assert sorted(sample["key"].tolist()) == sorted(expected.tolist())


@pytest.mark.parametrize("contextuality", [False, True])
def test_any_split_and_merge_equals_the_whole(contextuality: bool) -> None:
    model = make_model(contextuality=contextuality)
    whole = model.fold(ROWS)
    halves = [model.fold(2 * WINDOW, rows=rows) for rows in torch.arange(ROWS).split(ROWS // 2)]
    for layer, fold in enumerate(whole):
        merged = halves[0][layer]
        merged.merge(halves[1][layer])
        found, expected = canonical(merged.state()), canonical(fold.state())
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            if not tensor.is_floating_point() or name.startswith(("sample.", "norms.")):
                assert torch.equal(found[name], tensor), name
            else:  # float32 within a batch
                off = (found[name] - tensor).abs().max()
                assert off <= 1e-6 * ROWS * tensor.abs().max(), name


def test_resuming_changes_no_bit() -> None:
    model = make_model()
    whole, started = model.fold(100), model.fold(100, rows=torch.arange(300))
    resumed = [LayerFold(frame) for frame in model.frames]
    for fold, before in zip(resumed, started, strict=True):
        fold.load({name: tensor.clone() for name, tensor in before.state().items()})
    model.fold(100, folds=resumed, rows=torch.arange(300, ROWS))
    for fold, expected in zip(resumed, whole, strict=True):
        assert all(torch.equal(fold.state()[name], tensor) for name, tensor in expected.state().items())


def test_a_state_with_four_cells_and_three_populations_is_read() -> None:
    """As surveys stored it before sinks had cells of their own."""
    frames = [replace(frame, contextuality=True, separate_sinks=False) for frame in make_model().frames]
    model = replace(make_model(), frames=frames)
    fold = model.fold()[1]
    by_cell = {name for name, tensor in fold.state().items() if tensor.dim() and len(tensor) == len(CELLS)}
    state = {name: tensor.clone() for name, tensor in fold.state().items()}
    old = {name: tensor[:4] if name in by_cell else tensor for name, tensor in state.items()}
    old |= {name: tensor[:3] for name, tensor in old.items() if name.startswith("sentences.")}
    assert {"norms.lowest", "groups.sum", "directions.n", "scatter.sum"} <= by_cell
    read = LayerFold(frames[1])
    read.load(old)
    names = [name for name in fold.state() if not name.startswith("sentences.")]
    assert all(torch.equal(read.state()[name], fold.state()[name]) for name in names)
    assert read.sentences is not None
    assert read.sentences.n.tolist()[:3] == fold.state()["sentences.n"].tolist()[:3]
    read.merge(fold)
    assert int(read.norms.counts.sum()) == 2 * int(fold.norms.counts.sum())


def test_layers_with_other_positions_have_their_own_sinks() -> None:
    """A position of a decoder is not a sink because the position of the encoder with the same number is one."""
    model = make_model()
    folds = [LayerFold(model.frames[1]), LayerFold(model.frames[0])]
    layers = BatchLayers(dict(enumerate(folds)))
    layers.add(Batch(0, model.layers[1], model.places))
    layers.add(Batch(1, model.layers[0], replace(model.places)))
    layers.finish()
    assert int(folds[0].scatter.n[[2, 3]].sum()) == ROWS // WINDOW
    assert int(folds[1].scatter.n[[4, 5]].sum()) == 0


def test_without_the_population_nothing_is_held() -> None:
    model = make_model(separate_sinks=False)
    fold = LayerFold(model.frames[1])
    layers = BatchLayers({0: fold})
    layers.add(Batch(0, model.layers[1], model.places))
    assert int(fold.scatter.n.sum()) == ROWS
