"""The devices on which a test runs: the CPU, and a GPU if there is one."""

from __future__ import annotations

import pytest
import torch

from theodolite.optional_triton import INTERPRETED, triton

ON_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="requires an NVIDIA GPU")]
KERNELS_ON_GPU = [*ON_GPU, pytest.mark.skipif(triton is None, reason="requires Triton")]
KERNELS_ON_CPU = pytest.mark.skipif(not INTERPRETED, reason="requires TRITON_INTERPRET=1")
DEVICES = ["cpu", pytest.param("cuda", marks=ON_GPU)]
