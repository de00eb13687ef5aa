"""Sums over the states of the training itself: equal to those taken by hand, and the training is unchanged."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.integrations.tiny_training import rows_of, tiny, weights_of
from tests.integrations.worker_processes import run_processes, train_with_batches
from tests.small_models import sentences
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from theodolite.errors import InputError
from theodolite.integrations import GeometryCallback, GeometryProbe, ModuleProbe
from theodolite.integrations.training_batches import TrainingBatches
from theodolite.statistics.cuda.context import GpuContext
from theodolite.statistics.cuda.fold import GpuFold
from theodolite.studies.series import Series

STATES = 1e-5
"""Relative: sums of float32 products about a centre, against float64."""


def _probe(tokenizer: Any, **options: Any) -> GeometryProbe:
    options = {"training_batches": 1, "layers": "all", "share": None, "collapse": None, "alarms": None} | options
    return GeometryProbe(sentences(6, seed=9), tokenizer, weights="none", **options)


def _batches(tokenizer: Any, count: int, masked: bool = True) -> list[dict[str, Tensor]]:
    """Return batches of four rows; the rows have different lengths, and one is padded on the left."""
    ids = torch.tensor([row["input_ids"] for row in rows_of(tokenizer, count=4 * count)]).reshape(count, 4, 12)
    mask = torch.ones_like(ids[0])
    if masked:
        mask[1, 7:] = mask[2, :3] = 0
    return [{"input_ids": part, "attention_mask": mask, "labels": part.where(mask == 1, -100)} for part in ids]


def _train(
    model: Any, batches: list[dict[str, Tensor]], *, accumulate: int = 1, bf16: bool = False, device: str = "cpu"
) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for number, batch in enumerate(batches, start=1):
        with torch.autocast(device, torch.bfloat16) if bf16 else nullcontext():
            loss = model(**{name: part.to(device) for name, part in batch.items()}).loss
        loss.backward()
        losses.append(float(loss.detach()))
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return losses


def _keep_outputs(block: nn.Module) -> list[Tensor]:
    """Return a list to which every output of a block is added."""
    kept: list[Tensor] = []

    def keep(module: nn.Module, args: Any, output: Any) -> None:
        kept.append((output[0] if isinstance(output, tuple) else output).detach().clone())

    block.register_forward_hook(keep)
    return kept


def _blocks(model: Any) -> nn.ModuleList:
    base: Any = model.base_model
    return base.layers if hasattr(base, "layers") else base.encoder.layer  # type: ignore[no-any-return]


def _row(table: Any, layer: str, population: str = "all") -> Any:
    return table[(table["layer_name"] == layer) & (table["population"] == population)].iloc[0]


def _assert_definitions(row: Any, x: np.ndarray, tolerance: float = STATES) -> None:
    """Compare a row with the definitions, in float64. x: (positions, dim)"""
    assert row["n"] == len(x)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosine = (np.square(unit.sum(axis=0)).sum() - len(x)) / (len(x) * (len(x) - 1))
    values = np.linalg.eigvalsh(np.cov(x.T, bias=True))
    shares = values[values > 0] / values[values > 0].sum()
    assert row["q"] == pytest.approx(np.square(x).sum(axis=1).mean(), rel=tolerance)
    assert row["mean_cosine"] == pytest.approx(cosine, rel=tolerance, abs=1e-6)
    assert row["effective_rank"] == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=tolerance)
    assert row["norm_max"] == pytest.approx(np.linalg.norm(x, axis=1).max(), rel=tolerance)


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_the_numbers_are_those_of_the_states_of_the_training(kind: str, bf16: bool) -> None:
    """With dropout and accumulated gradients; positions that the mask leaves out do not count."""
    model, tokenizer = tiny(kind, dropout=0.2)
    model.train()
    probe = _probe(tokenizer)
    probe.measure(model, 0)
    assert probe.batches is None
    kept = _keep_outputs(_blocks(model)[1])
    batches = _batches(tokenizer, 5)
    _train(model, batches, accumulate=2, bf16=bf16)
    with torch.no_grad():
        model(**batches[0])  # not a pass of the training
    model.eval()
    model(**batches[0])
    numbers = probe.measure(model, 5)
    x = torch.cat([states[batch["attention_mask"] == 1] for states, batch in zip(kept, batches, strict=False)])
    assert probe.batches is not None
    row = _row(probe.batches, "block 2")
    _assert_definitions(row, x.double().numpy())
    assert row["passes"] == 5
    assert numbers["geometry/batches/block_2/mean_cosine"] == pytest.approx(
        _row(probe.batches, "block 2", "without-massive")["mean_cosine"]
    )
    assert set(probe.batches["layer_name"]) == set(probe.layers["layer_name"] if probe.layers is not None else ())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("bf16", [False, True])
def test_the_sums_are_on_the_gpu(bf16: bool) -> None:
    """More passes than the width, so that products are summed; they are float32 there."""
    model, tokenizer = tiny("encoder", dropout=0.2)
    model.to("cuda").train()
    probe = _probe(tokenizer)
    probe.measure(model, 0)
    kept = _keep_outputs(_blocks(model)[1])
    batches = _batches(tokenizer, 5)
    _train(model, batches, bf16=bf16, device="cuda")
    folded = probe._batches
    assert folded is not None
    assert folded._contexts
    probe.measure(model, 5)
    pairs = zip(kept, batches, strict=False)
    x = torch.cat([states.cpu()[batch["attention_mask"] == 1] for states, batch in pairs])
    assert probe.batches is not None
    _assert_definitions(_row(probe.batches, "block 2"), x.double().numpy(), tolerance=1e-4)


@pytest.mark.parametrize("populations", [("all", "without-massive"), ("all", "without-sinks")])
def test_the_sums_of_a_device(populations: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold of a GPU, on the CPU: rows that it flags are added before the next pass, or at the end."""

    def make_fold(self: TrainingBatches, index: int, states: Tensor) -> GpuFold:
        if states.device not in self._contexts:
            self._contexts[states.device] = GpuContext(states.device, max_deferred=len(self._stacks))
        return GpuFold(self._frames[index], self._contexts[states.device])

    monkeypatch.setattr(TrainingBatches, "_make_fold", make_fold)
    model, tokenizer = tiny()
    model.train()
    probe = _probe(tokenizer, populations=populations)
    probe.measure(model, 0)
    folded = probe._batches
    assert folded is not None
    median = {index: frame.massive_above / 10 for index, frame in folded._frames.items()}
    frames = {index: replace(frame, massive_above=median[index]) for index, frame in folded._frames.items()}
    folded.start(frames)
    kept = _keep_outputs(_blocks(model)[1])
    batches = _batches(tokenizer, 5)
    _train(model, batches)
    (context,) = folded._contexts.values()
    assert len(context._deferred) == len(frames), "those of the last pass only"
    probe.measure(model, 5)
    pairs = zip(kept, batches, strict=False)
    x = torch.cat([states[batch["attention_mask"] == 1] for states, batch in pairs]).double().numpy()
    assert probe.batches is not None
    _assert_definitions(_row(probe.batches, "block 2"), x, tolerance=1e-4)
    massive = np.linalg.norm(x, axis=1) > median[2]
    assert 0 < massive.sum() < len(x)
    if populations[1] == "without-massive":
        _assert_definitions(_row(probe.batches, "block 2", "without-massive"), x[~massive], tolerance=1e-4)


