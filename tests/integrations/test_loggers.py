"""Numbers reach each logger under names that sort by layer."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.tiny_training import tiny
from tests.small_models import TOKENIZERS, sentences

from theodolite.errors import InputError
from theodolite.integrations import GeometryProbe
from theodolite.integrations.loggers import make_logger

NUMBERS = {"geometry/block_02/effective_rank": 3.5, "geometry/block_10/effective_rank": 4.5}


def test_names_sort_in_the_order_of_the_layers() -> None:
    from transformers import BertConfig, BertModel

    tokenizer = TOKENIZERS["bert"]()
    shape = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 64}
    model = BertModel(BertConfig(vocab_size=len(tokenizer), num_hidden_layers=12, **shape))
    seen: list[tuple[int, dict[str, float]]] = []
    probe = GeometryProbe(
        sentences(4), tokenizer, positions=64, log=lambda numbers, step: seen.append((step, numbers))
    )
    found = probe.measure(model, 7)
    assert seen == [(7, found)]
    blocks = [name.split("/")[1] for name in found if name.endswith("mean_cosine") and "block" in name]
    assert blocks == sorted(blocks) == ["block_02", "block_05", "block_07", "block_10", "block_12"]


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        make_logger(writer)(NUMBERS, 7)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    read = {name: (events.Scalars(name)[0].step, events.Scalars(name)[0].value) for name in NUMBERS}
    assert read == {name: (7, value) for name, value in NUMBERS.items()}


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(mode="offline", dir=str(tmp_path), project="test") as run:
        make_logger(run)(NUMBERS, 7)
        make_logger(run)({"other": 1.0}, 8)  # a step is complete when the next one begins
        summary = dict(run.summary)
    assert summary["_step"] == 7
    assert {name: summary[name] for name in NUMBERS} == NUMBERS
    assert list(tmp_path.rglob("*.wandb"))


def test_mlflow(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    with mlflow.start_run() as run:
        make_logger(mlflow)(NUMBERS, 7)
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "geometry/block_10/effective_rank")
    assert [(each.step, each.value) for each in history] == [(7, 4.5)]


def test_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio")
    run = trackio.init(project="test", embed=False)
    make_logger(trackio)(NUMBERS, 7)
    trackio.finish()
    del run
    with sqlite3.connect(next(tmp_path.rglob("test.db"))) as database:
        rows = database.execute("select step, metrics from metrics").fetchall()
    assert rows[0][0] == 7
    assert "geometry/block_02/effective_rank" in str(rows[0][1])


def test_accelerate_logs_the_geometry_and_the_series_keeps_what_it_tracks(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from accelerate import Accelerator

    from theodolite.integrations import GeometryTracker

    model, tokenizer = tiny("decoder")
    probe = GeometryProbe(sentences(8), tokenizer, share=None)
    accelerator = Accelerator(cpu=True, log_with=[GeometryTracker(probe)])
    accelerator.init_trackers("test")
    probe.log = make_logger(accelerator)
    accelerator.log({"loss": 2.5, "name": "run"}, step=0)
    probe.measure(model, 0)
    probe.measure(model, 1)
    accelerator.end_training()
    assert probe.series is not None
    assert probe.series.tables["training"].to_dict("records") == [{"step": 0, "loss": 2.5}]


def test_other_targets_are_rejected() -> None:
    with pytest.raises(InputError, match="log: cannot log to a value of type int; give a SummaryWriter"):
        make_logger(3)
    with pytest.raises(InputError, match="log: cannot log to a value of type Logger"):
        make_logger(logging.getLogger("run"))


def test_the_series_keeps_the_loss_and_goes_back_with_the_run(tmp_path: Path) -> None:
    import torch

    from theodolite.studies.series import Series

    model, tokenizer = tiny("decoder")
    options: dict[str, Any] = {"share": None, "every": 2, "weights": "none", "out": tmp_path / "s"}
    probe = GeometryProbe(sentences(8), tokenizer, **options)
    for step in range(5):
        probe(model, step, loss=torch.tensor(4.0 - step), learning_rate=0.1)
    assert Series.read(tmp_path / "s").tables["training"]["loss"].tolist() == [4.0, 3.0, 2.0, 1.0, 0.0]
    resumed = GeometryProbe(sentences(8), tokenizer, resume=True, **options)
    resumed(model, 2, loss=9.0)
    table = Series.read(tmp_path / "s").tables["training"]
    assert table["step"].tolist() == [0, 1, 2]
    assert table["loss"].tolist() == [4.0, 3.0, 9.0]
