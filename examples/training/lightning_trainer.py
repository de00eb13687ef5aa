"""The Trainer of Lightning.

pip install lightning
python examples/training/lightning_trainer.py --out series
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from tiny import TEXTS, make_model, make_rows
from torch.utils.data import DataLoader

from theodolite.integrations import GeometryProbe, LightningGeometryCallback

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=20)
given = parser.parse_args()


class LanguageModel(LightningModule):
    """A transformers model in a LightningModule."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def training_step(self, batch: dict[str, Any]) -> Any:
        """Return the loss."""
        return self.model(**batch).loss

    def configure_optimizers(self) -> Any:
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


model, tokenizer = make_model()
probe = GeometryProbe(TEXTS, tokenizer, every=5, share=None, out=given.out, overwrite=True)
trainer = Trainer(
    max_steps=given.steps, accelerator="cpu", callbacks=[LightningGeometryCallback(probe)], logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(LanguageModel(model), DataLoader(make_rows(tokenizer), batch_size=4))  # type: ignore[arg-type]
