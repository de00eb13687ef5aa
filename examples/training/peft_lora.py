"""LoRA with PEFT: the probe measures the model with its adapter.

Also `theodolite dynamics` reads checkpoints of adapters.

pip install peft
python examples/training/peft_lora.py --out series
"""

from __future__ import annotations

import argparse

import torch
from peft import LoraConfig, get_peft_model
from tiny import TEXTS, make_model, make_rows

from theodolite.integrations import GeometryProbe

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=20)
given = parser.parse_args()

model, tokenizer = make_model()
model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
rows = make_rows(tokenizer)
optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=1e-2)
probe = GeometryProbe(TEXTS, tokenizer, every=5, share=None, out=given.out, overwrite=True, weights="whole")
for step in range(given.steps + 1):
    ids = torch.stack([rows[(4 * step + k) % len(rows)]["input_ids"] for k in range(4)])
    loss = model(input_ids=ids, labels=ids).loss
    probe(model, step, loss=loss)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
