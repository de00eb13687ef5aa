"""Sums on a device, compared with those of the CPU and with a two-pass computation in float64.

Runs the reference version on the CPU, and both versions on a GPU. With TRITON_INTERPRET=1 kernels run on the CPU
too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests import oracles
from tests.devices import KERNELS_ON_CPU, KERNELS_ON_GPU, ON_GPU
from tests.hard_cases import SEEN_ONCE, Case, hard, of_states, places
from tests.laws.harness import canonical

from theodolite.batch import Batch
from theodolite.measures.decomposition import unit_moments
from theodolite.optional_triton import INTERPRETED
from theodolite.statistics.cells import CELLS, POPULATIONS
from theodolite.statistics.cuda import gram_kernels, kernels, reference
from theodolite.statistics.cuda.context import GpuContext
from theodolite.statistics.cuda.fold import GpuFold
from theodolite.statistics.fold import STATISTICS, LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.moments import UnitSums
from theodolite.statistics.rows import Rows
from theodolite.statistics.sinks import BatchLayers
from theodolite.statistics.statistic import State, Statistic

OF_V, OF_Q = 1e-6, 1e-9
"""The documented tolerance of V(X_t) on a GPU."""
FLOAT64_OF_V, FLOAT64_OF_Q = 1e-9, 1e-12
"""The tolerance that is reached, since sums by unit are in float64 on a GPU too."""
SPECTRAL = 1e-5
"""Relative, for eigenvalues and for measures computed from them."""
SUMS = 3e-6
"""Relative to n times the largest term: both are float32 within a batch, added in another order."""


@dataclass(frozen=True)
class Way:
    device: str
    kernels: bool
    overlap: bool = False

    def context(self) -> GpuContext:
        return GpuContext(self.device, use_kernels=self.kernels, overlap=self.overlap)

    def __str__(self) -> str:
        return f"{self.device}-{'kernels' if self.kernels else 'reference'}{'-overlap' if self.overlap else ''}"


def ways() -> Iterator[object]:
    yield Way("cpu", False)
    yield pytest.param(Way("cpu", True), marks=KERNELS_ON_CPU)
    for overlap in (False, True):
        yield pytest.param(Way("cuda", False, overlap=overlap), marks=ON_GPU)
        yield pytest.param(Way("cuda", True, overlap=overlap), marks=KERNELS_ON_GPU)


@pytest.fixture(params=ways(), ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)


def small(dtype: torch.dtype, **settings: object) -> Case:
    """A hard case that takes the interpreter about a second; float16 cannot represent the long first positions.

    Some units are summed by group of documents too: a frequent one, the first positions, a rare one.
    """
    case = hard(dtype, rows=900, **{"offset": 300.0 if dtype == torch.float16 else 3000.0, **settings})
    if dtype == torch.float16:
        case = replace(case, states=case.states.clamp(-6e4, 6e4))
    x, c = case.states.double(), case.frame.centre.double()
    most, *_, rare = np.argsort(-np.bincount(case.unit), kind="stable")[:40].tolist()
    frame = replace(case.frame, spread=float((x - c).norm(dim=1).median()), frequent=(rare, most, 0))
    return replace(case, frame=frame)


def fold_of(case: Case, way: Way, frame: Frame | None = None, size: int = 257) -> GpuFold:
    fold = GpuFold(frame or case.frame, way.context())
    feed(fold, case.batches(size), way)
    return fold


def feed(fold: GpuFold, batches: list[Batch], way: Way) -> None:
    if way.kernels and batches and batches[0].states.dtype == torch.float64:
        pytest.skip("the kernels do not support float64")
    for batch in batches:
        fold.update(replace(batch, states=batch.states.to(way.device)))


def v_errors(sums: UnitSums, case: Case, rows: NDArray[np.bool_]) -> tuple[NDArray[np.float64], ...]:
    """Return |error of V|, V and Q of every unit of these rows, compared with a two-pass computation."""
    truth = oracles.qmv_by_unit(case.x[rows], case.unit[rows])
    assert sums.codes.tolist() == list(truth)
    found = unit_moments(sums.n.numpy(), sums.sum.numpy(), sums.squares.numpy(), sums.centre.numpy())
    v, q = (np.array([getattr(parts, name) for parts in truth.values()]) for name in "vq")
    return np.abs(found.v - v), v, q


@DTYPES
@pytest.mark.parametrize("population", POPULATIONS)
def test_v_of_every_unit_is_within_tolerance(way: Way, dtype: torch.dtype, population: str) -> None:
    case = small(dtype)
    sums = fold_of(case, way).to_cpu().moments.population(POPULATIONS[population])
    error, v, q = v_errors(sums, case, case.belongs(population))
    assert (error <= OF_V * v + OF_Q * q).all()
    assert (error <= FLOAT64_OF_V * v + FLOAT64_OF_Q * q).all()


def test_uncentred_float32_sums_exceed_the_tolerance() -> None:
    """The naive algorithm: float32 sums of x and |x|^2 over sixteen rows, float64 between."""
    case = small(torch.bfloat16, offset=3000.0)
    ordinary = case.cells() == 0
    x, unit = case.states[torch.from_numpy(ordinary)].float(), case.unit[ordinary]
    codes = np.unique(unit)
    n, total, squares = [], [], []
    for code in codes:
        parts = x[torch.from_numpy(unit == code)].split(16)
        n.append(sum(map(len, parts)))
        total.append(torch.stack([part.sum(0).double() for part in parts]).sum(0))
        squares.append(sum((part.square().sum().double() for part in parts), torch.zeros((), dtype=torch.float64)))
    sums = UnitSums(
        torch.from_numpy(codes),
        torch.tensor(n),
        torch.stack(total),
        torch.stack(squares),
        torch.zeros(x.shape[1], dtype=torch.float64),
    )
    error, v, q = v_errors(sums, case, ordinary)
    assert not (error <= OF_V * v + OF_Q * q)[v > 0].all()


@DTYPES
@pytest.mark.parametrize("separate", ["both", "first", "massive", "neither"])
def test_every_sum_equals_that_of_the_cpu(way: Way, dtype: torch.dtype, separate: str) -> None:
    case = small(dtype)
    frame = replace(
        case.frame, separate_first=separate in ("both", "first"), separate_massive=separate in ("both", "massive")
    )
    assert_alike(fold_of(case, way, frame).state(), case.fold(frame).state(), case)


def assert_alike(found: State, expected: State, case: Case) -> None:
    """Names, dtypes, shapes, counts and samples are equal; floats agree within the rounding of a batch."""
    found, expected = canonical(found), canonical(expected)
    assert found.keys() == expected.keys()
    finite = case.states.double()[torch.isfinite(case.states).all(1)]
    reach = float(finite.norm(dim=1).max() + case.frame.centre.double().norm())
    for name, tensor in expected.items():
        ours = found[name]
        assert ours.dtype == tensor.dtype, name
        assert ours.shape == tensor.shape, name
        if name.endswith(".products"):
            ours, tensor = ours.triu(), tensor.triu()
        if not tensor.is_floating_point() or name.startswith("sample."):
            assert torch.equal(ours, tensor), name
        elif name in ("norms.lowest", "norms.highest"):
            torch.testing.assert_close(ours, tensor, rtol=1e-6, atol=0)
        else:
            directed = name.startswith("directions.") or name == "groups.directions"
            power = 0 if directed else 2 if name.endswith(("squares", "products")) else 1
            bound = SUMS * len(case.states) * reach**power
            assert (ours - tensor).abs().flatten().max().item() <= bound, name


@DTYPES
@pytest.mark.parametrize("spread", ["known", "unknown"])
@pytest.mark.parametrize("population", POPULATIONS)
def test_spectra_are_those_of_float64(way: Way, dtype: torch.dtype, spread: str, population: str) -> None:
    case = small(dtype)
    frame = case.frame if spread == "known" else replace(case.frame, spread=0.0)
    n, found = fold_of(case, way, frame).to_cpu().scatter.covariance(POPULATIONS[population])
    rows = case.belongs(population)
    expected = np.cov(case.x[rows].T, bias=True)
    assert n == rows.sum()
    ours, truth = np.linalg.eigvalsh(found.numpy()), np.linalg.eigvalsh(expected)
    assert np.abs(ours - truth).max() <= SPECTRAL * truth.sum()
    assert participation(ours) == pytest.approx(participation(truth), rel=SPECTRAL)
    assert entropy(ours) == pytest.approx(entropy(truth), rel=SPECTRAL)
    np.testing.assert_allclose(found.diagonal().numpy(), expected.diagonal(), rtol=SPECTRAL)


def participation(values: NDArray[np.float64]) -> float:
    return float(values.sum() ** 2 / (values**2).sum())


def entropy(values: NDArray[np.float64]) -> float:
    shares = np.clip(values / values.sum(), 1e-300, None)
    return float(-(shares * np.log(shares)).sum())


def test_uncentred_products_miss_the_spectrum() -> None:
    case = small(torch.float32)
    rows = torch.from_numpy(case.cells() == 0)
    x = case.states[rows].float()
    raw = (x.T @ x).double() / len(x) - torch.outer(x.double().mean(0), x.double().mean(0))
    expected = np.linalg.eigvalsh(np.cov(case.x[rows.numpy()].T, bias=True))
    assert participation(np.linalg.eigvalsh(raw.numpy())) != pytest.approx(participation(expected), rel=SPECTRAL)


def test_rows_at_other_positions_of_the_states(way: Way) -> None:
    """States as they leave the block: padded, in another order, with rows that are not part of the batch."""
    case = small(torch.bfloat16)
    padded = torch.full((2 * len(case.states), case.frame.dim), 7.0, dtype=torch.bfloat16)
    at = torch.randperm(2 * len(case.states), generator=torch.Generator().manual_seed(3))[: len(case.states)]
    padded[at] = case.states
    fold = GpuFold(case.frame, way.context())
    for part in torch.arange(len(case.places)).split(257):
        places = case.places.take(part)
        fold.update(Batch(0, padded.to(way.device), places, at[part].to(way.device)))
    assert_same_bits(fold.state(), fold_of(case, way).state())


def assert_same_bits(found: State, expected: State) -> None:
    found, expected = canonical(found), canonical(expected)
    assert found.keys() == expected.keys()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name


def test_resuming_changes_no_bit(way: Way) -> None:
    case = small(torch.bfloat16)
    batches = case.batches(100)
    whole = fold_of(case, way, size=100)
    started = GpuFold(case.frame, way.context())
    feed(started, batches[:4], way)
    taken_up = GpuFold(case.frame, way.context())
    taken_up.load(started.state())
    feed(taken_up, batches[4:], way)
    assert_same_bits(taken_up.state(), whole.state())


def test_a_state_of_the_cpu_continues_on_the_device_and_back(way: Way) -> None:
    case = small(torch.bfloat16)
    batches = case.batches(100)
    on_cpu = LayerFold(case.frame)
    for batch in batches[:4]:
        on_cpu.update(batch)
    on_device = GpuFold(case.frame, way.context())
    on_device.load({name: tensor.clone() for name, tensor in on_cpu.state().items()})
    feed(on_device, batches[4:], way)
    assert_alike(on_device.state(), case.fold(size=100).state(), case)
    other = case.fold(size=100)
    twice = on_device.to_cpu()
    twice.merge(other)
    assert twice.moments.population(POPULATIONS["all"]).n.sum() == 2 * len(case.states)


def test_the_state_does_not_change_with_later_batches(way: Way) -> None:
    case = small(torch.bfloat16)
    fold = fold_of(case, way)
    state = fold.state()
    before = {name: tensor.clone() for name, tensor in state.items()}
    feed(fold, case.batches(300), way)
    fold.state()
    assert_same_bits(state, before)


def test_rows_that_float32_cannot_square(way: Way) -> None:
    """NaN, infinity, zero, and lengths whose squares overflow or vanish."""
    case = small(torch.float32)
    states = case.states.clone()
    states[3], states[5, 0], states[8, 1], states[9, 2] = 0, torch.nan, torch.inf, -torch.inf
    states[40, 0] = torch.nan  # a first position
    states[11] *= 1e20
    states[12] = torch.randn(case.frame.dim) * 1e-25
    states[80] *= 1e17  # first too
    case = replace(case, states=states)
    found, expected = fold_of(case, way).state(), case.fold().state()
    assert_alike(found, expected, case)
    assert found["norms.nonfinite"].tolist() == [3, 1, 0, 0, 0, 0]
    assert int(found["norms.zero"].sum()) == 1


def test_one_row_and_no_rows(way: Way) -> None:
    fold = GpuFold(Frame(torch.zeros(5), sample_size=3), way.context())
    feed(fold, [Batch(0, torch.zeros(0, 5), places(torch.zeros(0)))], way)
    empty = LayerFold(Frame(torch.zeros(5), sample_size=3))
    assert_same_bits(fold.state(), empty.state())
    case = of_states(torch.randn(1, 5, generator=torch.Generator().manual_seed(1)))
    assert_alike(fold_of(case, way).state(), case.fold().state(), case)


def test_a_unit_in_every_row_is_split_and_added(way: Way) -> None:
    states = torch.randn(700, 20, generator=torch.Generator().manual_seed(2)).bfloat16()
    case = of_states(states, torch.zeros(700))
    sums = fold_of(case, way, size=700).to_cpu().moments.population([0])
    error, v, q = v_errors(sums, case, np.ones(700, dtype=np.bool_))
    assert (error <= FLOAT64_OF_V * v + FLOAT64_OF_Q * q).all()


def test_layers_share_a_context(way: Way) -> None:
    """Two layers updated in turn, as by a model, have the same sums as each by itself."""
    cases = [small(torch.bfloat16, seed=0), small(torch.bfloat16, seed=0)]
    cases[1] = replace(cases[1], states=(cases[1].states.float() * 2).bfloat16())
    context = way.context()
    folds = [GpuFold(case.frame, context) for case in cases]
    for one, other in zip(cases[0].batches(), cases[1].batches(), strict=True):
        for fold, states in zip(folds, (one.states, other.states), strict=True):
            fold.update(Batch(0, states.to(way.device), one.places))
    for fold, case in zip(folds, cases, strict=True):
        assert_same_bits(fold.state(), fold_of(case, way).state())


def test_prepared_layouts_are_used_once_and_do_not_accumulate(way: Way) -> None:
    """Layouts of a decoder are prepared too when only layers of the encoder are surveyed."""
    case = small(torch.bfloat16)
    context = way.context()
    fold = GpuFold(case.frame, context)
    batches = case.batches(257)
    for batch in batches:
        context.prepare(batch.places)
        context.prepare(replace(batch.places))  # which is never used
    for number, batch in enumerate(batches, start=1):
        feed(fold, [batch], way)
        assert len(context._prepared) == 2 * (len(batches) - number) + 1
    assert_same_bits(fold.state(), fold_of(case, way).state())


def test_a_context_without_folds_prepares_nothing(way: Way) -> None:
    context = way.context()
    context.prepare(small(torch.bfloat16).places)
    assert not context._prepared


@DTYPES
def test_sinks_equal_those_of_the_cpu(way: Way, dtype: torch.dtype) -> None:
    """First positions are massive at one of two layers; states are padded, and overwritten by the next block."""
    if way.kernels and dtype == torch.float64:
        pytest.skip("the kernels do not support float64")
    case = small(dtype)
    states = case.states.clone()
    states[5, 0], states[80, 1], states[121, 1] = torch.nan, torch.inf, torch.nan  # 80 is a first position
    if dtype == torch.float32:
        states[7] *= 1e20  # massive, and its square overflows
        states[201] = torch.randn(case.frame.dim, generator=torch.Generator().manual_seed(3)) * 1e-25
    quiet = case.states.clone()
    quiet[case.places.first] = case.states[1]
    cases = [replace(case, states=states), replace(case, states=quiet)]
    frame = replace(case.frame, separate_sinks=True)
    context = way.context()
    on_device, on_cpu = [GpuFold(frame, context) for _ in cases], [LayerFold(frame) for _ in cases]
    padding = torch.full((3, frame.dim), 7.0, dtype=dtype)
    for part in torch.arange(len(case.places)).split(257):
        at, rows = case.places.take(part), torch.arange(len(part)).flip(0) + 3
        for folds in (on_device, on_cpu):
            layers = BatchLayers(dict(enumerate(folds)))
            for index, one in enumerate(cases):
                device = way.device if folds is on_device else "cpu"
                given = torch.cat([padding, one.states[part].flip(0)]).to(device)
                layers.add(Batch(index, given, at, rows.to(device)))
                given.fill_(9.0)
            layers.finish()
    for found, expected, one in zip(on_device, on_cpu, cases, strict=True):
        assert_alike(found.state(), expected.state(), one)
    first = int(case.places.first.sum())
    assert int(on_cpu[1].scatter.n[5]) == first - 1  # one is not finite at the other layer
    assert int(on_cpu[0].scatter.n[3]) == first - 1
    assert context.bytes_to_hold > 0


def test_held_first_positions_are_multiplied_in_two_blocks_of_columns(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are behind a gap, and more than there are coordinates."""
    if INTERPRETED:  # the interpreter multiplies the bits of bfloat16
        monkeypatch.setattr(kernels, "products", reference.products)
    case = hard(torch.bfloat16, dim=272, rows=600, offset=300.0)
    first = torch.arange(len(case.places)) % 2 == 0
    rows = (case.states.double() - case.frame.centre.double()).norm(dim=1)
    frame = replace(case.frame, separate_sinks=True, spread=float(rows.median()))
    case = replace(case, places=replace(case.places, first=first), frame=frame)
    (batch,), sinks = case.batches(len(first)), torch.arange(len(first)) % 50 == 3
    on_device, on_cpu = GpuFold(frame, way.context()), LayerFold(frame)
    on_device.hold(replace(batch, states=batch.states.to(way.device))).add(sinks)
    on_cpu.update(batch, sinks=sinks)
    assert int(on_cpu.scatter.n[1]) > 272
    assert_alike(on_device.state(), on_cpu.state(), case)


