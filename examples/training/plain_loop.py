"""A training loop of your own. The probe needs three lines.

python examples/training/plain_loop.py --out series
theodolite view series --follow    # in another terminal
"""

from __future__ import annotations

import argparse

import torch
from tiny import TEXTS, make_model, make_rows

from theodolite.integrations import GeometryProbe

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=20)
given = parser.parse_args()

model, tokenizer = make_model()
rows = make_rows(tokenizer)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
probe = GeometryProbe(TEXTS, tokenizer, every=5, share=None, out=given.out, overwrite=True)
for step in range(given.steps + 1):
    ids = torch.stack([rows[(4 * step + k) % len(rows)]["input_ids"] for k in range(4)])
    loss = model(input_ids=ids, labels=ids).loss
    numbers = probe(model, step, loss=loss, learning_rate=optimizer.param_groups[0]["lr"])
    if numbers:
        print(f"step {step}: loss {loss:.2f}, rank {numbers['geometry/block_2/effective_rank']:.1f}")
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
probe.finish()  # writes the loss of steps after the last measurement
