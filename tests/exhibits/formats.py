"""The formats in which tests save an exhibit: the quick ones in one of them, the slow ones in all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def take_turns(exhibits: Iterable[Any], endings: Iterable[str]) -> list[Any]:
    """Pair every exhibit with every ending; the quick pairs have each exhibit once and the endings in turn."""
    endings = list(endings)
    return [
        pytest.param(
            exhibit,
            ending,
            marks=() if turn == number % len(endings) else pytest.mark.slow,
            id=f"{getattr(exhibit, 'id', exhibit)}-{ending}",
        )
        for number, exhibit in enumerate(exhibits)
        for turn, ending in enumerate(endings)
    ]
