"""Train a small byte-level decoder and a small encoder from scratch, keeping a dozen log-spaced checkpoints.

    python examples/train_series.py --out series                                # two to three minutes on two cores
    python examples/train_series.py --out series --size large --device cuda     # minutes on a GPU

Each checkpoint is a folder that transformers opens and `theodolite survey` and `theodolite dynamics` read. A
GeometryProbe in the loop measures the same steps as they pass, and leaves decoder-series and encoder-series there.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import ByT5Tokenizer, LlamaConfig, LlamaForCausalLM, ModernBertConfig, ModernBertForMaskedLM
from transformers.utils import logging

from theodolite.integrations import GeometryProbe, Thresholds
from theodolite.sources.corpus import open_corpus

CHECKPOINTS = 12
HELD_OUT = 0.02  # of the text: for the probe, the losses that are printed, and surveys
MASKED = 0.3


@dataclass(frozen=True)
class Size:
    """How large a model, on how much text, for how long."""

    blocks: int
    dim: int
    heads: int
    window: int  # bytes
    batch: int  # windows a step
    steps: int
    rate: float
    megabytes: float


SIZES = {
    "tiny": Size(2, 32, 2, 64, 4, 40, 3e-3, 0.2),  # for a test that this script runs
    "small": Size(4, 128, 4, 128, 16, 400, 3e-3, 5),
    "large": Size(8, 512, 8, 512, 64, 3000, 1e-3, 28),
}


def bytes_tokenizer(window: int) -> Any:
    """Return a tokenizer of bytes: id = byte + 3, then one more that masks."""
    return ByT5Tokenizer(extra_ids=1, mask_token="<extra_id_0>", model_max_length=window)


def read(corpus: str, megabytes: float, tokenizer: Any) -> tuple[Tensor, list[str]]:
    """Return the text as one row of ids, an end mark after every document, and the documents held out."""
    rows, held, size, apart = [], [], 0, 0
    for number, text in open_corpus(corpus).documents():
        raw = text.encode("utf-8", "replace")
        if number % round(1 / HELD_OUT) == 0:
            held.append(text)
            apart += len(raw)
            continue
        rows.append(np.append(np.frombuffer(raw, np.uint8).astype(np.int16) + 3, np.int16(tokenizer.eos_token_id)))
        size += len(raw)
        if size >= megabytes * 1e6:
            break
    print(f"{corpus}: {size / 1e6:.1f} MB to train on, {apart / 1e6:.2f} MB held out", flush=True)
    return torch.from_numpy(np.concatenate(rows)), held


def decoder(size: Size, tokenizer: Any) -> Any:
    """Return a Llama with random weights."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.dim,
        num_hidden_layers=size.blocks,
        num_attention_heads=size.heads,
        intermediate_size=8 * size.dim // 3,
        max_position_embeddings=size.window,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)


def encoder(size: Size, tokenizer: Any) -> Any:
    """Return a ModernBERT with random weights.

    Masked bytes teach slowly: with the usual initial spread of 0.02, or with BERT's learned positions, a model of
    this size knows after 300 steps only how frequent each byte is. Larger weights and turning positions mend that.
    """
    turning = {"rope_type": "default", "rope_theta": 100.0}
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), tokenizer.eos_token_id)
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.dim,
        num_hidden_layers=size.blocks,
        num_attention_heads=size.heads,
        intermediate_size=2 * size.dim,
        max_position_embeddings=size.window,
        global_attn_every_n_layers=1,
        rope_parameters={"full_attention": turning, "sliding_attention": turning},
        initializer_range=0.7 / math.sqrt(size.dim),
        pad_token_id=tokenizer.pad_token_id,
        **ends,
    )
    return ModernBertForMaskedLM(config)


def next_byte(ids: Tensor, tokenizer: Any, generator: torch.Generator) -> dict[str, Tensor]:
    """Return a decoder's inputs: the library moves the labels on by one itself."""
    return {"input_ids": ids, "labels": ids}


def masked_bytes(ids: Tensor, tokenizer: Any, generator: torch.Generator) -> dict[str, Tensor]:
    """Return an encoder's inputs: some bytes masked, and only they are asked for."""
    masked = torch.rand(ids.shape, generator=generator) < MASKED
    labels = ids.masked_fill(~masked, -100)
    return {"input_ids": ids.masked_fill(masked, tokenizer.mask_token_id), "labels": labels}


Inputs = Callable[[Tensor, Any, torch.Generator], dict[str, Tensor]]
KINDS: dict[str, tuple[Callable[[Size, Any], Any], Inputs]] = {
    "decoder": (decoder, next_byte),
    "encoder": (encoder, masked_bytes),
}


