"""Fixtures that several folders share: small models, made once in a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


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
