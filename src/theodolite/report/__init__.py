"""The page a person reads first: finished tables in, one self-contained HTML file out.

>>> from theodolite.report import Tables, render, write
"""

from theodolite.report.page import render
from theodolite.report.pictures import Picture
from theodolite.report.series_tables import Steps
from theodolite.report.tables import Tables
from theodolite.report.writing import write

__all__ = ["Picture", "Steps", "Tables", "render", "write"]
