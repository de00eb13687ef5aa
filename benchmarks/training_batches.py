"""Steps of training with and without `training_batches`, alternately in one run.

    python -m benchmarks.training_batches --device cuda                        # the shape of BERT-base, one minute
    python -m benchmarks.training_batches --device cuda --shapes llama-160m

A model with random weights is trained with AdamW, in bfloat16 autocast on a GPU. Rounds of steps with the hooks
and without them alternate, each first equally often. Every round with hooks starts a window, so that making its
sums, which a run does once per measurement, is part of the time. Prints a line of JSON for each shape; progress
goes to stderr. Rounds end when the next one would not fit into --seconds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.results import Row, describe_machine, format_seconds, get_machine
from benchmarks.synthetic import SHAPES, Shape, make_word
from theodolite.integrations import GeometryProbe
from theodolite.integrations.training_batches import TrainingBatches
from theodolite.statistics.frame import Frame

LLAMA_160M = Shape("llama-160m", 12, 768, 12, 3072, 32_000, 0, 512, 512, key_heads=12)
MODELS = {
    "bert-base": (SHAPES["bert-base"], 32, 512),
    "llama-160m": (LLAMA_160M, 32, 512),
    "llama-1b": (SHAPES["llama-1b"], 8, 2048),
}
"""Shape, and rows and tokens of a batch."""
BOUND = 1.03
ROUNDS, STEPS = 8, 24
LEAST_ROUNDS, WINDOWS = 2, 3
EVERY = 100  # steps between measurements, over which the time of a table is spread


def run(
    quick: bool = False,
    training_batches: int = 8,
    device: str = "cpu",
    shapes: str = "bert-base",
    seconds: float = 60.0,
) -> dict[str, Any]:
    """Return a row for each shape, and its details: the median over rounds of the ratio of the times of a step."""
    names = shapes.split(",")
    found: dict[str, Any] = {"rows": []}
    for name in names:
        row, found[name] = _compare(name, training_batches, device, quick, seconds / len(names))
        found["rows"].append(row.to_dict())
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
    return found


def _compare(
    name: str, training_batches: int, device: str, quick: bool, seconds: float
) -> tuple[Row, dict[str, Any]]:
    began = time.perf_counter()

    def report(what: str) -> None:
        print(f"{name}, {time.perf_counter() - began:.0f} s: {what}", file=sys.stderr, flush=True)

    shape, items, tokens = MODELS[name]
    rounds, steps = ROUNDS, STEPS
    if quick:
        shape, items, tokens, rounds, steps = shape.resized(2, 128), 2, 32, LEAST_ROUNDS, 3
    shape = replace(shape, longest=tokens)  # its tokenizer rejects longer texts
    model, step = _make_step(shape, items, tokens, device)
    texts = [" ".join(map(make_word, shape.ids(tokens, seed=seed).tolist())) for seed in range(2048 // tokens + 1)]
    settings: dict[str, Any] = {"max_tokens": tokens, "training_batches": training_batches}
    settings |= {"share": None, "weights": "none"}
    probe = GeometryProbe(texts, shape.make_tokenizer(), **settings)
    _time(step, 2, device)  # fills the memory of the optimizer
    report("the model is trained; the probe set is measured")
    probe.measure(model, 0)
    batches = probe._batches
    assert batches is not None
    frames = batches._frames
    report("first steps with the hooks; Triton compiles kernels")
    _time(step, 2 * training_batches, device)
    _time(partial(probe.measure, model, 1), 1, device)
    batches.detach()
    spent: dict[bool, list[float]] = {True: [], False: []}
    folded = 0
    for number in range(rounds):
        started = time.perf_counter()
        for with_hooks in (number % 2 == 0, number % 2 == 1):
            if with_hooks:
                batches.start(frames)
                batches.attach()
            spent[with_hooks].append(_time(step, steps, device))
            if with_hooks:
                folded += batches._folded
                batches.detach()
        taken = time.perf_counter() - started
        report(f"round {number + 1} of {rounds}: {spent[True][-1] / spent[False][-1]:.4f}")
        if number + 1 >= LEAST_ROUNDS and time.perf_counter() - began + 1.5 * taken > seconds:
            break
    ratios = [a / b for a, b in zip(spent[True], spent[False], strict=True)]
    ours, theirs = (statistics.median(spent[which]) for which in (True, False))
    row = Row(
        f"{name}: steps with one batch in {training_batches} folded, over steps without",
        statistics.median(ratios),
        BOUND,
        format_seconds(ours),
        format_seconds(theirs),
    )
    extra = statistics.mean(spent[True]) - statistics.mean(spent[False])
    table = _time_tables(batches, frames, probe.populations, step, training_batches, device)
    return row, {
        "ratios": ratios,
        "batch": [items, tokens],
        "layers": list(dict.fromkeys(probe.batches["layer_name"])) if probe.batches is not None else [],
        "step_seconds": theirs,
        "folded_of_steps": [folded, steps * len(ratios)],
        "seconds_per_folded_pass": extra * steps * len(ratios) / max(folded, 1),
        "seconds_per_table": table,
        f"table_over_{EVERY}_steps": table / (EVERY * theirs),
        "seconds": time.perf_counter() - began,
    }


def _time_tables(
    batches: TrainingBatches,
    frames: Mapping[int, Frame],
    populations: Sequence[str],
    step: Callable[[], None],
    training_batches: int,
    device: str,
) -> float:
    """Return the seconds that the table of a window takes: the median of some windows."""
    batches.attach()
    spent = []
    for _ in range(WINDOWS):
        batches.start(frames)
        _time(step, 2 * training_batches, device)
        spent.append(_time(partial(batches.finish, populations), 1, device))
    batches.detach()
    return statistics.median(spent)


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


def main() -> None:
    """Print a line of JSON for each shape."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small size that only checks that it runs")
    parser.add_argument("--training-batches", type=int, default=8, metavar="N", help="fold one in N passes")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shapes", default="bert-base", help=f"of: {', '.join(MODELS)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it may take, all shapes together")
    chosen = vars(parser.parse_args())
    unknown = sorted(set(chosen["shapes"].split(",")) - MODELS.keys())
    if unknown:
        parser.error(f"--shapes: unknown {', '.join(unknown)}; known: {', '.join(MODELS)}")
    if chosen["device"].startswith("cuda") and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU here")
    found = run(**chosen)
    machine = describe_machine(get_machine())
    for row, name in zip(found["rows"], chosen["shapes"].split(","), strict=True):
        print(json.dumps({"shape": name, **row, **found[name], "machine": machine}))


if __name__ == "__main__":
    main()
