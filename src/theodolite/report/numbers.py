"""Numbers as a person reads them: four significant digits, a true minus, an en dash for undefined."""

from __future__ import annotations

import math

UNDEFINED = "–"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def show(value: float, digits: int = 4) -> str:
    """Write a number with so many significant digits.

    >>> [show(x) for x in (0.93412, -1.5, 12345.6, 0.0000123, float("nan"))]
    ['0.9341', '−1.5', '12,346', '1.23×10⁻⁵', '–']
    """
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and (size >= 1e7 or size < 1e-3):
        return _powers(value, min(digits, 3))
    text = f"{value:,.0f}" if size >= 10 ** (digits - 1) else f"{float(f'{value:.{digits}g}'):g}"
    return text.replace("-", "−")


def cell(value: float, digits: int = 4) -> str:
    """Write a number for a column: like `show`, but with its trailing zeros, so that neighbours line up.

    >>> [cell(x) for x in (175.0, 0.5, 2.0, 0.0, 12345.6)]
    ['175.0', '0.5000', '2.000', '0', '12,346']
    """
    plain = 1e-3 <= abs(value) < 10 ** (digits - 1)
    return f"{value:#.{digits}g}".rstrip(".").replace("-", "−") if plain else show(value, digits)


def count(value: float) -> str:
    """Write a whole number in full, with separators.

    >>> count(1234567.0)
    '1,234,567'
    """
    return f"{round(value):,}".replace("-", "−") if math.isfinite(value) else UNDEFINED


def percent(value: float, digits: int = 3) -> str:
    """Write a share in percent.

    >>> percent(0.9768), percent(1.05)
    ('97.7%', '105%')
    """
    return f"{show(100 * value, digits)}%"


def tick(value: float) -> str:
    """Write a number short enough for an axis.

    >>> [tick(x) for x in (0, 0.25, 20000, 3e6, 1e-4)]
    ['0', '0.25', '20k', '3M', '10⁻⁴']
    """
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-3:
        return _powers(value, 3)
    for unit, letter in ((1e6, "M"), (1e4, "k")):
        if size >= unit:
            return f"{value / (1e3 if letter == 'k' else unit):g}{letter}".replace("-", "−")
    return f"{value:.6g}".replace("-", "−")


def _powers(value: float, digits: int) -> str:
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    raised = "10" + str(int(power)).translate(_RAISED)
    return (raised if mantissa == "1" else f"{mantissa}×{raised}").replace("-", "−")
