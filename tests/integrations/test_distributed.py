"""Several processes measure what one process measures, and training is the same with and without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.integrations.tiny_training import tiny
from tests.integrations.worker_processes import (
    fail_in_one,
    run_processes,
    train_all,
    train_with_deepspeed,
    train_with_trainer,
)
from tests.small_models import sentences

from theodolite.errors import InputError
from theodolite.integrations import GeometryProbe
from theodolite.integrations.processes import Processes
from theodolite.integrations.share import make_share
from theodolite.studies.series import Series


def _alone(kind: str, texts: int) -> GeometryProbe:
    model, tokenizer = tiny(kind)
    probe = GeometryProbe(
        sentences(texts, seed=9), tokenizer, share=None, layers="all", dimension=True, populations=("all",)
    )
    probe.measure(model, 0)
    return probe


def _assert_equal(found: pd.DataFrame, expected: pd.DataFrame | None) -> None:
    assert expected is not None
    assert list(found.columns) == list(expected.columns)
    for column in found.columns:
        if found[column].dtype == object or found[column].dtype == "str":
            assert found[column].tolist() == expected[column].tolist(), column
            continue
        # Other batches: a forward pass of other shapes rounds differently, in the sixth digit.
        ours, theirs = (table[column].astype(float).to_numpy() for table in (found, expected))
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-9, err_msg=column)


def _check(results: list[Any], cases: list[tuple[str, str]], texts: int) -> None:
    for number, (kind, wrap) in enumerate(cases):
        if "bare" in wrap:
            continue
        alone = _alone(kind, texts)
        for rank, result in enumerate(results):
            measured, _, steps = result[number]
            _assert_equal(measured[0][0], alone.layers)
            assert measured[0][2] == pytest.approx(alone.updates, rel=1e-5)
            same = [
                first == ours for (_, first, _), (_, ours, _) in zip(results[0][number][0], measured, strict=True)
            ]
            assert all(same) or rank == 0 or _equal_but_seconds(results[0][number][0], measured)
            assert [step for step, _ in steps] == ([0, 1, 2, 3] if rank == 0 else [])
        hashes = [sha256 for _, sha256 in results[0][number][2]]
        assert hashes[0] is not None
        assert hashes[1] is None, "between backward pass and optimizer step the weights have not changed"
        assert hashes[2] not in (None, hashes[0])
        assert not np.allclose(measured[0][0]["q"], measured[1][0]["q"]), "the second has the new weights"


def _equal_but_seconds(one: list[Any], other: list[Any]) -> bool:
    def plain(numbers: dict[str, float]) -> dict[str, float]:
        return {name: value for name, value in numbers.items() if name != "geometry/seconds"}

    return all(plain(a[1]) == plain(b[1]) for a, b in zip(one, other, strict=True))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_two_processes_measure_what_one_does(tmp_path: Path) -> None:
    """Nine texts of different lengths, so that the processes have unequal shares."""
    cases = [("decoder", "ddp"), ("decoder", "fsdp2"), ("decoder", "fsdp2-bare")]
    results = run_processes(train_all, 2, tmp_path, cases, 9)
    _check(results, cases, 9)
    measured, bare = results[0][1][1], results[0][2][1]
    assert all(torch.equal(measured[name], bare[name]) for name in bare), "training is the same, bit for bit"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(("size", "texts"), [(3, 9), (4, 2)])
def test_more_processes_also_with_nothing_to_measure(size: int, texts: int, tmp_path: Path) -> None:
    """With two texts, two of four processes have no share, and only take part in the forward pass."""
    cases = [("encoder", "fsdp2"), ("encoder", "ddp"), ("encoder", "ddp-bare"), ("decoder", "fsdp2")]
    results = run_processes(train_all, size, tmp_path, cases, texts)
    _check(results, cases, texts)
    measured, bare = results[1][1][1], results[1][2][1]
    assert all(torch.equal(measured[name], bare[name]) for name in bare)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_callback_measures_in_every_process_of_the_trainer(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    logs = run_processes(train_with_trainer, 2, tmp_path, str(tmp_path), 9)
    key = "geometry/block_2/effective_rank"
    measured = [[log[key] for log in history if key in log] for history in logs]
    assert len(measured[0]) == 3
    assert measured[0] == measured[1]
    model, tokenizer = tiny("decoder")
    probe = GeometryProbe(sentences(9, seed=9), tokenizer, share=None, layers="all")
    assert measured[0][0] == pytest.approx(probe.measure(model, 0)[key], rel=2e-5)
    assert [each.step for each in Series.read(tmp_path / "series").steps] == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_deepspeed_with_sharded_weights(tmp_path: Path) -> None:
    pytest.importorskip("deepspeed")
    results = run_processes(train_with_deepspeed, 2, tmp_path, 9, True)
    bare = run_processes(train_with_deepspeed, 2, tmp_path, 9, False)
    model, tokenizer = tiny("decoder")
    alone = GeometryProbe(sentences(9, seed=9), tokenizer, share=None, layers="all")
    alone.measure(model, 0)
    for (measured, losses, _), (_, expected, _) in zip(results, bare, strict=True):
        _assert_equal(measured[0], alone.layers)
        assert not np.allclose(measured[0]["q"], measured[1]["q"])
        assert losses == expected, "training is the same, bit for bit"
    assert len(set(results[0][2])) == 3


@pytest.mark.slow
def test_an_error_in_one_process_is_raised_in_all(tmp_path: Path) -> None:
    assert run_processes(fail_in_one, 2, tmp_path) == ["process 1: ValueError: broken", "broken"]


def test_shares_of_a_sharded_model_have_equal_numbers_of_runs() -> None:
    class Prepared:
        positions = 3

    class TwoOfFour(Processes):
        def all_gather(self, value: Any) -> list[Any]:
            return [value] if value is None else [(2, 6), (0, 0), (1, 3), value]

    others = TwoOfFour(rank=3, size=4)
    share = make_share([], lambda part: [Prepared()] * len(part), others, sharded=True)
    assert (len(share.batches), len(share.idle)) == (0, 0), "without items nothing can be run"
    share = make_share([1], lambda part: [Prepared()] * len(part), others, sharded=True)
    assert (len(share.batches), len(share.idle), share.positions) == (0, 2, 9)
    share = make_share([1], lambda part: [Prepared()] * len(part), others, sharded=False)
    assert (len(share.batches), len(share.idle)) == (0, 0)


def test_a_sharded_model_is_not_measured_by_one_process() -> None:
    model, tokenizer = tiny("decoder")
    for parameter in model.parameters():
        parameter.ds_tensor = parameter.detach()  # as ZeRO-3 marks its weights
    with pytest.raises(InputError, match="sharded over processes, so that every process must measure"):
        GeometryProbe(sentences(3), tokenizer).measure(model, 0)


@pytest.mark.filterwarnings("ignore")
def test_the_first_fsdp_is_rejected_with_its_successor() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model, tokenizer = tiny("decoder")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        wrapped = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
        with pytest.raises(
            InputError, match=r"FullyShardedDataParallel, which is not supported; use its successor"
        ):
            GeometryProbe(sentences(3), tokenizer).measure(wrapped, 0)
    finally:
        torch.distributed.destroy_process_group()
