"""A run stopped within a shard goes on within that shard, whatever of other machines' work was lost meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.small_models import sentences

import theodolite
from theodolite.engines import local
from theodolite.engines.engine import Work
from theodolite.engines.progress import Listener
from theodolite.errors import TheodoliteError
from theodolite.state.checkpoints import Checkpoints
from theodolite.state.state import ShardKey, State
from theodolite.state.worker_states import WorkerStates
from theodolite.statistics.fold import LayerFold
from theodolite.surveys import text_survey

TEXTS = sentences(45, seed=1)


class Stopping(Listener):
    """Stops a run after some batches."""

    def __init__(self, after: int) -> None:
        self.left = after

    def stop(self) -> bool:
        self.left -= 1
        return self.left == 0


def fold_two_and_die(_: local.LocalEngine, work: Work) -> State:
    """Do what a cluster's only worker did before all was lost: fold two shards, saving after each."""
    assert work.out is not None
    partials = WorkerStates(work.out)
    keep = Checkpoints(partials.path(partials.create()))
    state = State({index: LayerFold(frame) for index, frame in work.frames.items()}, work.plan.source.units)
    for index, documents in work.plan.read([0, 1]):
        for batch in work.plan.source.prepare(documents):
            work.plan.source.run(batch, lambda rows: state.folds[rows.layer].update(rows))
            state.positions += batch.positions
        state.shards.append(ShardKey(work.plan.corpus_sha256, index))
        keep.save(state)
    raise TheodoliteError("the cluster is gone")


def test_a_damaged_save_moves_no_cursor(
    small_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 1000)
    model, out = small_model("bert"), tmp_path / "out"

    def survey(**more: Any) -> theodolite.Survey:
        settings = {"device": "cpu", "batch_tokens": 128, "checkpoint_every": 1e9, "sample_size": 64}
        return theodolite.survey(str(model), TEXTS, **settings, **more)

    whole = survey()
    with monkeypatch.context() as patched:
        patched.setattr(local.LocalEngine, "fold", fold_two_and_die)
        with pytest.raises(TheodoliteError, match="the cluster is gone"):
            survey(out=out)
    with pytest.raises(TheodoliteError, match="Interrupted"):
        survey(out=out, resume=True, listener=Stopping(2))  # within the third shard
    newest = max(out.glob("workers/*/checkpoints/*/state.safetensors"))
    with newest.open("r+b") as stream:
        stream.seek(-8, 2)
        stream.write(b"damaged!")
    found = survey(out=out, resume=True)  # the second shard is the first that is missing now
    assert found.facts["counts"] == whole.facts["counts"]
    ours, theirs = (one.layers[one.layers["population"] == "all"] for one in (found, whole))
    assert ours["n"].tolist() == theirs["n"].tolist()
    assert ours["v"].tolist() == pytest.approx(theirs["v"].tolist(), rel=1e-9)
