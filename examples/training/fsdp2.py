"""A model that `fully_shard` shards over processes. Every process calls the probe; each measures its share.

torchrun --nproc-per-node 2 examples/training/fsdp2.py --out series
torchrun --nproc-per-node 2 examples/training/fsdp2.py --out series --replicate    # DistributedDataParallel
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from tiny import TEXTS, make_model, make_rows
from torch.distributed.fsdp import fully_shard

from theodolite.integrations import GeometryProbe

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--replicate", action="store_true")
given = parser.parse_args()

if not dist.is_initialized():
    dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model, tokenizer = make_model()
if given.replicate:
    model = torch.nn.parallel.DistributedDataParallel(model)
else:
    for block in model.model.layers:
        fully_shard(block)
    fully_shard(model)
rows = make_rows(tokenizer)[rank::size]
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
probe = GeometryProbe(TEXTS, tokenizer, every=2, share=None, out=given.out, overwrite=True)
for step in range(given.steps + 1):
    ids = torch.stack([rows[(4 * step + k) % len(rows)]["input_ids"] for k in range(4)])
    loss = model(input_ids=ids, labels=ids).loss
    numbers = probe(model, step, loss=loss)
    if numbers and rank == 0:
        print(f"step {step}: rank {numbers['geometry/block_2/effective_rank']:.1f}")
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
probe.finish()
