"""The Trainer of transformers, which logs the geometry wherever it logs its loss.

python examples/training/transformers_trainer.py --out series
"""

from __future__ import annotations

import argparse
from tempfile import TemporaryDirectory

from tiny import TEXTS, make_model, make_rows
from transformers import Trainer, TrainingArguments, default_data_collator

from theodolite.integrations import GeometryCallback

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=20)
given = parser.parse_args()

model, tokenizer = make_model()
with TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, max_steps=given.steps, logging_steps=5, learning_rate=3e-3, report_to="none",
        per_device_train_batch_size=4, save_strategy="no", gradient_checkpointing=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(
        model, arguments, train_dataset=make_rows(tokenizer), data_collator=default_data_collator,
        processing_class=tokenizer,
    )  # fmt: skip
    callback = GeometryCallback(TEXTS, every=5, share=None, out=given.out, overwrite=True)
    callback.attach(trainer).train()
