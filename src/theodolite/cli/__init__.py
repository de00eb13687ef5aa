"""The command line: one file per verb. Nothing heavy is imported before a verb runs."""

from __future__ import annotations

from theodolite.cli.app import main

__all__ = ["main"]
