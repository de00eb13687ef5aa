"""What every statistic must obey. Statistics are found, not listed: a new one is held to this at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tests.laws.harness import (
    TOLERANCE,
    assert_identical,
    assert_same,
    canonical,
    discovered,
    feed,
    fold,
    identical,
    merged,
    snapshot,
)
from tests.laws.strategies import DIFFICULTIES, MAX_SAMPLED, Sample, samples

from theodolite.statistics.fold import ATTENTION, BY_FIELD, CONTEXTUAL, RARE, SCORED, STATISTICS, LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import Statistic

KINDS = discovered()
LAW = settings(derandomize=True)
"""The same examples on every machine: a law that fails, fails for everyone."""
CUTS = st.lists(st.integers(0, 1000), min_size=2, max_size=2)

every_statistic = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def test_the_fold_holds_every_statistic() -> None:
    assert set(STATISTICS + CONTEXTUAL + SCORED + RARE + BY_FIELD + ATTENTION) == set(KINDS)
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert set(TOLERANCE) <= {kind.name for kind in KINDS}


@every_statistic
@given(sample=samples())
@LAW
def test_empty_is_the_identity(kind: type[Statistic], sample: Sample) -> None:
    seen = fold(kind, sample.frame, sample.batch)
    alone = canonical(snapshot(seen))
    assert_identical(canonical(merged(seen, kind(sample.frame)).state()), alone)
    assert_identical(canonical(merged(kind(sample.frame), seen).state()), alone)


@every_statistic
@given(sample=samples(), cuts=CUTS)
@LAW
def test_merging_commutes(kind: type[Statistic], sample: Sample, cuts: list[int]) -> None:
    a, b, _ = (fold(kind, sample.frame, part) for part in sample.split(cuts, whole_windows=kind.whole_windows))
    rows = len(sample.batch.places)
    assert_same(kind, merged(a, b).state(), merged(b, a).state(), rows, sample.reach)


@every_statistic
@given(sample=samples(), cuts=CUTS)
@LAW
def test_merging_may_be_regrouped(kind: type[Statistic], sample: Sample, cuts: list[int]) -> None:
    a, b, c = (fold(kind, sample.frame, part) for part in sample.split(cuts, whole_windows=kind.whole_windows))
    left, right = merged(merged(a, b), c), merged(a, merged(b, c))
    assert_same(kind, left.state(), right.state(), len(sample.batch.places), sample.reach)


@every_statistic
@given(sample=samples(), cuts=st.lists(st.integers(0, 1000), min_size=1, max_size=6))
@LAW
def test_any_split_equals_one_update(kind: type[Statistic], sample: Sample, cuts: list[int]) -> None:
    whole, parts = (
        fold(kind, sample.frame, sample.batch).state(),
        sample.split(cuts, whole_windows=kind.whole_windows),
    )
    rows = len(sample.batch.places)
    apart = merged(*(fold(kind, sample.frame, part) for part in parts))
    assert_same(kind, apart.state(), whole, rows, sample.reach)
    in_turn = fold(kind, sample.frame, *parts)
    assert_same(kind, in_turn.state(), whole, rows, sample.reach)


@every_statistic
@given(sample=samples(), cuts=CUTS)
@LAW
def test_saving_and_loading_change_no_bit(
    kind: type[Statistic], sample: Sample, cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    before, between, after = sample.split(cuts, whole_windows=kind.whole_windows)
    going_on = fold(kind, sample.frame, before)
    restored = through_a_file(going_on, tmp_path_factory.mktemp("law") / "state.safetensors")
    assert_identical(restored.state(), snapshot(going_on))
    for part in (between, after):
        feed(going_on, part)
        feed(restored, part)
        assert_identical(restored.state(), going_on.state())


@every_statistic
@given(sample=samples(min_rows=1))
@LAW
def test_loading_replaces_everything(kind: type[Statistic], sample: Sample) -> None:
    used = fold(kind, sample.frame, sample.batch)
    used.load(snapshot(kind(sample.frame)))
    assert_identical(used.state(), kind(sample.frame).state())


@every_statistic
@given(sample=samples())
@LAW
def test_update_neither_aliases_nor_changes_its_input(kind: type[Statistic], sample: Sample) -> None:
    batch, statistic = sample.rows(0, len(sample.batch.places)), kind(sample.frame)
    rows = Rows.of(batch, sample.frame)
    read = [
        batch.states,
        *tensors(batch.places),
        rows.x,
        rows.norms,
        rows.centred,
        rows.inverse_norms,
        rows.centre,
    ]
    read += [*tensors(rows.places), rows.nonfinite, sample.frame.centre]
    before = [tensor.clone() for tensor in read]
    statistic.update(rows)
    assert all(identical(tensor, was) for tensor, was in zip(read, before, strict=True))
    state = snapshot(statistic)
    for tensor in read[:-1]:
        tensor.fill_(1)
    assert_identical(statistic.state(), state)


@every_statistic
@given(sample=samples(), cuts=CUTS)
@LAW
def test_merge_neither_aliases_nor_changes_the_other(
    kind: type[Statistic], sample: Sample, cuts: list[int]
) -> None:
    first, second, third = sample.split(cuts, whole_windows=kind.whole_windows)
    into, other = fold(kind, sample.frame, first), fold(kind, sample.frame, second)
    before = snapshot(other)
    into.merge(other)
    assert_identical(other.state(), before)
    after = snapshot(into)
    feed(other, third)
    for tensor in other.state().values():
        tensor.fill_(1)
    assert_identical(into.state(), after)


@every_statistic
@given(sample=samples(min_rows=1))
@settings(LAW, max_examples=15)
def test_memory_is_bounded_by_units_and_not_by_rows(kind: type[Statistic], sample: Sample) -> None:
    statistic = fold(kind, sample.frame, sample.batch)
    sizes = [held(statistic)]
    # What keeps vectors fills up to its size: the eight it may hold of a cell or a unit come in as many rounds; as
    # many vectors as coordinates are held before there is a matrix.
    sampled = {"sample": MAX_SAMPLED, "occurrences": MAX_SAMPLED, "scatter": sample.frame.dim}
    settled = sampled.get(kind.name, 0)
    for seed in range(max(10, settled + 2)):
        feed(statistic, sample.again(seed))
        sizes.append(held(statistic))
    assert sizes[settled] == sizes[-1]


@every_statistic
@given(sample=samples(), seed=st.integers(0, 99))
@LAW
def test_recentring_can_be_reversed(kind: type[Statistic], sample: Sample, seed: int) -> None:
    moved_frame = elsewhere(sample.frame, seed)
    moved = fold(kind, sample.frame, sample.batch)
    before = snapshot(moved)
    recentre(moved, moved_frame)
    recentre(moved, sample.frame)
    rows = len(sample.batch.places)
    assert_same(kind, moved.state(), before, rows, sample.reach + moved_frame.centre.double().norm().item())


@every_statistic
@given(sample=samples(), cuts=CUTS, seed=st.integers(0, 99))
@LAW
def test_recentred_sums_equal_those_about_the_other_centre(
    kind: type[Statistic], sample: Sample, cuts: list[int], seed: int
) -> None:
    moved_frame = elsewhere(sample.frame, seed)
    first, second, third = sample.split(cuts, whole_windows=kind.whole_windows)
    moved = fold(kind, sample.frame, first, second)
    recentre(moved, moved_frame)
    total = merged(moved, fold(kind, moved_frame, third))
    whole = fold(kind, moved_frame, sample.batch)
    rows = len(sample.batch.places)
    assert_same(kind, total.state(), whole.state(), rows, sample.reach + moved_frame.centre.double().norm().item())


@given(
    sample=samples(difficulties=tuple(kind for kind in DIFFICULTIES if kind != "huge")),
    cuts=CUTS,
    seed=st.integers(0, 99),
)
@LAW
def test_folds_of_different_centres_merge(sample: Sample, cuts: list[int], seed: int) -> None:
    first, second, third = sample.split(cuts, whole_windows=True)
    first_fold, second_fold = LayerFold(sample.frame), LayerFold(elsewhere(sample.frame, seed))
    for into, batch in ((first_fold, first), (second_fold, second), (second_fold, third)):
        into.update(batch)
    before = {name: tensor.clone() for name, tensor in second_fold.state().items()}
    first_fold.merge(second_fold)
    assert_identical(second_fold.state(), before)
    assert torch.equal(first_fold.frame.centre, sample.frame.centre)
    reach = sample.reach + second_fold.frame.centre.double().norm().item()
    for kind in KINDS:
        if kind.name not in first_fold.statistics:
            continue
        whole = fold(kind, sample.frame, sample.batch).state()
        assert_same(kind, first_fold.statistics[kind.name].state(), whole, len(sample.batch.places), reach)


def through_a_file(statistic: Statistic, path: Path) -> Statistic:
    save_file(statistic.state(), path)
    return type(statistic).restore(statistic.frame, load_file(path))


def held(statistic: Statistic) -> int:
    """Bytes of the state, and of the tensors that its parts are views of."""
    state = statistic.state().values()
    return sum(tensor.nbytes + tensor.untyped_storage().nbytes() for tensor in state)


def tensors(places: object) -> list[torch.Tensor]:
    return [getattr(places, name) for name in ("unit", "group", "first", "key", "context", "window")]


def elsewhere(frame: Frame, seed: int) -> Frame:
    """The frame with another centre, some way off."""
    random = torch.Generator().manual_seed(seed)
    return replace(frame, centre=frame.centre + 5 * torch.randn(frame.dim, generator=random))


def recentre(statistic: Statistic, frame: Frame) -> None:
    """As LayerFold.recentre does for all of its statistics."""
    statistic.recentre(frame.centre)
    statistic.frame = frame
