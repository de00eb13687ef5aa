"""Norms by what they do: those of many families are found with the gamma and beta that act, nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from theodolite.models.norms import identify_norm

DIM = 24
NEAR = 1e-6
"""Relative: most norms compute in float32 whatever they are given."""


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def filled(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter += 0.5 * random(*parameter.shape, seed=number)
    return module.eval()


def layer_norm(eps: float = 1e-5, affine: bool = True) -> nn.Module:
    return filled(nn.LayerNorm(DIM, eps=eps, elementwise_affine=affine))


def family(module: str, name: str, **settings: Any) -> nn.Module:
    import importlib

    return filled(getattr(importlib.import_module(f"transformers.models.{module}"), name)(DIM, **settings))


def test_a_layer_norm() -> None:
    module = layer_norm()
    norm = identify_norm(module, DIM)
    assert norm is not None
    assert norm.kind == "LayerNorm"
    assert torch.allclose(norm.gamma, module.weight.double(), rtol=1e-9)
    assert torch.allclose(norm.beta, module.bias.double(), rtol=1e-9)


@pytest.mark.parametrize("eps", [1e-12, 1e-7, 1e-6, 1e-5, 1e-3])
def test_eps_is_detected(eps: float) -> None:
    assert identify_norm(layer_norm(eps), DIM).eps == pytest.approx(eps, rel=0.05)  # type: ignore[union-attr]


RMS = {
    "Llama": lambda: family("llama.modeling_llama", "LlamaRMSNorm", eps=1e-6),
    "Qwen3": lambda: family("qwen3.modeling_qwen3", "Qwen3RMSNorm"),
    "torch": lambda: filled(nn.RMSNorm(DIM, eps=1e-6)),
}
PLUS_ONE = {
    "Gemma": lambda: family("gemma.modeling_gemma", "GemmaRMSNorm"),
    "Gemma2": lambda: family("gemma2.modeling_gemma2", "Gemma2RMSNorm"),
    "Gemma3": lambda: family("gemma3.modeling_gemma3", "Gemma3RMSNorm"),
}


@pytest.mark.parametrize("name", RMS)
def test_an_rms_norm(name: str) -> None:
    module = RMS[name]()
    norm = identify_norm(module, DIM)
    assert norm is not None
    assert norm.kind == "RMSNorm"
    assert torch.allclose(norm.gamma, module.weight.double(), rtol=NEAR)
    assert not norm.beta.any()


@pytest.mark.parametrize("name", PLUS_ONE)
def test_a_weight_used_as_one_plus_weight(name: str) -> None:
    module = PLUS_ONE[name]()
    norm = identify_norm(module, DIM)
    assert norm is not None
    assert norm.kind == "RMSNorm"
    assert torch.allclose(norm.gamma, 1 + module.weight.double(), rtol=NEAR)


def test_a_layer_norm_with_one_plus_weight() -> None:
    module = family("nemotron.modeling_nemotron", "NemotronLayerNorm1P")
    norm = identify_norm(module, DIM)
    assert norm is not None
    assert (norm.kind, norm.eps) == ("LayerNorm", 1e-5)
    assert torch.allclose(norm.gamma, 1 + module.weight.double(), rtol=NEAR)
    assert torch.allclose(norm.beta, module.bias.double(), rtol=NEAR, atol=NEAR)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_detected_norm_computes_what_the_module_computes(dtype: torch.dtype) -> None:
    module = layer_norm().to(dtype)
    norm = identify_norm(module, DIM)
    x = random(5, DIM, seed=9) * 3 + 1
    z = (x - x.mean(1, keepdim=True)) / x.std(1, correction=0, keepdim=True)
    found = norm.gamma * z + norm.beta  # type: ignore[union-attr]
    assert torch.allclose(found.float(), module(x.to(dtype)).float(), atol=20 * torch.finfo(dtype).eps)


def test_a_norm_without_parameters() -> None:
    norm = identify_norm(layer_norm(affine=False), DIM)
    assert norm is not None
    assert torch.allclose(norm.gamma, torch.ones(DIM, dtype=torch.float64))
    assert not norm.beta.abs().gt(1e-10).any()


def test_the_module_is_unchanged_and_its_hooks_are_not_called() -> None:
    module, calls = layer_norm(), []
    module.register_forward_hook(lambda *_: calls.append(1))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert identify_norm(module, DIM) is not None
    assert not calls
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert module.weight.dtype == torch.float32


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


class Two(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Zero(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0 * x


OTHERS = {
    "identity": nn.Identity(),
    "dropout": nn.Dropout(0.5).eval(),
    "scaled": Scaled(),
    "zero": Zero(),
    "two arguments": Two(),
    "gelu": nn.GELU(),
    "tanh": nn.Tanh(),
    "softmax": nn.Softmax(-1),
    "projection": nn.Linear(DIM, DIM),
    "narrower": nn.LayerNorm(DIM // 2),
    "four groups": nn.Sequential(nn.Unflatten(-1, (4, 6)), nn.LayerNorm(6), nn.Flatten(2)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_modules_that_are_not_norms(name: str) -> None:
    assert identify_norm(OTHERS[name], DIM) is None
