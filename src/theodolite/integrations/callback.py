"""GeometryCallback: a GeometryProbe for the transformers Trainer, which logs like the Trainer itself."""

from __future__ import annotations

from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from theodolite.errors import InputError
from theodolite.integrations.probe import GeometryProbe
from theodolite.integrations.user_warnings import warn_user

TRAINING = ("loss", "learning_rate", "grad_norm", "eval_loss")
"""The numbers of the Trainer's log that the series keeps."""


class GeometryCallback(TrainerCallback):  # type: ignore[misc] # transformers is not typed
    """Measures the geometry of the model that a Trainer trains. The arguments are those of `GeometryProbe`.

        callback = GeometryCallback(["a text", "another"], every=500, out="series")
        callback.attach(Trainer(model, arguments, train_dataset=data)).train()

    A callback cannot log by itself, so `attach` gives it the Trainer. If it is passed as one of `callbacks=`
    instead, its numbers are added to the next entry that the Trainer logs: they reach the console and
    `state.log_history`, but not TensorBoard, Weights & Biases and other loggers, which were called before. The
    default tokenizer is the Trainer's `processing_class`. The first and the last step are always measured. The
    series also keeps the loss and the learning rate that the Trainer logs. Works with DistributedDataParallel,
    FSDP and DeepSpeed, where each process measures its share; and in subclasses, such as the Trainer of
    sentence-transformers.
    """

    def __init__(self, texts: Any, tokenizer: Any = None, **options: Any) -> None:
        self.probe = GeometryProbe(texts, tokenizer, **options)
        self.trainer: Trainer | None = None
        self._pending: dict[str, float] = {}

    def attach(self, trainer: Trainer) -> Trainer:
        """Add the callback to the Trainer, so that it can log through it; return the Trainer."""
        if not hasattr(trainer, "callback_handler"):
            raise InputError(
                f"attach: expected a transformers Trainer, got a value of type {type(trainer).__name__}."
            )
        if self not in trainer.callback_handler.callbacks:
            trainer.add_callback(self)
        self.trainer = trainer
        return trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the model before training: collapse is judged by comparison with this measurement."""
        if self.probe.tokenizer is None:
            self.probe.tokenizer = kwargs.get("processing_class")
        loggers = [name for name in args.report_to or [] if name != "none"]
        if self.trainer is None and loggers and state.is_world_process_zero:
            warn_user(
                f"the geometry will not be logged to {', '.join(loggers)}: use callback.attach(trainer) instead "
                "of Trainer(callbacks=[callback])"
            )
        if self.probe.last != state.global_step:
            self._log(self.probe.measure(kwargs["model"], state.global_step), control)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure if a measurement is due, and at the last step."""
        if control.should_training_stop and self.probe.last != state.global_step:
            self._log(self.probe.measure(kwargs["model"], state.global_step), control)
        else:
            self._log(self.probe(kwargs["model"], state.global_step), control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the last step if training was stopped after it, for instance by an evaluation."""
        if self.probe.last != state.global_step:
            self._log(self.probe.measure(kwargs["model"], state.global_step), control)
        self.probe.finish()
        if self._pending and state.log_history:  # nothing more will be logged
            state.log_history[-1] |= self._pending
            self._pending = {}

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep the loss and learning rate; without an attached Trainer, add the numbers to the logged entry."""
        given = logs or {}
        self.probe.record(state.global_step, **{name: given[name] for name in TRAINING if name in given})
        if self._pending and logs is not None:
            logs |= self._pending
            if state.log_history:
                state.log_history[-1] |= self._pending
            self._pending = {}

    def _log(self, numbers: dict[str, float], control: TrainerControl) -> None:
        if not numbers:
            return
        if self.trainer is None:
            self._pending = numbers | {"geometry/step": float(self.probe.last or 0)}
            return
        # Logging resets should_log: without restoring it, the Trainer would not log its loss at this step.
        should_log = control.should_log
        self.trainer.log(numbers)
        control.should_log = should_log
