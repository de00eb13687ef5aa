"""The time that GeometryCallback takes in a small training run, with its default settings.

    python -m benchmarks.callback --steps 1000

A byte-level Llama is trained by a Trainer with the callback. The seconds spent in the callback are compared with
the rest. With --quick, it measures at every tenth of 20 steps without a time budget.
"""

from __future__ import annotations

import sys
import time
from contextlib import redirect_stdout
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.results import Row, format_seconds
from benchmarks.runner import run_from_command_line
from benchmarks.workload import make_sentences
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.text_corpus import open_corpus
from theodolite.integrations import GeometryCallback
from theodolite.integrations.model_state import hash_weights

BLOCKS, DIM, WINDOW, BATCH = 4, 128, 128, 16


def run(quick: bool = False, steps: int = 1000, corpus: str = "chitchat") -> dict[str, Any]:
    """Train a byte-level Llama with the callback; return seconds and shares."""
    if quick:
        steps, documents, cadence = 20, make_sentences(200), {"every": 10, "share": None}
    else:
        documents, cadence = [text for _, text in open_corpus(corpus, CorpusOptions(limit=400)).documents()], {}
    with TemporaryDirectory() as folder:
        callback = GeometryCallback(documents[:50], out=f"{folder}/series", **cadence)
        spent, model = _train(documents[50:], steps, folder, callback)
    probe = callback.probe
    assert probe.series is not None
    taken = [each.step for each in probe.series.steps]
    started = time.perf_counter()
    hash_weights(model, "whole")
    whole = time.perf_counter() - started
    started = time.perf_counter()
    hash_weights(model, "sampled")
    training = spent - probe.budget.spent
    return {
        "rows": [
            Row(
                "measuring while a model trains, over training",
                probe.budget.spent / training,
                0.02,
                format_seconds(probe.budget.spent),
                format_seconds(training),
            ).to_dict()
        ],
        "callback_seconds_each": probe.budget.spent / len(taken),
        "callback_training_seconds": training,
        "callback_measured_at": taken,
        "callback_due_at": list(range(0, steps + 1, probe.every)),
        "callback_weights": sum(parameter.numel() for parameter in model.parameters()),
        "callback_hash_sampled_seconds": time.perf_counter() - started,
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
        train_dataset=[{"input_ids": row, "labels": row} for row in rows],
        processing_class=tokenizer,
        data_collator=lambda parts: {k: torch.stack([part[k] for part in parts]) for k in parts[0]},
    )
    callback.attach(trainer)
    started = time.perf_counter()
    with redirect_stdout(sys.stderr):  # the Trainer's log is not part of the table
        trainer.train()
    return time.perf_counter() - started, model


if __name__ == "__main__":
    run_from_command_line(run, __doc__, steps=1000)
