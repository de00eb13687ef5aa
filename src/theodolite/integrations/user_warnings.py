"""Warnings that name the line of the user's own script."""

from __future__ import annotations

import sys
import warnings


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost line outside this package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("theodolite."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
