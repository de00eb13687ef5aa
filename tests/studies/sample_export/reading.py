"""The projector's reading of its files, written down from what its scripts do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

Cell = str | float | None


def js_number(text: str) -> float | None:
    """What JavaScript's Number() makes of a text; None where that is NaN."""
    text = text.strip(" \t\n\r\v\f\xa0\ufeff\u2028\u2029")
    if not text:
        return 0.0
    if re.fullmatch(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+", text):
        return float(int(text, 0))
    if re.fullmatch(r"[+-]?(Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)", text, flags=re.ASCII):
        return float(text)
    return None


def read_metadata(path: Path) -> list[dict[str, Cell]]:
    """Blank lines are skipped; a first line with a tab is names; what looks like a number is one."""
    lines = [line for line in path.read_bytes().decode("utf-8").split("\n") if line.strip()]
    names = ["label"]
    if "\t" in lines[0]:
        names, lines = lines[0].split("\t"), lines[1:]
    return [dict(zip(names, map(_cell, line.split("\t")), strict=True)) for line in lines]


def _cell(text: str) -> Cell:
    if text == "":
        return None
    number = js_number(text)
    return text if number is None else number


def read_tensors(path: Path) -> np.ndarray:
    """Lines split at tabs, every cell a number."""
    lines = [line for line in path.read_bytes().decode("utf-8").split("\n") if line]
    return np.array([[float(cell) for cell in line.split("\t")] for line in lines], dtype=np.float32)


def read_config(path: Path) -> list[dict[str, list[str]]]:
    """Fields of each embedding; escapes in octal."""
    found = []
    for body in re.findall(r"embeddings \{\n(.*?)\n\}", path.read_text(encoding="ascii"), flags=re.DOTALL):
        fields: dict[str, list[str]] = {}
        for line in body.split("\n"):
            name, value = line.strip().split(": ", 1)
            octal = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), value.strip('"'))
            fields.setdefault(name, []).append(octal.encode("latin-1").decode("utf-8"))
        found.append(fields)
    return found
