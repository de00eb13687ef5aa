"""The data of the page's script: columns as packed numbers, everything else as plain JSON."""

from theodolite.report.payload.payload import build_payload

__all__ = ["build_payload"]
