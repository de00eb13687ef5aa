"""The callback in transformers' Trainer: what is logged, where, and that training is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.integrations.tiny_training import rows_of, same_bits, tiny, weights_of
from tests.shared import slow
from tests.small_models import sentences

from theodolite.errors import InputError
from theodolite.integrations import GeometryCallback
from theodolite.studies.series import Series

pytest.importorskip("accelerate")
KEY = "geometry/block_2/effective_rank"


def _trainer(tmp_path: Path, kind: str = "decoder", callbacks: Any = None, **arguments: Any) -> Any:
    from transformers import Trainer, TrainerCallback, TrainingArguments, default_data_collator

    model, tokenizer = tiny(kind, dropout=0.1)
    options = {"max_steps": 6, "logging_steps": 2, "per_device_train_batch_size": 2, "learning_rate": 1e-2}
    options |= {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True, "seed": 3}
    given = TrainingArguments(output_dir=str(tmp_path / "trainer"), **(options | arguments))

    class Reporter(TrainerCallback):  # type: ignore[misc]
        """Like TensorBoard's callback: called before the callbacks of users."""

        def __init__(self) -> None:
            self.seen: list[dict[str, Any]] = []

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            self.seen.append({"step": state.global_step, **logs})

    reporter = Reporter()
    trainer = Trainer(
        model,
        given,
        train_dataset=rows_of(tokenizer),  # type: ignore[arg-type]
        processing_class=tokenizer,
        data_collator=default_data_collator,
        callbacks=[reporter, *(callbacks or [])],
    )
    trainer.reporter = reporter
    return trainer


def _callback(**options: Any) -> GeometryCallback:
    return GeometryCallback(sentences(12, seed=9), **{"every": 3, "share": None, "collapse": None, **options})


def test_the_attached_callback_logs_at_its_steps_to_every_reporter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    callback = _callback(out=tmp_path / "series")
    trainer = callback.attach(_trainer(tmp_path))
    trainer.train()
    seen = trainer.reporter.seen
    assert [log["step"] for log in seen if KEY in log] == [0, 3, 6]
    assert [log["step"] for log in seen if "loss" in log] == [2, 4, 6], "the Trainer's own logs are all there"
    history = [log["step"] for log in trainer.state.log_history if KEY in log]
    assert history == [0, 3, 6]
    assert all(type(value) in (float, int) for log in seen for value in log.values())
    assert capsys.readouterr().out.count(KEY) == 3
    assert [each.step for each in Series.read(tmp_path / "series").steps] == [0, 3, 6]


def test_as_a_plain_callback_its_numbers_join_the_next_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = _trainer(tmp_path, callbacks=[_callback()])
    trainer.train()
    joined = [log for log in trainer.state.log_history if KEY in log]
    assert [(log["step"], log["geometry/step"]) for log in joined] == [(2, 0.0), (4, 3.0), (6, 6.0)]
    assert capsys.readouterr().out.count(KEY) == 3


def test_unreachable_reporters_are_named(tmp_path: Path) -> None:
    callback, trainer = _callback(), _trainer(tmp_path, max_steps=1)
    trainer.add_callback(callback)
    trainer.args.report_to = ["tensorboard"]
    with pytest.warns(UserWarning, match=r"will not be logged to tensorboard: use callback\.attach\(trainer\)"):
        trainer.train()


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        slow("decoder", {}),
        ("encoder", {"gradient_accumulation_steps": 2}),
        slow("encoder", {"bf16": True, "gradient_accumulation_steps": 2}),
        ("decoder", {"gradient_checkpointing": True, "bf16": True}),
    ],
)
def test_training_is_the_same_with_and_without_the_callback(
    kind: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    found: list[tuple[dict[str, torch.Tensor], list[float]]] = []
    for measured in (False, True):
        trainer = _trainer(tmp_path, kind, **arguments)
        if measured:
            _callback(every=1).attach(trainer)
        trainer.train()
        losses = [log["loss"] for log in trainer.state.log_history if "loss" in log]
        found.append((weights_of(trainer.model), losses))
    assert same_bits(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_a_run_resumed_from_a_checkpoint_continues_its_series(tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 3, "save_total_limit": 5, "logging_steps": 1}
    out = tmp_path / "series"
    _callback(out=out, training_batches=1).attach(_trainer(tmp_path, **saving)).train()
    whole = Series.read(out)
    trainer = _callback(out=out, training_batches=1, resume=True).attach(_trainer(tmp_path, **saving))
    trainer.train(resume_from_checkpoint=str(tmp_path / "trainer" / "checkpoint-3"))
    again = Series.read(out)
    assert [each.step for each in again.steps] == [0, 3, 6]
    assert [each.sha256 for each in again.steps] == [each.sha256 for each in whole.steps]
    for series in (whole, again):  # the last loss is logged after the last measurement, that of step 3 before it
        assert series.tables["training"]["step"].tolist() == [1, 2, 3, 4, 5, 6]
        assert series.tables["training"]["loss"].notna().all()
        assert series.tables["batches"]["step"].unique().tolist() == [3, 6]


def test_the_last_step_is_measured_and_a_skipped_measurement_is_reported(tmp_path: Path) -> None:
    """Six steps leave no time for a second measurement, though one is due at every step."""
    callback = _callback(every=1, share=1e-6)
    trainer = callback.attach(_trainer(tmp_path))
    with pytest.warns(UserWarning, match=r"step 1: a measurement was skipped: it takes .* share=1e-06") as seen:
        trainer.train()
    assert sum("was skipped" in str(each.message) for each in seen) == 1
    assert [log["step"] for log in trainer.state.log_history if KEY in log] == [0, 6]


@pytest.mark.parametrize("attached", [True, slow(False)])
def test_the_last_step_is_measured_when_an_evaluation_stops_the_training(attached: bool, tmp_path: Path) -> None:
    from transformers import TrainerCallback

    class Stop(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_training_stop = state.global_step >= 4

    callback, trainer = _callback(every=3), _trainer(tmp_path, callbacks=[Stop()])
    if attached:
        callback.attach(trainer)
    else:
        trainer.add_callback(callback)
    trainer.train()
    series = callback.probe.series
    assert series is not None
    assert [each.step for each in series.steps] == [0, 3, 4]
    assert sum(KEY in log for log in trainer.state.log_history) == 3


def test_wrong_use_is_rejected_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="attach: expected a transformers Trainer, got a value of type list"):
        _callback().attach([])
    with pytest.raises(
        InputError, match=r"texts requires strings, a file or a catalogue name \(got a value of type NoneType\)"
    ):
        GeometryCallback(None)