def test_tables_that_do_not_fit_move_to_the_cpu(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    case = small(torch.bfloat16)
    single = fold_of(case, way, size=100)
    context = way.context()
    moving = GpuFold(case.frame, context)
    batches = case.batches(100)
    feed(moving, batches[:1], way)
    monkeypatch.setattr("theodolite.statistics.cuda.tables.fits_on_device", lambda count, device: False)
    feed(moving, batches[1:], way)
    assert_alike(moving.state(), single.state(), case)
    assert any(table.spilled is not None for table in moving._tables.values())
    assert int(canonical(moving.state())["moments.ordinary.n"].sum()) == int((case.cells() == 0).sum())


def test_contextuality_is_computed_on_the_cpu(way: Way) -> None:
    case = small(torch.bfloat16)
    frame = replace(case.frame, contextuality=True, occurrences=(4, 4))
    found, expected = fold_of(case, way, frame).state(), case.fold(frame).state()
    assert found.keys() == expected.keys()
    assert torch.equal(found["sentences.n"], expected["sentences.n"])


def test_groups_of_a_field_are_summed_on_the_cpu(way: Way) -> None:
    plain = small(torch.bfloat16)
    case = replace(plain, places=replace(plain.places, by=torch.arange(len(plain.places)) % 3))
    frame = replace(case.frame, by_groups=3, by_matrices=2, by_rows=1000)
    found, expected = fold_of(case, way, frame).state(), case.fold(frame).state()
    assert found.keys() == expected.keys()
    named = [name for name in expected if name.startswith("field_groups.")]
    assert {"field_groups.ordinary.1.products", "field_groups.ordinary.units.sum"} <= set(named)
    for name in named:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-9, atol=1e-9)


