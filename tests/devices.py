"""The devices on which a test runs: the CPU, and a GPU if there is one."""

from __future__ import annotations

import pytest
import torch

CUDA = pytest.param(
    "cuda",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="requires an NVIDIA GPU")],
)
DEVICES = ["cpu", CUDA]
