"""The report: finished tables as one self-contained HTML page, or as Markdown.

The module can be called: `theodolite.report(surveys, "report.html")`.

>>> from theodolite.report import Tables, render, write
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from theodolite.report.page import render, write
from theodolite.report.pictures import Picture
from theodolite.report.tables import Steps, Tables

__all__ = ["Picture", "Steps", "Tables", "render", "write"]


class _CallableModule(ModuleType):
    def __call__(
        self, surveys: Any, out: Any = "report.html", *, projections: str = "pca", listener: Any = None
    ) -> Any:
        """Write a report: see theodolite.api.report.report."""
        write_report = import_module("theodolite.api.report").report
        return write_report(surveys, out, projections=projections, listener=listener)


sys.modules[__name__].__class__ = _CallableModule