def test_a_statistic_without_a_kernel_is_computed_on_the_cpu(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tally(Statistic):
        name = "tally"

        def __init__(self, frame: Frame) -> None:
            super().__init__(frame)
            self.n = torch.zeros(1, dtype=torch.int64)

        def update(self, rows: Rows) -> None:
            self.n += len(rows.x)

        def merge(self, other: Self) -> None:
            self.n += other.n

        def state(self) -> State:
            return {"n": self.n}

        @classmethod
        def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
            return 8

        def load(self, state: State) -> None:
            self.n = state["n"]

    monkeypatch.setattr("theodolite.statistics.fold.STATISTICS", (*STATISTICS, Tally))
    case = small(torch.bfloat16)
    expected = case.fold().state()["tally.n"]
    assert expected > 0
    assert torch.equal(fold_of(case, way).state()["tally.n"], expected)
    assert torch.equal(fold_of(case, way).hand_over().state()["tally.n"], expected)


def test_a_unit_seen_once_has_no_variance(way: Way) -> None:
    sums = fold_of(small(torch.bfloat16), way).to_cpu().moments.population(range(len(CELLS)))
    at = sums.codes.tolist().index(SEEN_ONCE)
    assert unit_moments(sums.n.numpy(), sums.sum.numpy(), sums.squares.numpy(), sums.centre.numpy()).v[at] == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="requires an NVIDIA GPU")
