"""A model that DeepSpeed shards over processes (ZeRO-3). Every process calls the probe; each measures its share.

deepspeed --num_gpus 2 examples/training/deepspeed_zero3.py --out series
"""

from __future__ import annotations

import argparse

import deepspeed
import torch
import torch.distributed as dist
from tiny import TEXTS, make_model, make_rows

from theodolite.integrations import GeometryProbe

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--local_rank", type=int, default=0, help="given by the launcher")
given = parser.parse_args()

deepspeed.init_distributed(dist_backend="nccl" if torch.cuda.is_available() else "gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model, tokenizer = make_model()
config = {
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 3},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
}
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
rows = make_rows(tokenizer)[rank::size]
probe = GeometryProbe(TEXTS, tokenizer, every=2, share=None, out=given.out, overwrite=True)
for step in range(given.steps + 1):
    ids = torch.stack([rows[(4 * step + k) % len(rows)]["input_ids"] for k in range(4)]).to(engine.device)
    loss = engine(input_ids=ids, labels=ids).loss
    numbers = probe(engine, step, loss=loss)
    if numbers and rank == 0:
        print(f"step {step}: rank {numbers['geometry/block_2/effective_rank']:.1f}")
    engine.backward(loss)
    engine.step()
