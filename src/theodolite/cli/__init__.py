"""The command line: one file per verb, and a few helpers. Heavy imports happen only when a verb runs."""

from __future__ import annotations

from theodolite.cli.app import main

__all__ = ["main"]
