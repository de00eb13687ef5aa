"""The callback of Lightning: its steps, its loggers, gradient accumulation, and that training is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.integrations.tiny_training import rows_of, same_bits, tiny, weights_of
from tests.shared import slow
from tests.small_models import sentences

from theodolite.errors import InputError

pytest.importorskip("lightning")
pytestmark = pytest.mark.filterwarnings("ignore")


def _fit(tmp_path: Path, measured: bool, **options: Any) -> tuple[Any, Any, list[tuple[int, dict[str, float]]]]:
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.loggers.logger import DummyLogger
    from torch.utils.data import DataLoader

    from theodolite.integrations import GeometryProbe, LightningGeometryCallback

    model, tokenizer = tiny("decoder", dropout=0.1)

    class Module(LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Any) -> Any:
            return self.model(input_ids=batch, labels=batch).loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    seen: list[tuple[int, dict[str, float]]] = []

    class Logger(DummyLogger):  # type: ignore[misc]
        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            seen.append((step or 0, metrics))

    probe = GeometryProbe(sentences(8), tokenizer, every=2, share=None, out=tmp_path / "s", overwrite=True)
    torch.manual_seed(3)
    trainer = Trainer(
        accelerator="cpu",
        max_steps=5,
        logger=Logger(),
        callbacks=[LightningGeometryCallback(probe)] if measured else [],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
        **options,
    )
    ids = torch.tensor([row["input_ids"] for row in rows_of(tokenizer)])
    trainer.fit(Module(), DataLoader(ids, batch_size=2))  # type: ignore[arg-type]
    return model, probe, seen


@pytest.mark.parametrize("accumulate", [slow(1), 2])
def test_it_measures_optimizer_steps_and_changes_nothing(accumulate: int, tmp_path: Path) -> None:
    model, probe, seen = _fit(tmp_path, True, accumulate_grad_batches=accumulate)
    assert [each.step for each in probe.series.steps] == [0, 2, 4, 5]
    logged = [step for step, numbers in seen if "geometry/block_2/effective_rank" in numbers]
    assert logged == [0, 2, 4, 5]
    training = probe.series.tables["training"]
    assert training["step"].tolist() == [1, 2, 3, 4, 5]
    assert training["loss"].notna().all()
    assert (training["learning_rate"] == 0.1).all()
    alone, _, _ = _fit(tmp_path, False, accumulate_grad_batches=accumulate)
    assert same_bits(weights_of(model), weights_of(alone))


def test_another_value_than_a_probe_is_rejected() -> None:
    from theodolite.integrations import LightningGeometryCallback

    with pytest.raises(InputError, match="probe: expected a GeometryProbe, got a value of type list"):
        LightningGeometryCallback(["texts"])  # type: ignore[arg-type]