def checkpoints(steps: int) -> list[int]:
    """Return the untrained model and then steps evenly spaced in their logarithm, the last included.

    >>> checkpoints(400)
    [0, 1, 2, 3, 6, 11, 20, 36, 66, 121, 220, 400]
    """
    count = CHECKPOINTS - 1
    found = {0}
    while len(found) < CHECKPOINTS and count <= steps:  # early ones fall together and are counted once
        found = {0, *np.geomspace(1, steps, count).round().astype(int).tolist()}
        count += 1
    return sorted(found)


def train(kind: str, size: Size, text: Tensor, held: list[str], out: Path, device: str, seed: int) -> None:
    """Train one model, saving it and measuring it at every checkpoint."""
    make, inputs_of = KINDS[kind]
    torch.manual_seed(seed)
    tokenizer = bytes_tokenizer(size.window)
    model = make(size, tokenizer).to(device).train()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=size.rate, weight_decay=0.1, betas=(0.9, 0.95))
    warm = max(size.steps // 20, 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, warm, size.steps))
    cast = torch.autocast("cuda", torch.bfloat16) if device.startswith("cuda") else nullcontext()
    # Early checkpoints stand close together, in the phase in which every state is nearly the same: more patience.
    probe = GeometryProbe(
        held,
        tokenizer,
        name=kind,
        layers="all",
        dimension=True,
        collapse=Thresholds(patience=5),
        out=out / f"{kind}-series",
        overwrite=True,
    )
    wanted, losses, began = checkpoints(size.steps), [], time.perf_counter()
    print(f"{kind}: {sum(p.numel() for p in model.parameters()):,} weights, checkpoints at {wanted}", flush=True)
    for step in range(size.steps + 1):
        if step in wanted:
            folder = out / kind / f"step-{step}"
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            found = probe.measure(model, step)
            loss = sum(losses[-20:]) / len(losses[-20:]) / math.log(2) if losses else float("nan")
            _tell(step, loss, found, size.blocks, time.perf_counter() - began)
        if step == size.steps:
            break
        starts = torch.randint(len(text) - size.window, (size.batch,), generator=generator)
        ids = torch.stack([text[start : start + size.window] for start in starts]).long()
        batch = {name: value.to(device) for name, value in inputs_of(ids, tokenizer, generator).items()}
        with cast:
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item() if step % 10 == 0 or device == "cpu" else losses[-1])
    bits = [round(loss / math.log(2), 4) for loss in losses]
    (out / f"{kind}-losses.json").write_text(json.dumps({"bits_per_byte": bits}) + "\n")
    print(f"{kind}: measuring the {len(wanted)} checkpoints took {probe.budget.spent:.0f} s in all", flush=True)


def _rate(step: int, warm: int, steps: int) -> float:
    """Return the share of the full learning rate: up in a line, down along a cosine to a tenth."""
    if step < warm:
        return (step + 1) / warm
    return 0.55 + 0.45 * math.cos(math.pi * (step - warm) / max(steps - warm, 1))


def _tell(step: int, bits: float, found: dict[str, float], blocks: int, seconds: float) -> None:
    names = ("mean_cosine", "anisotropy_svd", "effective_rank")
    last = "  ".join(f"{name} {found.get(f'geometry/block_{blocks}/{name}', float('nan')):.3f}" for name in names)
    told = "     –" if math.isnan(bits) else f"{bits:6.3f}"  # untrained, nothing has been lost yet
    print(f"  step {step:>6}  {told} bits a byte  block {blocks}: {last}  {seconds:6.1f} s", flush=True)


def main() -> None:
    """Read the text once and train what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints and series")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--model", choices=[*KINDS, "both"], default="both")
    parser.add_argument("--corpus", default="enwik8-clean", help="a name of the catalogue or a file")
    parser.add_argument("--steps", type=int, help="instead of the size's own")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the tokenizer would tell of every document longer than a window
    size = SIZES[given.size]
    size = replace(size, steps=given.steps or size.steps)
    given.out.mkdir(parents=True, exist_ok=True)
    text, held = read(given.corpus, size.megabytes, bytes_tokenizer(size.window))
    lines = [json.dumps({"text": document}, ensure_ascii=False) for document in held]
    (given.out / "held-out.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for kind in KINDS if given.model == "both" else [given.model]:
        train(kind, size, text, held, given.out, given.device, given.seed)


if __name__ == "__main__":
    main()
