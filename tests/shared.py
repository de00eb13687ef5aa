"""Folders made once per test run, for tests and workers that only read them; and cases of `make test-all`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock


def shared_folder(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder of this name; the worker that comes first has `make` fill it, under another name.

    Tests that write work on a copy (shutil.copytree).
    """
    base = tmp_path_factory.getbasetemp()
    # Beside the folders of the workers where there are several.
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder, part = root / name, root / f".{name}.part"
    if folder.exists():
        return folder
    root.mkdir(exist_ok=True)
    with FileLock(root / f".{name}.lock"):
        if not folder.exists():
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            make(part)
            part.rename(folder)
    return folder


def slow(*values: object) -> Any:
    """Mark a case of a parametrized test as slow: quick cases beside it test the same behaviour."""
    return pytest.param(*values, marks=pytest.mark.slow)
