"""GeometryTracker: a tracker of accelerate that keeps what a script logs in the series of a probe."""

from __future__ import annotations

from typing import Any

from accelerate.tracking import GeneralTracker

from theodolite.integrations.probe import GeometryProbe
from theodolite.studies.number_export.metric_names import PREFIX


class GeometryTracker(GeneralTracker):  # type: ignore[misc] # accelerate is not typed
    """Keeps the numbers that `accelerator.log` gets, such as loss and learning rate, beside the geometry.

    The other direction is `GeometryProbe(..., log=accelerator)`, which logs the geometry to all trackers.

        probe = GeometryProbe(texts, tokenizer, out="series")
        accelerator = Accelerator(log_with=[GeometryTracker(probe), "tensorboard"], project_dir="runs")
        accelerator.init_trackers("run")
        accelerator.log({"loss": loss}, step=step)
        probe(model, step)
    """

    name = "theodolite"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, probe: GeometryProbe) -> None:
        super().__init__()
        self.probe = probe

    @property
    def tracker(self) -> GeometryProbe:
        """The probe."""
        return self.probe

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Ignore the configuration: the series describes the model and the probe set itself."""

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Keep the numbers among the values, except those of a probe."""
        if step is not None:
            numbers = {name: value for name, value in values.items() if _is_number(value)}
            self.probe.record(step, **{k: v for k, v in numbers.items() if not k.startswith(f"{PREFIX}/")})

    def finish(self) -> None:
        """Write the numbers since the last measurement; `accelerator.end_training()` calls it."""
        self.probe.finish()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (hasattr(value, "numel") and value.numel() == 1)
