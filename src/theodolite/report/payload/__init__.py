"""What the page's script is given: the survey's columns as packed numbers, its words as plain JSON."""

from theodolite.report.payload.payload import payload

__all__ = ["payload"]
