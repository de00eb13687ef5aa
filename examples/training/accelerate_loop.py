"""A loop with accelerate: the geometry goes to its trackers, and what it tracks goes to the series.

python examples/training/accelerate_loop.py --out series
accelerate launch --num_processes 2 --cpu examples/training/accelerate_loop.py --out series
"""

from __future__ import annotations

import argparse

import torch
from accelerate import Accelerator
from tiny import TEXTS, make_model, make_rows
from torch.utils.data import DataLoader

from theodolite.integrations import GeometryProbe, GeometryTracker

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=20)
given = parser.parse_args()

model, tokenizer = make_model()
probe = GeometryProbe(TEXTS, tokenizer, every=5, share=None, out=given.out, overwrite=True)
accelerator = Accelerator(cpu=True, log_with=[GeometryTracker(probe)], gradient_accumulation_steps=2)
accelerator.init_trackers("example")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
loader = DataLoader(make_rows(tokenizer), batch_size=4)  # type: ignore[arg-type]
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
step = 0
while step < given.steps:
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:  # after an optimizer step
            step += 1
            accelerator.log({"loss": loss.item()}, step=step)
            accelerator.log(probe(model, step), step=step)
        if step == given.steps:
            break
accelerator.end_training()
