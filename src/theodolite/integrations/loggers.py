"""Where numbers are logged: TensorBoard, Weights & Biases, MLflow, trackio, accelerate, or any function."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from theodolite.errors import InputError

Logger = Callable[[dict[str, float], int], None]


def make_logger(target: Any) -> Logger:
    """Return a function that logs numbers at a step.

    `target` is a SummaryWriter of TensorBoard; a run of wandb or trackio, or one of these modules; the mlflow
    module; an Accelerator; or a function of numbers and step. Several may be given as a list.

    >>> seen = []
    >>> make_logger([lambda numbers, step: seen.append((step, numbers))])({"geometry/alarms": 0.0}, 7)
    >>> seen
    [(7, {'geometry/alarms': 0.0})]
    """
    if isinstance(target, list | tuple):
        several = [make_logger(each) for each in target]

        def log_to_all(numbers: dict[str, float], step: int) -> None:
            for log in several:
                log(numbers, step)

        return log_to_all
    if hasattr(target, "add_scalar"):

        def log_scalars(numbers: dict[str, float], step: int) -> None:
            for name, value in numbers.items():
                target.add_scalar(name, value, global_step=step)

        return log_scalars
    if hasattr(target, "log_metrics"):
        return lambda numbers, step: target.log_metrics(numbers, step=step)
    if hasattr(target, "log") and not isinstance(target, logging.Logger):
        return lambda numbers, step: target.log(numbers, step=step)
    if callable(target):
        return lambda numbers, step: target(numbers, step)
    raise InputError(
        f"log: cannot log to a value of type {type(target).__name__}; give a SummaryWriter, a run of wandb or "
        "trackio, the module mlflow, an Accelerator, or a function of numbers and step."
    )
