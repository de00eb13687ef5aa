"""What measuring takes of the time of a small training, with GeometryCallback at its default cadence."""

from __future__ import annotations

import argparse
import json
import time
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from theodolite.integrations import GeometryCallback
from theodolite.integrations.weights import weights_word
from theodolite.sources.corpus import CorpusOptions, open_corpus

BLOCKS, DIM, WINDOW, BATCH = 4, 128, 128, 16


def run(steps: int = 1000, corpus: str = "chitchat") -> dict[str, Any]:
    """Train a byte-level Llama in a Trainer with the callback in it; return seconds and shares."""
    documents = [text for _, text in open_corpus(corpus, CorpusOptions(limit=400)).documents()]
    with TemporaryDirectory() as folder:
        callback = GeometryCallback(documents[:50], out=f"{folder}/series")
        seconds, model = _train(documents[50:], steps, folder, callback)
    probe = callback.probe
    assert probe.series is not None
    taken = [each.step for each in probe.series.steps]
    began = time.perf_counter()
    weights_word(model, "whole")
    whole = time.perf_counter() - began
    began = time.perf_counter()
    weights_word(model, "sampled")
    return {
        "callback_share_of_training": probe.budget.spent / (seconds - probe.budget.spent),
        "callback_seconds_each": probe.budget.spent / len(taken),
        "callback_training_seconds": seconds - probe.budget.spent,
        "callback_measured_at": taken,
        "callback_due_at": list(range(0, steps + 1, probe.every)),
        "callback_weights": sum(parameter.numel() for parameter in model.parameters()),
        "callback_hash_sampled_seconds": time.perf_counter() - began,
        "callback_hash_whole_seconds": whole,
    }


def _train(texts: list[str], steps: int, folder: str, callback: GeometryCallback) -> tuple[float, Any]:
    from transformers import ByT5Tokenizer, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
    from transformers.utils import logging

    logging.set_verbosity_error()
    tokenizer = ByT5Tokenizer(extra_ids=0, model_max_length=WINDOW)
    torch.manual_seed(0)
    shape = {"hidden_size": DIM, "num_hidden_layers": BLOCKS, "num_attention_heads": 4, "intermediate_size": 344}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=WINDOW, **shape))
    ids = np.frombuffer("\n".join(texts).encode(), np.uint8).astype(np.int64) + 3
    rows = torch.from_numpy(ids[: len(ids) // WINDOW * WINDOW]).reshape(-1, WINDOW)
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_steps=100,
        use_cpu=True,
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=[{"input_ids": row, "labels": row} for row in rows],  # type: ignore[arg-type]
        processing_class=tokenizer,
        data_collator=lambda parts: {k: torch.stack([part[k] for part in parts]) for k in parts[0]},
    )
    callback.attach(trainer)
    began = time.perf_counter()
    trainer.train()
    return time.perf_counter() - began, model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    print(json.dumps(run(parser.parse_args().steps), indent=2))
