"""Words on a figure: names from outside made safe to draw, numbers made short."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable

LONGEST = 48
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain(name: object, longest: int = LONGEST) -> str:
    """Return a name that matplotlib draws as it stands: no mathematics, nothing unseen, not too long.

    >>> print(plain("cost in $"), plain("a" + chr(0) + "b"), plain("someone/large-model-7b", 12))
    cost in \\$ a?b someon…el-7b
    """
    text = "".join("?" if unicodedata.category(char).startswith("C") else char for char in str(name))
    if len(text) > longest:  # both ends say more than the middle
        text = f"{text[: longest // 2]}…{text[len(text) - (longest - longest // 2 - 1) :]}"
    return text.replace("$", r"\$")


def number(value: float, digits: int = 3) -> str:
    """Return a number to so many digits, with a true minus.

    >>> number(-0.98765), number(1234567.0), number(float("nan")), number(0.0)
    ('−0.988', '1.23×10⁶', '–', '0')
    """
    if math.isnan(value):
        return "–"
    digits_of, _, power = f"{value:.{digits}g}".partition("e")
    raised = f"×10{str(int(power)).translate(SUPERSCRIPTS)}" if power else ""
    return digits_of.replace("-", "−") + raised


def looks_numeric(texts: Iterable[object]) -> bool:
    """Say whether a column of a printed table holds numbers, and so stands on the right.

    >>> looks_numeric(["1,234", "22.7M", "[−0.7, 1×10⁶]", "0.5 ± 0.1"]), looks_numeric(["1", "all"])
    (True, False)
    """
    return all(re.fullmatch(r"[-\d\s,.−–×⁻⁰¹²³⁴-⁹\[\]kMB±]*", str(text)) for text in texts)


def millions(count: int) -> str:
    """Return a count of parameters as the paper prints it.

    >>> millions(110_104_890), millions(22_713_216), millions(1_540_000_000), millions(6_400)
    ('110M', '22.7M', '1.54B', '6.4k')
    """
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= unit:
            return f"{count / unit:.3g}{name}"
    return str(count)