def test_a_window_ends_at_each_measurement_and_the_series_keeps_it(tmp_path: Path) -> None:
    model, tokenizer = tiny()
    model.train()
    probe = _probe(tokenizer, out=tmp_path / "series")
    probe.measure(model, 0)
    kept = _keep_outputs(_blocks(model)[0])
    for step in (2, 4):
        kept.clear()
        _train(model, _batches(tokenizer, 2, masked=False))
        x = torch.cat(kept).flatten(0, 1).double().numpy()
        probe.measure(model, step)
        assert probe.batches is not None
        _assert_definitions(_row(probe.batches, "block 1"), x)
    table = Series.read(tmp_path / "series").tables["batches"]
    assert sorted(set(table["step"])) == [2, 4]
    probe.detach()
    assert not model.base_model._forward_hooks
    assert not model.base_model._forward_pre_hooks


def test_one_in_so_many_passes_is_folded_also_in_pairs() -> None:
    """Every fourth pass would be the same half of a pair each time; here both halves are chosen about equally."""
    model, tokenizer = tiny()
    model.train()
    probe = _probe(tokenizer, training_batches=4, layers="2")
    probe.measure(model, 0)
    kept: list[int] = []
    batches = _batches(tokenizer, 1) * 40
    folded = probe._batches
    assert folded is not None
    for number, batch in enumerate(batches):
        before = folded._folded
        model(**batch)
        if folded._folded > before:
            kept.append(number)
    assert len(kept) == pytest.approx(10, abs=2)
    assert sum(number % 2 for number in kept) == pytest.approx(len(kept) / 2, abs=1)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recomputed_pass_counts_once(reentrant: bool) -> None:
    model, tokenizer = tiny("encoder", dropout=0.2)
    model.train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    probe = _probe(tokenizer)
    probe.measure(model, 0)
    runs: list[int] = []
    _blocks(model)[1].register_forward_pre_hook(lambda *_: runs.append(1))
    calls = _keep_outputs(_blocks(model)[1])
    batches = _batches(tokenizer, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of inputs without gradients
        _train(model, batches)
    assert len(runs) == 6, "each block is run again in the backward pass"
    # The output of the second run is not reached where PyTorch stops it when it has what it needs.
    first = list(zip(calls[:: len(calls) // 3], batches, strict=True))
    probe.measure(model, 3)
    x = torch.cat([states[batch["attention_mask"] == 1] for states, batch in first])
    assert probe.batches is not None
    _assert_definitions(_row(probe.batches, "block 2"), x.double().numpy())


def test_a_whole_model_that_is_recomputed_counts_once() -> None:
    model, tokenizer = tiny()
    model.train()
    probe = _probe(tokenizer, layers="2")
    probe.measure(model, 0)
    (batch,) = _batches(tokenizer, 1)
    checkpoint(lambda: model(**batch).loss, use_reentrant=False).backward()
    probe.measure(model, 1)
    assert probe.batches is not None
    assert _row(probe.batches, "block 2")["n"] == int(batch["attention_mask"].sum())


@pytest.mark.parametrize(("kind", "accumulate", "bf16"), [("decoder", 1, False), ("encoder", 2, True)])
def test_losses_gradients_and_random_states_are_the_same(kind: str, accumulate: int, bf16: bool) -> None:
    def train(options: dict[str, Any] | None) -> list[Any]:
        model, tokenizer = tiny(kind, dropout=0.2)
        model.train()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if options is not None:
            _probe(tokenizer, **options).measure(model, 0)
        torch.manual_seed(3), random.seed(3), np.random.seed(3)
        losses = _train(model, _batches(tokenizer, 5), accumulate=accumulate, bf16=bf16)
        gradients = [None if each.grad is None else each.grad.tolist() for each in model.parameters()]
        states = [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()]
        return [losses, gradients, states, {k: v.tolist() for k, v in weights_of(model).items()}]

    alone = train(None)
    assert alone == train({"populations": ("all", "without-sinks"), "streams": "residual,k,attn"})
    assert alone == train({"training_batches": 2})


def test_other_streams_are_folded() -> None:
    model, tokenizer = tiny()
    model.train()
    probe = _probe(tokenizer, streams=["residual", "k"])
    probe.measure(model, 0)
    kept = _keep_outputs(_blocks(model)[0].self_attn.k_proj)
    batches = _batches(tokenizer, 2)
    _train(model, batches)
    probe.measure(model, 2)
    x = torch.cat([states[batch["attention_mask"] == 1] for states, batch in zip(kept, batches, strict=False)])
    assert probe.batches is not None
    _assert_definitions(_row(probe.batches, "block 1/k"), x.double().numpy())


def test_the_decoder_of_an_encoder_decoder_has_its_own_padding() -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    _, tokenizer = tiny()
    shape: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    torch.manual_seed(0)
    model: Any = T5ForConditionalGeneration(
        T5Config(**shape, vocab_size=len(tokenizer), decoder_start_token_id=0, pad_token_id=0)
    )
    model.train()
    probe = _probe(tokenizer)
    probe.measure(model, 0)
    (batch,) = _batches(tokenizer, 1)
    labels = torch.full((4, 9), 5)
    labels[0, 4:] = -100
    model(**batch | {"labels": labels})
    probe.measure(model, 1)
    assert probe.batches is not None
    assert _row(probe.batches, "encoder block 2")["n"] == int(batch["attention_mask"].sum())
    assert _row(probe.batches, "decoder block 2")["n"] == 4 * 9 - 5


def test_an_adapter_and_a_replicated_copy() -> None:
    peft = pytest.importorskip("peft")
    model, tokenizer = tiny()
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"], r=2, task_type="CAUSAL_LM"))
    adapted.train()
    probe = _probe(tokenizer, layers="2")
    probe.measure(adapted, 0)
    kept = _keep_outputs(_blocks(model)[1])
    _train(adapted, _batches(tokenizer, 2, masked=False))
    x = torch.cat(kept).flatten(0, 1).double().numpy()
    _blocks(model)[1]._forward_hooks.clear()  # a local function cannot be pickled
    for other in (copy.deepcopy(adapted), pickle.loads(pickle.dumps(model.base_model))):
        other(input_ids=torch.arange(5)[None])  # a copy is not folded
    probe.measure(adapted, 2)
    assert probe.batches is not None
    _assert_definitions(_row(probe.batches, "block 2"), x)


def test_compiled_models_and_other_modules_are_rejected() -> None:
    model, tokenizer = tiny()
    with pytest.raises(InputError, match="training_batches: the model is compiled"):
        _probe(tokenizer).measure(torch.compile(model, backend="eager"), 0)
    model.base_model.layers[0].compile(backend="eager")
    with pytest.raises(InputError, match="training_batches: the model is compiled"):
        _probe(tokenizer).measure(model, 0)
    with pytest.raises(InputError, match="training_batches is for text models"):
        ModuleProbe([torch.ones(1, 2)], ["0"], training_batches=1)
    with pytest.raises(InputError, match="training_batches must be an integer number"):
        _probe(tokenizer, training_batches=0.5)


def test_a_training_that_is_not_seen_gives_a_warning() -> None:
    model, tokenizer = tiny()
    probe = _probe(tokenizer)
    probe.measure(model, 0)
    with pytest.warns(UserWarning, match="no training pass was seen"):
        probe.measure(model, 1)


@pytest.mark.slow
def test_a_model_that_is_compiled_afterwards_is_trained_as_before() -> None:
    """A Trainer compiles the model behind the back of its callbacks: the hooks then do nothing."""
    losses = []
    for folded in (0, 1):
        model, tokenizer = tiny()
        model.train()
        probe = _probe(tokenizer, training_batches=folded)
        probe.measure(model, 0)
        compiled: Any = torch.compile(model, backend="eager")
        losses.append(_train(compiled, _batches(tokenizer, 2, masked=False)))
    assert losses[0] == losses[1]
    with pytest.warns(UserWarning, match="no training pass was seen"):
        probe.measure(model, 2)


def test_an_error_in_the_fold_does_not_stop_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = tiny()
    model.train()
    probe = _probe(tokenizer)
    probe.measure(model, 0)

    def fail(*given: Any) -> None:
        raise torch.OutOfMemoryError("full")

    with monkeypatch.context() as patch:
        patch.setattr(TrainingBatches, "_locate", fail)
        _train(model, _batches(tokenizer, 2))
    with pytest.warns(UserWarning, match="could not be folded: OutOfMemoryError: full"):
        probe.measure(model, 2)
    assert probe.batches is None
    _train(model, _batches(tokenizer, 1))
    probe.measure(model, 3)
    assert probe.batches is not None


def test_states_that_the_model_overwrites_are_copied() -> None:
    """The states are held until the end of the pass. The pass in which this is noticed is not folded."""
    model, tokenizer = tiny()
    model.train()
    probe = _probe(tokenizer)
    probe.measure(model, 0)
    kept = _keep_outputs(_blocks(model)[0])

    def overwrite(module: nn.Module, args: Any) -> None:
        args[0].mul_(2)

    _blocks(model)[1].register_forward_pre_hook(overwrite)
    _train(model, _batches(tokenizer, 3, masked=False))
    probe.measure(model, 3)
    assert probe.batches is not None
    row = _row(probe.batches, "block 1")
    assert row["passes"] == 2
    _assert_definitions(row, torch.cat(kept[1:3]).flatten(0, 1).double().numpy())


def test_a_pass_that_fails_is_not_folded() -> None:
    model, tokenizer = tiny()
    model.train()
    probe = _probe(tokenizer)
    probe.measure(model, 0)

    def fail(*given: Any) -> None:
        raise RuntimeError("full")

    handle = _blocks(model)[1].register_forward_pre_hook(fail)
    batches = _batches(tokenizer, 2, masked=False)
    with pytest.raises(RuntimeError, match="full"):
        _train(model, batches[:1])
    handle.remove()
    _train(model, batches[1:])
    probe.measure(model, 2)
    assert probe.batches is not None
    assert {(row["passes"], row["n"]) for row in probe.batches.to_dict("records")} == {(1, 48)}


def test_the_callback_folds_the_batches_of_the_trainer(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments, default_data_collator

    model, tokenizer = tiny()
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=4,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    rows: Any = rows_of(tokenizer)
    trainer = Trainer(
        model, arguments, train_dataset=rows, processing_class=tokenizer, data_collator=default_data_collator
    )
    callback = GeometryCallback(sentences(6, seed=9), every=2, share=None, training_batches=1, out=tmp_path / "s")
    callback.attach(trainer).train()
    table = Series.read(tmp_path / "s").tables["batches"]
    last = table[table["layer_name"] == "block 2"]
    assert set(zip(last["step"], last["passes"], last["n"], strict=True)) == {(2, 4, 96), (4, 4, 96)}
    assert any("geometry/batches/block_2/mean_cosine" in entry for entry in trainer.state.log_history)
    assert not model.base_model._forward_hooks


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("wrap", ["ddp", "fsdp2"])
def test_the_sums_of_all_processes_are_added(wrap: str, tmp_path: Path) -> None:
    results = run_processes(train_with_batches, 2, tmp_path, wrap, True)
    bare = run_processes(train_with_batches, 2, tmp_path, wrap, False)
    x = torch.cat([states for _, states, _ in results]).double().numpy()
    for (table, _, weights), (_, _, expected) in zip(results, bare, strict=True):
        row = _row(table, "block 2")
        assert row["passes"] == 4
        _assert_definitions(row, x)
        assert all(torch.equal(weights[name], expected[name]) for name in expected)
