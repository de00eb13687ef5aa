"""Fixtures that several folders share: small models, made once in a run of the tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from tests.shared import shared_folder

# One thread, set before numpy and torch are imported: on matrices as small as these more of them only wait for
# each other, which on a busy machine makes the tests ten times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

# No test loses power, so none waits until its files are on the disk: there are thousands of them.
os.fsync = os.fdatasync = lambda file: None

# No test depends on the clock: on a busy machine an example may take any time.
settings.register_profile("quick", deadline=None, max_examples=6)
settings.register_profile("ci", deadline=None, max_examples=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_collection_finish() -> None:
    """Exempt what is imported by now from garbage collection: PyTorch and transformers hold a million objects."""
    gc.freeze()
    # Collections at the default threshold take a twentieth of the time of the tests.
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the folder of a small random model of a family: bert, roberta, gpt2 or llama."""
    from tests.small_models import make

    def folder(family: str) -> Path:
        root = shared_folder(tmp_path_factory, f"model-{family}", lambda root: make(family, root / family))
        return root / family

    return folder


@pytest.fixture(autouse=True, scope="session")
def flags_in_messages() -> None:
    """Let messages name flags, as on the command line; tests/test_errors.py tests the names of Python."""
    from theodolite import errors

    errors.show_flags = True


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread, whatever a test before it left: with more threads sums differ in their bits."""
    from theodolite.engines.threads import one_torch_thread

    with one_torch_thread():
        yield
