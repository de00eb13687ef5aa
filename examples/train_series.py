"""Train a small byte-level decoder and a small encoder from scratch, keeping a dozen log-spaced checkpoints.

    python examples/train_series.py --out series                                # two to three minutes on two cores
    python examples/train_series.py --out series --size large --device cuda     # minutes on a GPU

Each checkpoint is a folder that transformers, `theodolite survey` and `theodolite dynamics` can read. A
GeometryProbe in the training loop measures the same steps and writes decoder-series and encoder-series.
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

from theodolite.corpora.text_corpus import open_corpus
from theodolite.integrations import GeometryProbe, Thresholds

CHECKPOINTS = 12
HELD_OUT = 0.02  # share of the documents that is held out, for the probe and for surveys
MASKED = 0.3


@dataclass(frozen=True)
class Size:
    """The size of the model and of the text, and the number of steps."""

    blocks: int
    dim: int
    heads: int
    window: int  # bytes
    batch: int  # windows per step
    steps: int
    rate: float
    megabytes: float


SIZES = {
    "tiny": Size(2, 32, 2, 64, 4, 40, 3e-3, 0.2),  # for a test that this script runs
    "small": Size(4, 128, 4, 128, 16, 400, 3e-3, 5),
    "large": Size(8, 512, 8, 512, 64, 3000, 1e-3, 28),
}


def bytes_tokenizer(window: int) -> Any:
    """Return a tokenizer of bytes: id = byte + 3, and one more id as the mask."""
    return ByT5Tokenizer(extra_ids=1, mask_token="<extra_id_0>", model_max_length=window)


def read(corpus: str, megabytes: float, tokenizer: Any) -> tuple[Tensor, list[str]]:
    """Return the text as one row of ids with an end token after every document, and the held-out documents."""
    rows, held_out, size, held_out_size = [], [], 0, 0
    for number, text in open_corpus(corpus).documents():
        raw = text.encode("utf-8", "replace")
        if number % round(1 / HELD_OUT) == 0:
            held_out.append(text)
            held_out_size += len(raw)
            continue
        rows.append(np.append(np.frombuffer(raw, np.uint8).astype(np.int16) + 3, np.int16(tokenizer.eos_token_id)))
        size += len(raw)
        if size >= megabytes * 1e6:
            break
    print(f"{corpus}: {size / 1e6:.1f} MB to train on, {held_out_size / 1e6:.2f} MB held out", flush=True)
    return torch.from_numpy(np.concatenate(rows)), held_out


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

    Learning from masked bytes is slow: with the usual initial standard deviation of 0.02, or with learned
    positions as in BERT, a model of this size learns only byte frequencies in 300 steps. Larger initial weights
    and rotary positions avoid that.
    """
    rotary = {"rope_type": "default", "rope_theta": 100.0}
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), tokenizer.eos_token_id)
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.dim,
        num_hidden_layers=size.blocks,
        num_attention_heads=size.heads,
        intermediate_size=2 * size.dim,
        max_position_embeddings=size.window,
        global_attn_every_n_layers=1,
        rope_parameters={"full_attention": rotary, "sliding_attention": rotary},
        initializer_range=0.7 / math.sqrt(size.dim),
        pad_token_id=tokenizer.pad_token_id,
        **ends,
    )
    return ModernBertForMaskedLM(config)


def next_byte(ids: Tensor, tokenizer: Any, generator: torch.Generator) -> dict[str, Tensor]:
    """Return the inputs of a decoder; the library shifts the labels by one."""
    return {"input_ids": ids, "labels": ids}


def masked_bytes(ids: Tensor, tokenizer: Any, generator: torch.Generator) -> dict[str, Tensor]:
    """Return the inputs of an encoder: some bytes are masked, and the loss is over these."""
    masked = torch.rand(ids.shape, generator=generator) < MASKED
    labels = ids.masked_fill(~masked, -100)
    return {"input_ids": ids.masked_fill(masked, tokenizer.mask_token_id), "labels": labels}


Inputs = Callable[[Tensor, Any, torch.Generator], dict[str, Tensor]]
KINDS: dict[str, tuple[Callable[[Size, Any], Any], Inputs]] = {
    "decoder": (decoder, next_byte),
    "encoder": (encoder, masked_bytes),
}


def checkpoints(steps: int) -> list[int]:
    """Return step 0 and then log-spaced steps up to the last one.

    >>> checkpoints(400)
    [0, 1, 2, 3, 6, 11, 20, 36, 66, 121, 220, 400]
    """
    count = CHECKPOINTS - 1
    found = {0}
    while len(found) < CHECKPOINTS and count <= steps:  # early steps coincide after rounding
        found = {0, *np.geomspace(1, steps, count).round().astype(int).tolist()}
        count += 1
    return sorted(found)


def train(kind: str, size: Size, text: Tensor, held_out: list[str], out: Path, device: str, seed: int) -> None:
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
    # Early checkpoints are close together, in a phase in which all states are nearly equal: use more patience.
    probe = GeometryProbe(
        held_out,
        tokenizer,
        name=kind,
        layers="all",
        dimension=True,
        collapse=Thresholds(patience=5),
        out=out / f"{kind}-series",
        overwrite=True,
    )
    steps, losses, started = checkpoints(size.steps), [], time.perf_counter()
    print(f"{kind}: {sum(p.numel() for p in model.parameters()):,} weights, checkpoints at {steps}", flush=True)
    for step in range(size.steps + 1):
        if step in steps:
            folder = out / kind / f"step-{step}"
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            numbers = probe.measure(model, step)
            loss = sum(losses[-20:]) / len(losses[-20:]) / math.log(2) if losses else float("nan")
            _print_step(step, loss, numbers, size.blocks, time.perf_counter() - started)
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
    print(f"{kind}: measuring the {len(steps)} checkpoints took {probe.budget.spent:.0f} s", flush=True)


def _rate(step: int, warm: int, steps: int) -> float:
    """Return the factor of the learning rate: linear warm-up, then cosine decay to 0.1."""
    if step < warm:
        return (step + 1) / warm
    return 0.55 + 0.45 * math.cos(math.pi * (step - warm) / max(steps - warm, 1))


def _print_step(step: int, bits: float, numbers: dict[str, float], blocks: int, seconds: float) -> None:
    values = {
        name: numbers.get(f"geometry/block_{blocks}/{name}", float("nan"))
        for name in ("mean_cosine", "anisotropy_svd", "effective_rank")
    }
    last = "  ".join(f"{name} {value:.3f}" for name, value in values.items())
    loss = "     –" if math.isnan(bits) else f"{bits:6.3f}"  # there is no loss before the first step
    print(f"  step {step:>6}  {loss} bits per byte  block {blocks}: {last}  {seconds:6.1f} s", flush=True)


def main() -> None:
    """Read the text once and train the chosen models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints and series")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--model", choices=[*KINDS, "both"], default="both")
    parser.add_argument("--corpus", default="enwik8-clean", help="a catalogue name or a file")
    parser.add_argument("--steps", type=int, help="number of steps; default: that of the size")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the tokenizer would warn about every document longer than a window
    size = SIZES[given.size]
    size = replace(size, steps=given.steps or size.steps)
    given.out.mkdir(parents=True, exist_ok=True)
    text, held_out = read(given.corpus, size.megabytes, bytes_tokenizer(size.window))
    lines = [json.dumps({"text": document}, ensure_ascii=False) for document in held_out]
    (given.out / "held-out.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for kind in KINDS if given.model == "both" else [given.model]:
        train(kind, size, text, held_out, given.out, given.device, given.seed)


if __name__ == "__main__":
    main()
