"""The report: finished tables as one self-contained HTML page, or as Markdown.

>>> from theodolite.report import Tables, render, write
"""

from theodolite.report.page import render, write
from theodolite.report.pictures import Picture
from theodolite.report.tables import Steps, Tables

__all__ = ["Picture", "Steps", "Tables", "render", "write"]
