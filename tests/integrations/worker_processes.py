"""Functions that run in every process of a small gloo group. Each writes what it found to a file of its own."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run_processes(work: Callable[..., Any], size: int, folder: Path, *arguments: Any) -> list[Any]:
    """Run `work(rank, *arguments)` in this many processes; return what each of them returned."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The modules are imported once, by the server that the processes are forked from.
    get_context("forkserver").set_forkserver_preload(["theodolite.integrations.probe", "transformers", __name__])
    mp.start_processes(  # type: ignore[no-untyped-call]
        _start, (work, size, port, str(folder), arguments), nprocs=size, start_method="forkserver"
    )
    return [pickle.loads((folder / f"rank-{rank}").read_bytes()) for rank in range(size)]


def _start(rank: int, work: Callable[..., Any], size: int, port: int, folder: str, arguments: Any) -> None:
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
    dist.init_process_group("gloo", rank=rank, world_size=size)
    try:
        found = work(rank, *arguments)
        Path(folder, f"rank-{rank}").write_bytes(pickle.dumps(found))
    finally:
        dist.destroy_process_group()


def train_all(rank: int, cases: list[tuple[str, str]], texts: int) -> list[Any]:
    """Train a tiny model of each kind, wrapped in each way; return what was measured and the final weights."""
    return [train(rank, kind, wrap, texts) for kind, wrap in cases]


def train(rank: int, kind: str, wrap: str, texts: int) -> Any:
    """Train a tiny model, measured before every step, and once between backward pass and optimizer step."""
    from tests.integrations.tiny_training import rows_of, tiny
    from tests.small_models import sentences

    from theodolite.integrations import GeometryProbe

    model, tokenizer = tiny(kind)
    wrapped = wrap_model(model, wrap)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    ids = torch.tensor([row["input_ids"] for row in rows_of(tokenizer)])[rank * 4 : rank * 4 + 4]
    probe = GeometryProbe(
        sentences(texts, seed=9),
        tokenizer,
        every=1,
        share=None,
        layers="all",
        dimension=True,
        populations=("all",),
    )
    measured = []
    for step in range(2):
        if "bare" not in wrap:
            numbers = probe(wrapped, 2 * step)
            assert probe.layers is not None
            measured.append((probe.layers, numbers, dict(probe.updates)))
        wrapped(input_ids=ids, labels=ids).loss.backward()
        if "bare" not in wrap:
            probe.measure(wrapped, 2 * step + 1)
        optimizer.step()
        optimizer.zero_grad()
    steps = [] if probe.series is None else [(each.step, each.sha256) for each in probe.series.steps]
    return measured, {name: _whole(value) for name, value in model.state_dict().items()}, steps


def train_with_batches(rank: int, wrap: str, folded: bool) -> Any:
    """Train for two steps; return the rows over the training batches, the states, and the final weights."""
    from tests.integrations.tiny_training import rows_of, tiny
    from tests.small_models import sentences

    from theodolite.integrations import GeometryProbe

    model, tokenizer = tiny("decoder")
    wrapped = wrap_model(model, wrap)
    wrapped.train()
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    ids = torch.tensor([row["input_ids"] for row in rows_of(tokenizer)])[rank * 4 : rank * 4 + 4 - rank]
    probe = GeometryProbe(sentences(3, seed=9), tokenizer, share=None, layers="2", training_batches=int(folded))
    kept: list[torch.Tensor] = []
    probe.measure(wrapped, 0)
    hook = model.model.layers[1].register_forward_hook(lambda module, args, out: kept.append(out.detach().clone()))
    for _ in range(2):
        wrapped(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    hook.remove()
    probe.measure(wrapped, 2)
    weights = {name: _whole(value) for name, value in model.state_dict().items()}
    return probe.batches, torch.cat(kept).flatten(0, 1), weights


def train_with_trainer(rank: int, folder: str, texts: int) -> list[dict[str, Any]]:
    """Train with the Trainer, which replicates the model; return what it logged."""
    from tests.integrations.tiny_training import rows_of, tiny
    from tests.small_models import sentences
    from transformers import Trainer, TrainingArguments, default_data_collator

    from theodolite.integrations import GeometryCallback

    model, tokenizer = tiny("decoder")
    arguments = TrainingArguments(
        output_dir=f"{folder}/trainer",
        max_steps=2,
        logging_steps=1,
        per_device_train_batch_size=2,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        ddp_backend="gloo",
    )
    rows: Any = rows_of(tokenizer)
    trainer = Trainer(
        model, arguments, train_dataset=rows, processing_class=tokenizer, data_collator=default_data_collator
    )
    callback = GeometryCallback(
        sentences(texts, seed=9), every=1, share=None, layers="all", out=f"{folder}/series"
    )
    callback.attach(trainer).train()
    assert (callback.probe.series is not None) == (rank == 0)
    assert callback.probe.processes.size == 2
    return list(trainer.state.log_history)


def use_deepspeed_on_cpu() -> None:
    """Make DeepSpeed run on the CPU, without compiling C++."""
    import sys

    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed  # noqa: F401

    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]


def train_with_deepspeed(rank: int, texts: int, probed: bool) -> Any:
    """Train with ZeRO-3 on the CPU; return what was measured and the losses."""
    use_deepspeed_on_cpu()
    import deepspeed
    from tests.integrations.tiny_training import rows_of, tiny
    from tests.small_models import sentences

    from theodolite.integrations import GeometryProbe

    deepspeed.init_distributed(dist_backend="gloo")
    model, tokenizer = tiny("decoder")
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    ids = torch.tensor([row["input_ids"] for row in rows_of(tokenizer)])[rank * 4 : rank * 4 + 4]
    probe = GeometryProbe(sentences(texts, seed=9), tokenizer, every=1, share=None, layers="all")
    measured, losses = [], []
    for step in range(3):
        if probed:
            probe(engine, step)
            measured.append(probe.layers)
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()
        losses.append(float(loss.detach()))
    return measured, losses, [] if probe.series is None else [each.sha256 for each in probe.series.steps]


def fail_in_one(rank: int) -> str:
    """Fail in process 1 while process 0 waits for it; return the error of each."""
    from theodolite.integrations.processes import Processes

    try:
        with Processes.find().fail_together():
            if rank == 1:
                raise ValueError("broken")
    except Exception as error:
        return str(error)
    return ""


def wrap_model(model: Any, wrap: str) -> Any:
    """Return the model as it is trained: replicated, or sharded by blocks."""
    if wrap.startswith("ddp"):
        return torch.nn.parallel.DistributedDataParallel(model)
    if wrap.startswith("fsdp2"):
        from torch.distributed.fsdp import fully_shard

        blocks = model.model.layers if hasattr(model, "model") else model.bert.encoder.layer
        for block in blocks:
            fully_shard(block)
        fully_shard(model)
    return model


def _whole(value: Any) -> torch.Tensor:
    return value.full_tensor() if hasattr(value, "full_tensor") else value  # type: ignore[no-any-return]
