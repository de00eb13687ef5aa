"""How often the alarms of a probe are right: healthy runs of many seeds, and runs in which a fault is planted.

    python -m benchmarks.alarms --seeds 20 --first-seed 100 --json alarms.json

A byte-level decoder (Llama) and encoder (BERT) of two blocks are trained from scratch for 84 steps and measured
at every sixth, with the default thresholds. Faults are planted after half of the steps. An alarm in a healthy run,
or before the fault, is false. A fault is found if the alarm that names it is raised within eight measurements.
The default thresholds were chosen with the seeds 0 to 9: count with others.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.workload import make_sentences
from theodolite.integrations import GeometryProbe

STEPS, EVERY, WINDOW, BATCH, DIM = 84, 6, 32, 8, 32
PLANTED = STEPS // 2
KINDS = ("decoder", "encoder")
FAULTS = ("healthy", "collapse", "dead", "norm", "sinks", "attention", "logits")
LONGER = {"attention": 1000, "logits": 50}  # what the queries of the second block are multiplied with
DOCUMENTS = 4  # on which attention is measured


def make_run(kind: str, seed: int) -> tuple[Any, Any, Callable[[], dict[str, Tensor]]]:
    """Return a model, its tokenizer and a function that makes batches."""
    from transformers import BertConfig, BertForMaskedLM, ByT5Tokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = ByT5Tokenizer(extra_ids=1, model_max_length=WINDOW)
    torch.manual_seed(seed)
    shape: dict[str, Any] = {"hidden_size": DIM, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"intermediate_size": 2 * DIM, "max_position_embeddings": WINDOW, "vocab_size": len(tokenizer)}
    model: Any = LlamaForCausalLM(LlamaConfig(**shape)) if kind == "decoder" else None
    model = model or BertForMaskedLM(BertConfig(**shape, initializer_range=0.1))
    text = "\n".join(make_sentences(300)).encode()
    ids = torch.tensor(list(text)) + 3
    generator = torch.Generator().manual_seed(seed)

    def batch() -> dict[str, Tensor]:
        starts = torch.randint(len(ids) - WINDOW, (BATCH,), generator=generator)
        rows = torch.stack([ids[start : start + WINDOW] for start in starts])
        if kind == "decoder":
            return {"input_ids": rows, "labels": rows}
        hidden = torch.rand(rows.shape, generator=generator) < 0.15
        mask = len(tokenizer) - 1
        return {"input_ids": rows.where(~hidden, mask), "labels": rows.where(hidden, -100)}

    return model, tokenizer, batch


def train(kind: str, fault: str, seed: int) -> GeometryProbe:
    """Train one model, plant the fault half-way, and return the probe with its alarms."""
    model, tokenizer, batch = make_run(kind, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step))
    texts = make_sentences(40)[-20:]
    settings: dict[str, Any] = {"positions": 256, "layers": "all", "attention": DOCUMENTS}
    probe = GeometryProbe(texts, tokenizer, every=EVERY, share=None, weights="none", **settings)
    for step in range(STEPS + 1):
        if step == PLANTED:
            _plant(model, fault, optimizer)
            if fault == "collapse":  # the rate has decayed too far for the states to collapse in the rest
                schedule.base_lrs = [5 * rate for rate in schedule.base_lrs]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            probe(model, step)
        out = model(**batch(), output_hidden_states=fault == "collapse")
        loss = out.loss
        if fault == "collapse" and step >= PLANTED:
            states = out.hidden_states[-1].flatten(0, 1)
            loss = 10 * (states - 1).square().sum(dim=1).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return probe


def _rate(step: int) -> float:
    warm = min((step + 1) / 10, 1.0)
    return warm * (0.55 + 0.45 * math.cos(math.pi * step / STEPS))


def _plant(model: Any, fault: str, optimizer: torch.optim.Optimizer) -> None:
    base = model.base_model
    blocks = base.layers if hasattr(base, "layers") else base.encoder.layer
    if fault == "dead":  # what the second block writes is 0 from now on, apart from its norms
        for name, module in blocks[1].named_modules():
            if isinstance(module, nn.Linear) and name.endswith(("o_proj", "down_proj", "output.dense")):
                for parameter in module.parameters():
                    parameter.requires_grad_(False).zero_()
    if fault == "norm":  # one step of the optimizer is a hundred times too long
        for group in optimizer.param_groups:
            group["lr"] *= 100
    if fault in LONGER:
        for name, module in blocks[1].named_modules():
            if isinstance(module, nn.Linear) and name.endswith(("q_proj", "query")):
                for parameter in module.parameters():
                    parameter.requires_grad_(False).mul_(LONGER[fault])
    if fault == "sinks":
        blocks[0].register_forward_hook(_add_sink, prepend=True)


def _add_sink(module: nn.Module, args: Any, output: Any) -> None:
    states = output[0] if isinstance(output, tuple) else output
    states.data[:, 0, 3] += 3000.0


def judge(probe: GeometryProbe, fault: str) -> dict[str, Any]:
    """Return the false alarms of a run, and after how many measurements its fault was found."""
    raised = [(each.step, "collapse") for each in probe.collapses] + [
        (each.step, each.kind) for each in probe.alarms
    ]
    false = [kind for step, kind in raised if fault == "healthy" or step < PLANTED]
    right = [step for step, kind in raised if kind == fault and step >= PLANTED]
    found = (min(right) - PLANTED) // EVERY + 1 if right else None
    return {"false": false, "found": found, "kinds": sorted({kind for step, kind in raised if step >= PLANTED})}


def main() -> None:
    """Run all seeds and print one line for each kind of model and fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="number of runs with each fault")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first run")
    parser.add_argument("--healthy", type=int, help="number of healthy runs; default: twice as many")
    parser.add_argument("--model", choices=[*KINDS, "both"], default="both")
    parser.add_argument("--fault", choices=FAULTS, help="only this one")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for kind in KINDS if given.model == "both" else [given.model]:
        for fault in [given.fault] if given.fault else FAULTS:
            count = (given.healthy or 2 * given.seeds) if fault == "healthy" else given.seeds
            runs = []
            for seed in range(given.first_seed, given.first_seed + count):
                runs.append(judge(train(kind, fault, seed), fault))
                print(f"{kind} {fault} {seed}: {runs[-1]}", file=sys.stderr, flush=True)
            delays = [run["found"] for run in runs if run["found"] is not None]
            found = f"found in {len(delays)}" + (f", after {max(delays)} measurements at most" if delays else "")
            false = sum(bool(run["false"]) for run in runs)
            print(
                f"{kind:8} {fault:9} {count} runs: false alarms in {false}" + f"; {found}" * (fault != "healthy")
            )
            results[f"{kind} {fault}"] = runs
            if given.json:
                given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
