"""Where a test runs: on the processor, and on a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

CUDA = pytest.param(
    "cuda",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")],
)
DEVICES = ["cpu", CUDA]
