"""LightningGeometryCallback: a probe for the Trainer of Lightning, which logs to all of its loggers."""

from __future__ import annotations

from typing import Any

from theodolite.errors import InputError, TheodoliteError
from theodolite.integrations.probe import GeometryProbe

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError:
        Callback = object


class LightningGeometryCallback(Callback):  # type: ignore[misc] # Lightning is not always installed
    """Measures the model of a LightningModule while Lightning trains it.

    `probe` is a GeometryProbe, or another probe. `module` is the name of the submodule to measure, such as
    "encoder"; by default the first one with a transformers configuration. Steps are optimizer steps
    (`trainer.global_step`). The first and the last one are always measured. The loss that `training_step` returns
    and the learning rate are kept in the series.

        trainer = Trainer(callbacks=[LightningGeometryCallback(GeometryProbe(texts, tokenizer, out="series"))])
    """

    def __init__(self, probe: GeometryProbe, module: str | None = None) -> None:
        if Callback is object:
            raise TheodoliteError("LightningGeometryCallback requires Lightning: pip install lightning")
        if not isinstance(probe, GeometryProbe):
            raise InputError(f"probe: expected a GeometryProbe, got a value of type {type(probe).__name__}.")
        self.probe, self.module = probe, module
        self._seen: int | None = None  # the last optimizer step

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Measure the model before training."""
        self._seen = trainer.global_step
        self._log(trainer, self.probe.measure(self._find(pl_module), trainer.global_step))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Measure if a measurement is due; batches between optimizer steps are not counted."""
        step = trainer.global_step
        if step == self._seen:
            return
        self._seen = step
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        training = {} if loss is None else {"loss": loss}
        if trainer.optimizers:
            training["learning_rate"] = trainer.optimizers[0].param_groups[0]["lr"]
        self._log(trainer, self.probe(self._find(pl_module), step, **training))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure the last step."""
        if self.probe.last != trainer.global_step:
            self._log(trainer, self.probe.measure(self._find(pl_module), trainer.global_step))
        self.probe.finish()

    def _find(self, pl_module: Any) -> Any:
        if self.module is not None:
            return pl_module.get_submodule(self.module)
        if type(self.probe) is not GeometryProbe:  # a ModuleProbe names its modules itself
            return pl_module
        for part in pl_module.modules():
            if getattr(getattr(part, "config", None), "model_type", None) is not None:
                return part
        raise InputError(
            f"module: {type(pl_module).__name__} contains no transformers model; give the name of the submodule "
            "to measure and a ModuleProbe."
        )

    def _log(self, trainer: Any, numbers: dict[str, float]) -> None:
        if numbers and trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics(numbers, step=self.probe.last)
