"""Training with a measurement beside it is the same training, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from tests.integrations.tiny_training import rows_of, same_bits, tiny, weights_of
from tests.shared import slow
from tests.small_models import sentences
from torch import nn

from theodolite.integrations import GeometryProbe
from theodolite.integrations.model_state import HOOKS, preserve_state

Beside = Callable[[Any, int], object]
STEPS = 3
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]


def _nothing(model: Any, step: int) -> None:
    return None


def _trained(
    kind: str, dropout: float, accumulate: int, bf16: bool, beside: Beside, device: str = "cpu"
) -> dict[str, torch.Tensor]:
    """Train for a few steps; `beside` is called after every backward pass, also between the parts of a step."""
    model, tokenizer = tiny(kind, dropout=dropout)
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.tensor([row["input_ids"] for row in rows_of(tokenizer)], device=device)
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    for step in range(STEPS):
        for part in range(accumulate):
            # The training data depend on every random generator.
            chosen = [
                random.randrange(len(ids)),
                int(np.random.randint(len(ids))),
                int(torch.randint(len(ids), ())),
            ]
            with torch.autocast(device, torch.bfloat16) if bf16 else nullcontext():
                loss = model(input_ids=ids[chosen], labels=ids[chosen]).loss
            loss.backward()
            beside(model, step * accumulate + part)
        optimizer.step()
        optimizer.zero_grad()
    return weights_of(model)


def _probe(tokenizer: Any, **options: Any) -> GeometryProbe:
    return GeometryProbe(sentences(6, seed=9), tokenizer, every=1, share=None, collapse=None, **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize(("dropout", "accumulate", "bf16"), [slow(0.0, 1, False), (0.2, 3, False), (0.2, 2, True)])
def test_weights_are_identical_with_and_without_measurement(
    kind: str, dropout: float, accumulate: int, bf16: bool, device: str
) -> None:
    _, tokenizer = tiny(kind)
    alone = _trained(kind, dropout, accumulate, bf16, _nothing, device)
    probe = _probe(tokenizer, weights="none")
    beside = _trained(kind, dropout, accumulate, bf16, probe, device)
    assert probe.series is not None
    assert len(probe.series.steps) == STEPS * accumulate
    assert same_bits(alone, beside)


def test_a_measurement_that_only_runs_the_model_would_change_the_training() -> None:
    """The tempting way: only disable gradients. With dropout it takes random numbers from the training."""

    def careless(model: Any, step: int) -> None:
        with torch.no_grad():
            model(input_ids=torch.arange(10)[None])

    assert not same_bits(
        _trained("encoder", 0.2, 1, False, _nothing), _trained("encoder", 0.2, 1, False, careless)
    )


def test_inside_autocast_the_casts_of_training_keep_their_gradients() -> None:
    """Autocast keeps casts of weights until it ends: training must not get casts made without gradients."""

    def gradients(beside: Callable[[Any], object]) -> list[torch.Tensor | None]:
        model, tokenizer = tiny("encoder")
        ids = torch.tensor([row["input_ids"] for row in rows_of(tokenizer)])[:4]
        with torch.autocast("cpu", torch.bfloat16):
            beside(model)
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        return [parameter.grad for parameter in model.parameters()]

    _, tokenizer = tiny("encoder")
    alone = gradients(lambda model: None)
    with_probe = gradients(lambda model: _probe(tokenizer).measure(model, 0))
    for before, after in zip(alone, with_probe, strict=True):
        assert (before is None) == (after is None)
        assert before is None or (after is not None and torch.equal(before, after))


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_mode_hooks_cache_and_generators_are_restored(kind: str) -> None:
    model, tokenizer = tiny(kind, dropout=0.1)
    model.train()
    first = next(module for module in model.modules() if isinstance(module, nn.LayerNorm | nn.Embedding))
    first.eval()  # a part that someone froze
    calls: list[int] = []
    first.register_forward_hook(lambda *_: calls.append(1))

    def everything() -> list[Any]:
        modules = list(model.modules())
        return [
            [module.training for module in modules],
            [dict(getattr(module, name)) for module in modules for name in HOOKS],
            [sorted(vars(module)) for module in modules],
            model.config.to_dict(),
            random.getstate(),
            np.random.get_state()[1].tolist(),
            torch.get_rng_state().tolist(),
            torch.is_grad_enabled(),
            torch.get_default_dtype(),
            [parameter.requires_grad for parameter in model.parameters()],
            [parameter.grad is None for parameter in model.parameters()],
            [parameter._version for parameter in model.parameters()],
            [buffer._version for buffer in model.buffers()],
        ]

    before = everything()
    _probe(tokenizer).measure(model, 0)
    assert everything() == before
    out = model(input_ids=torch.arange(8)[None], output_hidden_states=True)
    assert len(out.hidden_states) == 3, "transformers can still put its own hooks in"


def test_everything_is_restored_after_an_error() -> None:
    model, _ = tiny("encoder", dropout=0.5)
    model.train()
    state = torch.get_rng_state()

    def broken() -> None:
        with preserve_state(model):
            torch.rand(3)
            model.bert.embeddings.position_ids.add_(1)
            model.bert.register_forward_hook(lambda *_: None)
            raise ValueError("no")

    ids = model.bert.embeddings.position_ids.clone()
    with pytest.raises(ValueError, match="no"):
        broken()
    assert model.training
    assert not model.bert._forward_hooks
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(model.bert.embeddings.position_ids, ids)


def test_settings_of_the_script_do_not_affect_the_numbers() -> None:
    model, tokenizer = tiny("decoder")
    plain = _probe(tokenizer).measure(model, 0)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            other = _probe(tokenizer).measure(model, 0)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    plain.pop("geometry/seconds"), other.pop("geometry/seconds")
    # A forward pass in bfloat16 would differ in the third digit; float64 factors in it only in the last ones.
    assert plain == pytest.approx(other, rel=1e-5)
