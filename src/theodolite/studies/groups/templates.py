"""Templates: `The {boss|manager} was {glad|happy}.` stands for four sentences."""

from __future__ import annotations

import re
from itertools import product
from math import prod

from theodolite.errors import InputError

CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
MOST = 10_000
"""Sentences that one template may stand for."""


def expand(template: str) -> list[str]:
    """Return every sentence that a template stands for, the last choice changing fastest.

    Braces without a bar are text. An empty choice leaves its place out.

    >>> expand("A {cat|dog} {ran|sat}.")
    ['A cat ran.', 'A cat sat.', 'A dog ran.', 'A dog sat.']
    """
    parts = CHOICE.split(template)
    texts, choices = parts[::2], [part.split("|") for part in parts[1::2]]
    for text in texts:
        if "|" in text and ("{" in text or "}" in text):
            raise InputError(
                f"The template {template!r} has braces that do not match, or braces within braces; wanted "
                "{one|another} without others inside."
            )
    count = prod(map(len, choices))
    if count > MOST:
        raise InputError(f"The template {template!r} stands for {count:,} sentences; wanted at most {MOST:,}.")
    return ["".join(_woven(texts, chosen)) for chosen in product(*choices)]


def _woven(texts: list[str], chosen: tuple[str, ...]) -> list[str]:
    return [piece for pair in zip(texts, (*chosen, ""), strict=True) for piece in pair]
