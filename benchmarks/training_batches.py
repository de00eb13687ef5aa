"""Steps of training with and without folding their batches, alternately in one run, on a GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.results import Row, format_seconds
from benchmarks.synthetic import SHAPES, Shape, make_word
from theodolite.integrations import GeometryProbe

BATCHES = {"bert-base": (64, 512), "llama-1b": (8, 2048)}
"""Rows and tokens of a batch, by shape."""
BOUND = 1.03
EVERY = 100  # steps between measurements, over which their time is spread


def compare(shapes: list[str], training_batches: int, device: str, *, small: bool = False) -> dict[str, Any]:
    """Return a row for each shape: the median time of steps with the fold over that of steps without."""
    found: dict[str, Any] = {"rows": []}
    for name in shapes:
        row, found[name] = _compare(name, training_batches, device, small)
        found["rows"].append(row.to_dict())
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
    return found


def _compare(name: str, training_batches: int, device: str, small: bool) -> tuple[Row, dict[str, Any]]:
    shape, (items, tokens) = SHAPES[name], BATCHES[name]
    rounds, steps = 6, 24
    if small:
        shape, items, tokens, rounds, steps = shape.resized(2, 128), 2, 32, 1, 2
    shape = replace(shape, longest=tokens)  # its tokenizer rejects longer texts
    model, step = _make_step(shape, items, tokens, device)
    count = 4096 // tokens + 1
    texts = [" ".join(map(make_word, shape.ids(tokens, seed=seed).tolist())) for seed in range(count)]
    settings: dict[str, Any] = {"max_tokens": tokens, "training_batches": training_batches, "share": None}
    probe = GeometryProbe(texts, shape.make_tokenizer(), **settings)
    _time(step, steps, device)  # fills the memory of the optimizer
    with_fold, without, alone, with_window = [], [], [], []
    for number in range(rounds + 1):
        alone.append(_time(partial(probe.measure, model, 2 * number), 1, device))
        with_fold.append(_time(step, steps, device))
        with_window.append(_time(partial(probe.measure, model, 2 * number + 1), 1, device))
        probe.detach()
        without.append(_time(step, steps, device))
    warm = slice(1, None)  # the first round compiles the kernels of the fold
    ratios = [a / b for a, b in zip(with_fold[warm], without[warm], strict=True)]
    least, probed = statistics.median(without[warm]), statistics.median(alone[warm])
    window = statistics.median(with_window[warm])
    row = Row(
        f"{name}: steps with one batch in {training_batches} folded, over steps without",
        statistics.median(ratios),
        BOUND,
        format_seconds(statistics.median(with_fold[warm])),
        format_seconds(least),
    )
    return row, {
        "batch": [items, tokens],
        "layers": [] if probe.batches is None else list(dict.fromkeys(probe.batches["layer_name"])),
        "ratios": ratios,
        "probe_set_seconds": probed,
        "probe_set_and_window_seconds": window,
        f"window_over_{EVERY}_steps": (window - probed) / (EVERY * least),
    }


def _make_step(shape: Shape, items: int, tokens: int, device: str) -> tuple[Any, Callable[[], None]]:
    """Return a model with random weights and a function that trains it for a step, in bfloat16 autocast."""
    from transformers import BertForMaskedLM, LlamaForCausalLM

    torch.manual_seed(0)
    config = shape.config()
    config.dtype = "float32"
    with torch.device(device):
        model = (LlamaForCausalLM if shape.causal else BertForMaskedLM)(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device.startswith("cuda"))
    ids = torch.from_numpy(shape.ids(8 * items * tokens).reshape(8, items, tokens)).to(device)
    mask = None if shape.causal else _pad(items, tokens).to(device)  # decoders are trained on whole windows
    number = 0

    def step() -> None:
        nonlocal number
        inputs: dict[str, Tensor] = {"input_ids": ids[number % 8], "labels": ids[number % 8]}
        if mask is not None:
            inputs["attention_mask"] = mask
        number += 1
        with torch.autocast("cuda", torch.bfloat16) if device.startswith("cuda") else nullcontext():
            loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return model, step


def _pad(items: int, tokens: int) -> Tensor:
    """Return a mask of rows that are between half and completely full."""
    lengths = np.random.default_rng(0).integers(tokens // 2, tokens, items, endpoint=True)
    return (torch.arange(tokens)[None] < torch.from_numpy(lengths)[:, None]).long()


def _time(work: Callable[[], object], times: int, device: str) -> float:
    """Return the seconds of each of several calls."""

    def wait() -> None:
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    wait()
    started = time.perf_counter()
    for _ in range(times):
        work()
    wait()
    return (time.perf_counter() - started) / times
