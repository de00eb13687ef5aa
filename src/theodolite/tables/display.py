"""What surveys, series and laboratories share in Python: exhibits, reports, and their view in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

MOST_ROWS = 40
"""Rows of the summary that a notebook shows."""


class Display(ABC):
    """Draws exhibits, writes reports, and shows itself in a notebook: a small chart above the summary."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name."""

    @abstractmethod
    def summary(self) -> pd.DataFrame:
        """Return the most important numbers."""

    @abstractmethod
    def _chart(self) -> Any:
        """Return the figure that a notebook shows, or None if there is nothing to draw."""

    def exhibit(self, name: str, **options: Any) -> Any:
        """Return a figure or table of a paper, such as "norm-variance/fig4"; see `theodolite.exhibit`."""
        return figures().exhibit(name, self, **options)

    def report(self, out: str | Path = "report.html", **options: Any) -> Path:
        """Write a report, .html or .md, and return its path; see `theodolite.report`."""
        path: Path = import_module("theodolite.api.report").report(self, out, **options)
        return path

    def _repr_html_(self) -> str:
        """Show a chart and the summary in a notebook; pandas escapes text from models and corpora."""
        table = self.summary()
        shown = table.to_html(
            index=False, float_format=lambda x: f"{x:.4g}", na_rep="–", border=0, max_rows=MOST_ROWS
        )
        figure = self._chart()
        chart = ""
        if figure is not None:
            picture = b64encode(figure._repr_png_()).decode()
            chart = f'<img alt="{escape(self.name)}" src="data:image/png;base64,{picture}">'
        return f"<h4>{escape(self.name)}</h4><p>{escape(repr(self))}</p>{chart}{shown}"


def figures() -> Any:
    """Return the module that draws, which is imported only when something is drawn."""
    return import_module("theodolite.api.figures")