def test_the_device_never_waits_for_the_cpu() -> None:
    """The CPU waits only for the flags of an earlier layer, by an event; PyTorch raises at any other wait."""
    case = small(torch.bfloat16)
    context = GpuContext("cuda")
    fold = GpuFold(case.frame, context)
    batches = [replace(batch, states=batch.states.cuda()) for batch in case.batches(300)]
    for batch in batches:  # the first time tables grow and limits are sent
        fold.update(batch)
    context.finish()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in batches:
            fold.update(batch)
        context.finish()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert int(fold.state()["scatter.n"].sum()) == 2 * len(case.states)


@pytest.mark.parametrize("rows", [2047, 2048, 5000])
def test_products_of_many_rows_are_added_in_chunks(way: Way, rows: int) -> None:
    states = torch.randn(rows, 40, generator=torch.Generator().manual_seed(4)).bfloat16()
    states[:, 3] += 3000
    case = of_states(states, torch.arange(rows) % 50, spread=6.0)
    n, found = fold_of(case, way, size=rows).to_cpu().scatter.covariance([0])
    expected = np.cov(case.x.T, bias=True)
    assert n == rows
    ours, truth = np.linalg.eigvalsh(found.numpy()), np.linalg.eigvalsh(expected)
    assert participation(ours) == pytest.approx(participation(truth), rel=SPECTRAL)


