"""Fixtures that several folders share: small models, made once in a session."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

# One thread, set before numpy and torch are imported: on matrices as small as these more of them only wait for
# each other, which on a busy machine makes the tests ten times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the folder of a small random model of a family: bert, roberta, gpt2 or llama."""
    from tests.small_models import make

    root, made = tmp_path_factory.mktemp("models"), dict[str, Path]()

    def folder(family: str) -> Path:
        if family not in made:
            made[family] = make(family, root / family)
        return made[family]

    return folder
