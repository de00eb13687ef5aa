"""The callback: a probe in transformers' Trainer, whose numbers go wherever the Trainer's own go."""

from __future__ import annotations

import warnings
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from theodolite.errors import InputError
from theodolite.integrations.probe import GeometryProbe


class GeometryCallback(TrainerCallback):  # type: ignore[misc] # transformers is not typed
    """Measures the geometry of the model that a Trainer trains; the arguments are those of `GeometryProbe`.

        callback = GeometryCallback(["a text", "another"], every=500, out="series")
        callback.attach(Trainer(model, arguments, train_dataset=data)).train()

    The Trainer gives its callbacks no way to log, so `attach` tells it which Trainer it is in. Passed as one of
    `callbacks=` instead, it adds its numbers to what the Trainer logs next: they reach the console and
    `state.log_history`, but not TensorBoard and its like, which the Trainer has called by then. Without a
    tokenizer it takes the Trainer's `processing_class`.
    """

    def __init__(self, texts: Any, tokenizer: Any = None, **options: Any) -> None:
        self.probe = GeometryProbe(texts, tokenizer, **options)
        self.trainer: Trainer | None = None
        self._waiting: dict[str, float] = {}

    def attach(self, trainer: Trainer) -> Trainer:
        """Put the callback into the Trainer, and have it log through it; return the Trainer."""
        if not hasattr(trainer, "callback_handler"):
            raise InputError(
                f"attach: wanted a Trainer of transformers, but a value of type {type(trainer).__name__} came."
            )
        if self not in trainer.callback_handler.callbacks:
            trainer.add_callback(self)
        self.trainer = trainer
        return trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the model as it begins: what collapse is told from."""
        _check_whole(args)
        if self.probe.tokenizer is None:
            self.probe.tokenizer = kwargs.get("processing_class")
        elsewhere = [name for name in args.report_to or [] if name != "none"]
        if self.trainer is None and elsewhere and state.is_world_process_zero:
            warnings.warn(
                f"the geometry will not reach {', '.join(elsewhere)}: use callback.attach(trainer) instead of "
                "Trainer(callbacks=[callback])",
                UserWarning,
                stacklevel=2,
            )
        if state.is_world_process_zero and self.probe.last != state.global_step:
            self._log(self.probe.measure(kwargs["model"], state.global_step), control)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure if it is due."""
        if state.is_world_process_zero:
            self._log(self.probe(kwargs["model"], state.global_step), control)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Without a Trainer to log through, join what is logged anyway."""
        if self._waiting and logs is not None:
            logs |= self._waiting
            if state.log_history:
                state.log_history[-1] |= self._waiting
            self._waiting = {}

    def _log(self, numbers: dict[str, float], control: TrainerControl) -> None:
        if not numbers:
            return
        if self.trainer is None:
            self._waiting = numbers | {"geometry/step": float(self.probe.last or 0)}
            return
        # Logging takes the Trainer's own wish to log at this step back: it would lose its loss.
        wished = control.should_log
        self.trainer.log(numbers)
        control.should_log = wished


def _check_whole(args: TrainingArguments) -> None:
    """Refuse a training in which no process has the whole model."""
    for name in ("deepspeed", "fsdp"):
        if getattr(args, name, None):
            raise InputError(
                f"GeometryCallback cannot measure under {name}, which spreads the weights over processes; survey "
                "the checkpoints with `theodolite dynamics` instead."
            )