def test_most_coordinates_are_far_from_the_origin(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the mean is long, and has many long coordinates: more than a kernel reads at once."""
    error = SPECTRAL
    if INTERPRETED and way.kernels:  # the interpreter truncates bfloat16, and multiplies its bits
        monkeypatch.setattr(gram_kernels, "TALL", 1000)  # smaller matrices need no kernel
        error = 4 * SPECTRAL
    case = hard(torch.bfloat16, rows=700, dim=300)
    case = replace(case, states=(case.states + torch.linspace(20, 90, 300)).bfloat16())
    frame = replace(case.frame, centre=case.frame.centre + torch.linspace(20, 90, 300), spread=1.0)
    fold = fold_of(case, way, frame, size=700)
    assert len(fold._far) == 300
    rows = case.belongs("without-first")
    _, found = fold.to_cpu().scatter.covariance(POPULATIONS["without-first"])
    ours, truth = (np.linalg.eigvalsh(each) for each in (found.numpy(), np.cov(case.x[rows].T, bias=True)))
    assert participation(ours) == pytest.approx(participation(truth), rel=error)
    assert entropy(ours) == pytest.approx(entropy(truth), rel=error)


@pytest.mark.parametrize("extra", [0, 16, 48, 80])
@pytest.mark.parametrize("dim", [128, 300, 512])
def test_products_on_and_above_the_diagonal(way: Way, dim: int, extra: int) -> None:
    if not way.kernels:
        pytest.skip("compares the kernel with the library")
    generator = torch.Generator().manual_seed(0)
    rows, remainders = (
        torch.randn(3, 128, columns, generator=generator).half().to(way.device) for columns in (dim, extra)
    )
    found, with_remainders = gram_kernels.products(rows, remainders)
    left = rows.double().transpose(1, 2)
    upper = torch.triu(torch.ones(dim, dim, dtype=torch.bool, device=way.device))
    error = {"rtol": 0, "atol": 1e-3}  # float32 sums
    torch.testing.assert_close(found[:, upper].double(), (left @ rows.double())[:, upper], **error)
    torch.testing.assert_close(with_remainders.double(), left @ remainders.double(), **error)


def test_a_layer_without_a_sample_beside_one_with(way: Way) -> None:
    case, context = hard(torch.bfloat16), way.context()
    without, beside = (GpuFold(replace(case.frame, sample_size=size), context) for size in (0, 64))
    for fold in (without, beside):
        feed(fold, case.batches(257), way)
    context.finish()
    assert not any(map(len, without.samples))
    assert len(beside.samples[0]) == 64
